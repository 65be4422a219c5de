"""The DSL, named as in Kafka Streams."""

from __future__ import annotations

from millrace.dsl.branched import BranchedKStream
from millrace.dsl.builder import StreamsBuilder
from millrace.dsl.cogrouped import (
    CogroupedKStream,
    SessionWindowedCogroupedKStream,
    TimeWindowedCogroupedKStream,
)
from millrace.dsl.global_ktable import GlobalKTable
from millrace.dsl.grouped import KGroupedStream, TimeWindowedKStream
from millrace.dsl.kgrouped_table import KGroupedTable
from millrace.dsl.kstream import KStream
from millrace.dsl.ktable import KTable
from millrace.dsl.options import (
    AutoOffsetReset,
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Produced,
    Repartitioned,
)
from millrace.dsl.session_windowed import SessionWindowedKStream
from millrace.dsl.stream_joined import StreamJoined
from millrace.dsl.suppressed import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed
from millrace.dsl.table_joined import TableJoined
from millrace.topology.field_timestamp import field_timestamp
from millrace.topology.rocksdb_options import Compression, RocksDBOptions
from millrace.topology.session_windows import SessionWindows
from millrace.topology.sliding_windows import SlidingWindows
from millrace.topology.stores import StoreBackend
from millrace.topology.timestamp_extractors import (
    ExtractRecordMetadataTimestamp,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.windows import JoinWindows, TimeWindows

__all__ = [
    "AutoOffsetReset",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "Compression",
    "Consumed",
    "EagerBufferConfig",
    "ExtractRecordMetadataTimestamp",
    "FailOnInvalidTimestamp",
    "GlobalKTable",
    "Grouped",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Named",
    "Produced",
    "Repartitioned",
    "RocksDBOptions",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "StoreBackend",
    "StreamJoined",
    "StreamsBuilder",
    "StrictBufferConfig",
    "Suppressed",
    "TableJoined",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "WallclockTimestampExtractor",
    "field_timestamp",
]
