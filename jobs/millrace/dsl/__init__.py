"""The DSL, named as in Kafka Streams."""

from __future__ import annotations

from millrace.config import StreamsConfig
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
from millrace.dsl.low_level import Topology
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
from millrace.dsl.printed import Printed
from millrace.dsl.session_windowed import SessionWindowedKStream
from millrace.dsl.stream_joined import StreamJoined
from millrace.dsl.suppressed import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed
from millrace.dsl.table_joined import TableJoined
from millrace.handlers import ConsumerRecord
from millrace.topology.custom_stores import StateStore
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.expression_fields import record_key, record_timestamp, record_value, value_field
from millrace.topology.field_timestamp import field_timestamp
from millrace.topology.processor_api import (
    Cancellable,
    ConnectedStoreProvider,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    FixedKeyRecord,
    ProcessingContext,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordMetadata,
    ValueTransformerWithKey,
)
from millrace.topology.rocksdb_options import Compression, RocksDBOptions
from millrace.topology.session_windows import SessionWindows
from millrace.topology.sliding_windows import SlidingWindows
from millrace.topology.state_stores import (
    NOT_PUT,
    VALID_TO_UNDEFINED,
    KeyValueStore,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    SessionStore,
    ValueAndTimestamp,
    VersionedKeyValueStore,
    VersionedRecord,
    WindowStore,
)
from millrace.topology.store_builders import StoreBuilder, Stores, StoreSupplier
from millrace.topology.stores import StoreBackend
from millrace.topology.timestamp_extractors import (
    ExtractRecordMetadataTimestamp,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from millrace.topology.topic_extractors import RecordContext
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.versioned_suppliers import VersionedStoreSupplier
from millrace.topology.windows import JoinWindows, TimeWindows

__all__ = [
    "NOT_PUT",
    "VALID_TO_UNDEFINED",
    "AutoOffsetReset",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "Cancellable",
    "CogroupedKStream",
    "Compression",
    "ConnectedStoreProvider",
    "Consumed",
    "ConsumerRecord",
    "EagerBufferConfig",
    "EmitStrategy",
    "ExtractRecordMetadataTimestamp",
    "FailOnInvalidTimestamp",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "GlobalKTable",
    "Grouped",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValueStore",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Named",
    "Printed",
    "ProcessingContext",
    "Processor",
    "ProcessorContext",
    "Produced",
    "PunctuationType",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Record",
    "RecordContext",
    "RecordMetadata",
    "Repartitioned",
    "RocksDBOptions",
    "SessionStore",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "StateStore",
    "StoreBackend",
    "StoreBuilder",
    "StoreSupplier",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsConfig",
    "StrictBufferConfig",
    "Suppressed",
    "TableJoined",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "Topology",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTransformerWithKey",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "VersionedStoreSupplier",
    "WallclockTimestampExtractor",
    "WindowStore",
    "field_timestamp",
    "record_key",
    "record_timestamp",
    "record_value",
    "value_field",
]
