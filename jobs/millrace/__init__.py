"""Kafka Streams for Python people: every name that an application, its test and its readers need.

``import millrace as ms`` or ``from millrace import StreamsBuilder, Consumed, JsonSerde``. A name is imported from its
package when it is first asked for (PEP 562), so that commands which need none of them do not wait for Arrow.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millrace.config import (
        ProcessingEngine,
        ProcessingGuarantee,
        StreamsConfig,
    )
    from millrace.dsl import (
        NOT_PUT,
        VALID_TO_UNDEFINED,
        AutoOffsetReset,
        Branched,
        BranchedKStream,
        BufferConfig,
        Cancellable,
        CogroupedKStream,
        Compression,
        ConnectedStoreProvider,
        Consumed,
        EagerBufferConfig,
        EmitStrategy,
        ExtractRecordMetadataTimestamp,
        FailOnInvalidTimestamp,
        FixedKeyProcessor,
        FixedKeyProcessorContext,
        FixedKeyRecord,
        GlobalKTable,
        Grouped,
        Joined,
        JoinWindows,
        KeyValueStore,
        KGroupedStream,
        KGroupedTable,
        KStream,
        KTable,
        LogAndSkipOnInvalidTimestamp,
        Materialized,
        Named,
        Printed,
        ProcessingContext,
        Processor,
        ProcessorContext,
        Produced,
        PunctuationType,
        ReadOnlyKeyValueStore,
        ReadOnlySessionStore,
        ReadOnlyWindowStore,
        Record,
        RecordContext,
        RecordMetadata,
        Repartitioned,
        RocksDBOptions,
        SessionStore,
        SessionWindowedCogroupedKStream,
        SessionWindowedKStream,
        SessionWindows,
        SlidingWindows,
        StateStore,
        StoreBackend,
        StoreBuilder,
        Stores,
        StoreSupplier,
        StreamJoined,
        StreamsBuilder,
        StrictBufferConfig,
        Suppressed,
        TableJoined,
        TimeWindowedCogroupedKStream,
        TimeWindowedKStream,
        TimeWindows,
        Topology,
        UnlimitedWindows,
        UsePartitionTimeOnInvalidTimestamp,
        ValueAndTimestamp,
        ValueTransformerWithKey,
        VersionedKeyValueStore,
        VersionedRecord,
        VersionedStoreSupplier,
        WallclockTimestampExtractor,
        WindowStore,
        field_timestamp,
        record_key,
        record_timestamp,
        record_value,
        value_field,
    )
    from millrace.dsl import aggregators as agg
    from millrace.errors import (
        ArgumentError,
        BrokerUnavailableError,
        BufferFullError,
        ConfigurationError,
        DriverFencedError,
        InvalidTimestampError,
        MillraceError,
        MissingMethodError,
        OffsetOutOfRangeError,
        OffsetsMovedError,
        OpenTransactionError,
        OperationError,
        PreflightError,
        ProcessingError,
        QueryError,
        RecordRefusedError,
        RecordTooLargeError,
        SchemaRegistryUnavailableError,
        SerializationError,
        StateCorruptedError,
        StateDirectoryLockedError,
        StateError,
        StateWriteError,
        TaskMigratedError,
        TopicRefusedError,
        TopologyError,
        TransactionAbortedError,
        UnknownTopicError,
    )
    from millrace.handlers import (
        ConsumerRecord,
        ErrorHandlerContext,
        ProcessedRecord,
        ProducerRecord,
        Response,
        Result,
        SerializationExceptionOrigin,
        dead_letter,
        dead_letters_for,
    )
    from millrace.queries import (
        QueryClient,
        QueryRefusedError,
    )
    from millrace.serdes import (
        AvroSerde,
        BeyondDatetime,
        BytesSerde,
        DoubleSerde,
        FloatSerde,
        FunctionSerde,
        IntegerSerde,
        JsonSerde,
        LongSerde,
        Serde,
        SessionWindowedSerde,
        ShortSerde,
        StringSerde,
        TimeWindowedSerde,
        UUIDSerde,
        Windowed,
        WindowedSerializer,
        deserialize_windowed,
        serde_by_name,
        serde_from,
        serde_named,
        serialize_sessions,
        serialize_windowed,
        topic_record_subject,
        topic_subject,
    )
    from millrace.testing import (
        TestInputTopic,
        TestJoinStore,
        TestKeyValueStore,
        TestOuterJoinStore,
        TestOutputTopic,
        TestRecord,
        TestSessionStore,
        TestSuppressionBuffer,
        TestVersionedStore,
        TestWindowStore,
        TopologyTestDriver,
    )

__all__ = [
    "NOT_PUT",
    "VALID_TO_UNDEFINED",
    "ArgumentError",
    "AutoOffsetReset",
    "AvroSerde",
    "BeyondDatetime",
    "Branched",
    "BranchedKStream",
    "BrokerUnavailableError",
    "BufferConfig",
    "BufferFullError",
    "BytesSerde",
    "Cancellable",
    "CogroupedKStream",
    "Compression",
    "ConfigurationError",
    "ConnectedStoreProvider",
    "Consumed",
    "ConsumerRecord",
    "DoubleSerde",
    "DriverFencedError",
    "EagerBufferConfig",
    "EmitStrategy",
    "ErrorHandlerContext",
    "ExtractRecordMetadataTimestamp",
    "FailOnInvalidTimestamp",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "FloatSerde",
    "FunctionSerde",
    "GlobalKTable",
    "Grouped",
    "IntegerSerde",
    "InvalidTimestampError",
    "JoinWindows",
    "Joined",
    "JsonSerde",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValueStore",
    "LogAndSkipOnInvalidTimestamp",
    "LongSerde",
    "Materialized",
    "MillraceError",
    "MissingMethodError",
    "Named",
    "OffsetOutOfRangeError",
    "OffsetsMovedError",
    "OpenTransactionError",
    "OperationError",
    "PreflightError",
    "Printed",
    "ProcessedRecord",
    "ProcessingContext",
    "ProcessingEngine",
    "ProcessingError",
    "ProcessingGuarantee",
    "Processor",
    "ProcessorContext",
    "Produced",
    "ProducerRecord",
    "PunctuationType",
    "QueryClient",
    "QueryError",
    "QueryRefusedError",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Record",
    "RecordContext",
    "RecordMetadata",
    "RecordRefusedError",
    "RecordTooLargeError",
    "Repartitioned",
    "Response",
    "Result",
    "RocksDBOptions",
    "SchemaRegistryUnavailableError",
    "Serde",
    "SerializationError",
    "SerializationExceptionOrigin",
    "SessionStore",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindowedSerde",
    "SessionWindows",
    "ShortSerde",
    "SlidingWindows",
    "StateCorruptedError",
    "StateDirectoryLockedError",
    "StateError",
    "StateStore",
    "StateWriteError",
    "StoreBackend",
    "StoreBuilder",
    "StoreSupplier",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsConfig",
    "StrictBufferConfig",
    "StringSerde",
    "Suppressed",
    "TableJoined",
    "TaskMigratedError",
    "TestInputTopic",
    "TestJoinStore",
    "TestKeyValueStore",
    "TestOuterJoinStore",
    "TestOutputTopic",
    "TestRecord",
    "TestSessionStore",
    "TestSuppressionBuffer",
    "TestVersionedStore",
    "TestWindowStore",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindowedSerde",
    "TimeWindows",
    "TopicRefusedError",
    "Topology",
    "TopologyError",
    "TopologyTestDriver",
    "TransactionAbortedError",
    "UUIDSerde",
    "UnknownTopicError",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTransformerWithKey",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "VersionedStoreSupplier",
    "WallclockTimestampExtractor",
    "WindowStore",
    "Windowed",
    "WindowedSerializer",
    "agg",
    "dead_letter",
    "dead_letters_for",
    "deserialize_windowed",
    "field_timestamp",
    "record_key",
    "record_timestamp",
    "record_value",
    "serde_by_name",
    "serde_from",
    "serde_named",
    "serialize_sessions",
    "serialize_windowed",
    "topic_record_subject",
    "topic_subject",
    "value_field",
]

# Where each name is at home.
_MODULES = {
    "millrace.config": "ProcessingEngine ProcessingGuarantee StreamsConfig",
    "millrace.dsl": (
        "AutoOffsetReset Branched BranchedKStream BufferConfig Cancellable CogroupedKStream Compression "
        "ConnectedStoreProvider Consumed EagerBufferConfig EmitStrategy ExtractRecordMetadataTimestamp "
        "FailOnInvalidTimestamp FixedKeyProcessor FixedKeyProcessorContext FixedKeyRecord GlobalKTable Grouped "
        "JoinWindows Joined KGroupedStream KGroupedTable KStream KTable KeyValueStore "
        "LogAndSkipOnInvalidTimestamp Materialized NOT_PUT Named Printed ProcessingContext Processor "
        "ProcessorContext Produced PunctuationType ReadOnlyKeyValueStore ReadOnlySessionStore ReadOnlyWindowStore "
        "Record RecordContext RecordMetadata Repartitioned RocksDBOptions SessionStore "
        "SessionWindowedCogroupedKStream SessionWindowedKStream SessionWindows SlidingWindows StateStore "
        "StoreBackend StoreBuilder StoreSupplier Stores StreamJoined StreamsBuilder StrictBufferConfig Suppressed "
        "TableJoined TimeWindowedCogroupedKStream TimeWindowedKStream TimeWindows Topology UnlimitedWindows "
        "UsePartitionTimeOnInvalidTimestamp VALID_TO_UNDEFINED ValueAndTimestamp ValueTransformerWithKey "
        "VersionedKeyValueStore VersionedRecord VersionedStoreSupplier WallclockTimestampExtractor WindowStore "
        "field_timestamp record_key record_timestamp record_value value_field"
    ),
    "millrace.errors": (
        "ArgumentError BrokerUnavailableError BufferFullError ConfigurationError DriverFencedError "
        "InvalidTimestampError MillraceError MissingMethodError OffsetOutOfRangeError OffsetsMovedError "
        "OpenTransactionError OperationError PreflightError ProcessingError QueryError RecordRefusedError "
        "RecordTooLargeError SchemaRegistryUnavailableError SerializationError StateCorruptedError "
        "StateDirectoryLockedError StateError StateWriteError TaskMigratedError TopicRefusedError TopologyError "
        "TransactionAbortedError UnknownTopicError"
    ),
    "millrace.handlers": (
        "ConsumerRecord ErrorHandlerContext ProcessedRecord ProducerRecord Response Result "
        "SerializationExceptionOrigin dead_letter dead_letters_for"
    ),
    "millrace.queries": "QueryClient QueryRefusedError",
    "millrace.serdes": (
        "AvroSerde BeyondDatetime BytesSerde DoubleSerde FloatSerde FunctionSerde IntegerSerde JsonSerde "
        "LongSerde Serde SessionWindowedSerde ShortSerde StringSerde TimeWindowedSerde UUIDSerde Windowed "
        "WindowedSerializer deserialize_windowed serde_by_name serde_from serde_named serialize_sessions "
        "serialize_windowed topic_record_subject topic_subject"
    ),
    "millrace.testing": (
        "TestInputTopic TestJoinStore TestKeyValueStore TestOuterJoinStore TestOutputTopic TestRecord TestSessionStore "
        "TestSuppressionBuffer TestVersionedStore TestWindowStore TopologyTestDriver"
    ),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "agg":
        found: Any = import_module("millrace.dsl.aggregators")
    elif name in _MODULE_OF:
        found = getattr(import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
