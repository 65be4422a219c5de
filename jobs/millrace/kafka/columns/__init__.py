"""Readers that return the records of assigned topic-partitions in columns."""

from millrace.kafka.columns.choice import READER_VARIABLE, open_reader
from millrace.kafka.columns.reader import BEGINNING, NO_TIMESTAMP, PartitionColumns, PartitionReader, RecordHeaders
from millrace.kafka.columns.settings import ReaderSettings

__all__ = [
    "BEGINNING",
    "NO_TIMESTAMP",
    "READER_VARIABLE",
    "PartitionColumns",
    "PartitionReader",
    "ReaderSettings",
    "RecordHeaders",
    "open_reader",
]
