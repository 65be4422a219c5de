"""Records of assigned topic-partitions, read in columns."""

from millrace.kafka.columns.choice import READER_VARIABLE, open_reader
from millrace.kafka.columns.reader import (
    BEGINNING,
    NO_TIMESTAMP,
    PartitionColumns,
    PartitionReader,
    RecordHeaders,
    TopicPartition,
)
from millrace.kafka.columns.settings import ReaderSettings

__all__ = [
    "BEGINNING",
    "NO_TIMESTAMP",
    "READER_VARIABLE",
    "PartitionColumns",
    "PartitionReader",
    "ReaderSettings",
    "RecordHeaders",
    "TopicPartition",
    "open_reader",
]
