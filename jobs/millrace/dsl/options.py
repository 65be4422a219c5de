"""The option objects of the DSL: frozen; each ``with_`` method returns a changed copy. Named as in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from millrace.dsl.callables import check_callable, check_timestamp_extractor
from millrace.dsl.method_hints import EndOfStream
from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology.arguments import checks_arguments
from millrace.topology.naming import check_name
from millrace.topology.partitioners import Partitioner
from millrace.topology.rocksdb_options import RocksDBOptions
from millrace.topology.store_builders import StoreSupplier
from millrace.topology.stores import StoreBackend
from millrace.topology.timestamp_extractors import TimestampExtractor
from millrace.topology.versioned_suppliers import VersionedStoreSupplier
from millrace.topology.windows import Duration, to_milliseconds

if TYPE_CHECKING:
    from millrace.dsl.kstream import KStream
    from millrace.dsl.method_hints import EndOfStream


class AutoOffsetReset(StrEnum):
    """The offset at which a new application starts in an input topic."""

    EARLIEST = "earliest"
    LATEST = "latest"


@checks_arguments
@dataclass(frozen=True)
class Named:
    """The name of an operator. Every ``named`` argument takes a plain string as well."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name, what="node")

    @classmethod
    def as_(cls, name: str) -> Named:
        """Names an operator."""
        return cls(name)


def check_partitioner(partitioner: Partitioner | None, *, value: str = "value") -> None:
    """Refuses what cannot be called as a partitioner.

    Raises:
        TopologyError: it does not take ``(topic, key, value, partitions)``.
    """
    if partitioner is not None:
        check_callable(partitioner, 4, what="partitioner", takes=f"topic, key, {value}, partitions")


def name_of(named: Named | str | None) -> str | None:
    """Returns the checked name in ``named``."""
    if named is None:
        return None
    return (Named(named) if isinstance(named, str) else named).name


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Consumed:
    """The options of reading a topic.

    Args:
        key_serde: ``None`` takes the configuration's default; the same for ``value_serde``.
        timestamp_extractor: ``(key, value, record timestamp, partition time) -> timestamp`` in milliseconds; or, with
            topic, partition, offset and headers, ``(record, partition time) -> timestamp``, whose record is a
            :class:`ConsumerRecord`; or one of the extractors of this package. ``None`` takes the configuration's
            ``default.timestamp.extractor``.
        offset_reset: where a new application starts; ``None`` takes the configuration's ``auto.offset.reset``.
        name: name of the source node.
    """

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: AutoOffsetReset | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.timestamp_extractor, type):
            name = self.timestamp_extractor.__name__
            raise TopologyError(
                f"The timestamp extractor is the class {name}.", remedy=f"pass an object of it: {name}()"
            )

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Consumed:
        """Sets the serdes to read with."""
        return cls(key_serde=key_serde, value_serde=value_serde)

    @classmethod
    def as_(cls, name: str) -> Consumed:
        """Names the source node."""
        return cls().with_name(name)

    def with_key_serde(self, key_serde: Serde | None) -> Consumed:
        """Sets the key serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde | None) -> Consumed:
        """Sets the value serde."""
        return replace(self, value_serde=value_serde)

    def with_timestamp_extractor(self, timestamp_extractor: TimestampExtractor) -> Consumed:
        """Takes event time from ``(key, value, record timestamp, partition time)`` or ``(record, partition time)``.

        Raises:
            TopologyError: the extractor can be called with neither.
        """
        check_timestamp_extractor(timestamp_extractor)
        return replace(self, timestamp_extractor=timestamp_extractor)

    def with_offset_reset_policy(self, offset_reset: AutoOffsetReset | str) -> Consumed:
        """Sets where a new application starts: ``"earliest"`` or ``"latest"``.

        Raises:
            TopologyError: it is neither.
        """
        choices = [policy.value for policy in AutoOffsetReset]
        if offset_reset not in choices:
            raise TopologyError(f"The offset reset policy is one of {choices}, not {offset_reset!r}.")
        return replace(self, offset_reset=AutoOffsetReset(offset_reset))

    def with_name(self, name: str) -> Consumed:
        """Names the source node."""
        return replace(self, name=check_name(name, what="node"))


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Produced:
    """The options of writing a topic.

    Args:
        key_serde: ``None`` takes that of the stream; the same for ``value_serde``.
        stream_partitioner: ``(topic, key, value, number of partitions) -> partition``, or several of them, or none
            (KIP-837); ``None`` takes the murmur2 hash of the key's bytes (of a windowed key: of its key's bytes).
        name: name of the sink node.
    """

    key_serde: Serde | None = None
    value_serde: Serde | None = None
    stream_partitioner: Partitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_partitioner(self.stream_partitioner)

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Produced:
        """Sets the serdes to write with."""
        return cls(key_serde=key_serde, value_serde=value_serde)

    @classmethod
    def as_(cls, name: str) -> Produced:
        """Names the sink node."""
        return cls().with_name(name)

    def with_key_serde(self, key_serde: Serde | None) -> Produced:
        """Sets the key serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde | None) -> Produced:
        """Sets the value serde."""
        return replace(self, value_serde=value_serde)

    def with_stream_partitioner(self, partitioner: Partitioner) -> Produced:
        """Writes to the partitions that ``partitioner(topic, key, value, number of partitions)`` returns (KIP-837).

        Args:
            partitioner: gives a partition, from 0; or a set or list of partitions, each of which gets the record, and
                where it is empty none does: the record is dropped and counted; or ``None``, which takes the murmur2
                hash of the key's bytes.

        Raises:
            TopologyError: it cannot be called so.
        """
        return replace(self, stream_partitioner=partitioner)

    def with_name(self, name: str) -> Produced:
        """Names the sink node."""
        return replace(self, name=check_name(name, what="node"))


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Grouped:
    """The options of grouping a stream.

    Args:
        name: name of the repartition topic (and of the key-selecting node of ``group_by``).
        key_serde: ``None`` takes the stream's, where its key did not change; the same for ``value_serde``.
    """

    name: str | None = None
    key_serde: Serde | None = None
    value_serde: Serde | None = None

    @classmethod
    def as_(cls, name: str) -> Grouped:
        """Names the repartition topic."""
        return cls().with_name(name)

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Grouped:
        """Sets the serdes of the grouped stream."""
        return cls(key_serde=key_serde, value_serde=value_serde)

    def with_key_serde(self, key_serde: Serde | None) -> Grouped:
        """Sets the key serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde | None) -> Grouped:
        """Sets the value serde."""
        return replace(self, value_serde=value_serde)

    def with_name(self, name: str) -> Grouped:
        """Names the repartition topic."""
        return replace(self, name=check_name(name, what="repartition topic"))


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Repartitioned:
    """The options of sending a stream through a topic by ``repartition()``.

    Args:
        name: name of the topic, without the application prefix and the ``-repartition`` suffix.
        key_serde: ``None`` takes the stream's; the same for ``value_serde``.
        number_of_partitions: ``None`` takes as many as the inputs have at most.
        stream_partitioner: ``None`` takes the murmur2 hash of the key's bytes.
    """

    name: str | None = None
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    number_of_partitions: int | None = None
    stream_partitioner: Partitioner | None = None

    def __post_init__(self) -> None:
        check_partitioner(self.stream_partitioner)

    @classmethod
    def as_(cls, name: str) -> Repartitioned:
        """Names the topic."""
        return cls().with_name(name)

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Repartitioned:
        """Sets the serdes of the topic."""
        return cls(key_serde=key_serde, value_serde=value_serde)

    def with_key_serde(self, key_serde: Serde | None) -> Repartitioned:
        """Sets the key serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde | None) -> Repartitioned:
        """Sets the value serde."""
        return replace(self, value_serde=value_serde)

    def with_number_of_partitions(self, number_of_partitions: int) -> Repartitioned:
        """Sets the number of partitions, above 0.

        Raises:
            TopologyError: it is not.
        """
        if number_of_partitions < 1:
            raise TopologyError(f"A topic has at least 1 partition, not {number_of_partitions}.")
        return replace(self, number_of_partitions=number_of_partitions)

    def with_stream_partitioner(self, partitioner: Partitioner) -> Repartitioned:
        """Writes to the partitions that ``partitioner(topic, key, value, number of partitions)`` returns (KIP-837).

        Args:
            partitioner: gives a partition, from 0; or a set or list of partitions, each of which gets the record, and
                where it is empty none does: the record is dropped and counted; or ``None``, which takes the murmur2
                hash of the key's bytes.

        Raises:
            TopologyError: it cannot be called so.
        """
        return replace(self, stream_partitioner=partitioner)

    def with_name(self, name: str) -> Repartitioned:
        """Names the topic."""
        return replace(self, name=check_name(name, what="repartition topic"))


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Joined:
    """The options of joining a stream with a table.

    Args:
        name: name of the join node and of the repartition topic in front of it, where it needs one.
        key_serde: ``None`` takes the stream's; the same for ``value_serde``. They are used for the repartition topic,
            and for the buffer of a join with grace.
        other_value_serde: of the table's values. As in Kafka Streams nothing depends on it: a table has a serde of its
            own. It is here so that a join may be written with all three.
        grace_ms: how long a stream record waits for late updates of a versioned table, milliseconds of stream time;
            ``None``: it is joined at once.
    """

    name: str | None = None
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    other_value_serde: Serde | None = None
    grace_ms: int | None = None

    @classmethod
    def as_(cls, name: str) -> Joined:
        """Names the join node."""
        return cls().with_name(name)

    @classmethod
    def with_(
        cls,
        key_serde: Serde | None = None,
        value_serde: Serde | None = None,
        other_value_serde: Serde | None = None,
    ) -> Joined:
        """Sets the serdes, the last that of the table's values."""
        return cls(key_serde=key_serde, value_serde=value_serde, other_value_serde=other_value_serde)

    def with_key_serde(self, key_serde: Serde | None) -> Joined:
        """Sets the key serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde | None) -> Joined:
        """Sets the value serde of the stream."""
        return replace(self, value_serde=value_serde)

    def with_other_value_serde(self, other_value_serde: Serde | None) -> Joined:
        """Sets the value serde of the table."""
        return replace(self, other_value_serde=other_value_serde)

    def with_grace_period(self, grace: Duration) -> Joined:
        """Lets each stream record wait until stream time is ``grace`` past it, for late updates of the table (KIP-923).

        Stream time is that of the records that reach the join. They are released in the order of their timestamps; one
        that is late itself is joined at once. The table must be versioned and keep at least ``grace`` of history.

        Raises:
            TopologyError: it is negative, or no duration.
        """
        grace_ms = to_milliseconds(grace)
        if grace_ms < 0:
            raise TopologyError(f"The grace period must be 0 ms or more, not {grace_ms}.")
        return replace(self, grace_ms=grace_ms)

    def with_name(self, name: str) -> Joined:
        """Names the join node."""
        return replace(self, name=check_name(name, what="node"))


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Materialized:
    """The options of storing a table.

    Args:
        name: name of the store; ``None`` generates one, which moves when operators are inserted before it.
        key_serde: ``None`` takes the stream's; the same for ``value_serde``.
        caching: whether updates of a key within one commit are merged into one.
        logging: whether a changelog topic backs the store.
        changelog_settings: topic settings of the changelog that override its defaults.
        retention_ms: how long a window is kept after its start, milliseconds of stream time; ``None`` takes window
            size and grace.
        store_type: RocksDB on disk, or memory.
        rocksdb: tuning of RocksDB for this store; ``None`` takes the configuration's ``rocksdb.*``.
        supplier: where the store is, instead of ``store_type``; windows and sessions have their retention from it. A
            versioned one has no caching.
    """

    name: str | None = None
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    caching: bool = True
    logging: bool = True
    changelog_settings: tuple[tuple[str, str], ...] = ()
    retention_ms: int | None = None
    store_type: StoreBackend = StoreBackend.ROCKSDB
    rocksdb: RocksDBOptions | None = None
    supplier: StoreSupplier | VersionedStoreSupplier | None = None

    @classmethod
    def as_(cls, name: str | StoreBackend | StoreSupplier | VersionedStoreSupplier) -> Materialized:
        """Stores the table in one called ``name``, in an unnamed one of a store type, or in one of :class:`Stores`."""
        if isinstance(name, StoreSupplier | VersionedStoreSupplier):
            return cls(name=name.name, supplier=name)
        if isinstance(name, StoreBackend):
            return cls(store_type=name)
        return cls(name=check_name(name, what="store"))

    @classmethod
    def with_(cls, key_serde: Serde | None = None, value_serde: Serde | None = None) -> Materialized:
        """Stores the table in a store with a generated name and these serdes."""
        return cls(key_serde=key_serde, value_serde=value_serde)

    def with_key_serde(self, key_serde: Serde | None) -> Materialized:
        """Sets the key serde."""
        return replace(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde | None) -> Materialized:
        """Sets the value serde."""
        return replace(self, value_serde=value_serde)

    def with_caching_enabled(self) -> Materialized:
        """Updates of a key within one commit are merged into one."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> Materialized:
        """Sends every update downstream."""
        return replace(self, caching=False)

    def with_logging_enabled(self, settings: Mapping[str, str] | None = None) -> Materialized:
        """Backs the store by a changelog topic with these topic settings over its defaults."""
        pairs = tuple(sorted((key, str(value)) for key, value in (settings or {}).items()))
        return replace(self, logging=True, changelog_settings=pairs)

    def with_logging_disabled(self) -> Materialized:
        """Keeps no changelog topic: the store starts empty wherever its task moves."""
        return replace(self, logging=False, changelog_settings=())

    def with_retention(self, retention: Duration) -> Materialized:
        """Keeps the windows for ``retention`` after their start.

        Raises:
            TopologyError: it is negative, or no duration.
        """
        retention_ms = to_milliseconds(retention)
        if retention_ms < 0:
            raise TopologyError(f"The retention must be 0 ms or more, not {retention_ms}.")
        return replace(self, retention_ms=retention_ms)

    def with_store_type(self, store_type: StoreBackend | str) -> Materialized:
        """Chooses RocksDB or memory: a :class:`StoreBackend`, or its text, ``"rocksdb"`` or ``"memory"``.

        Raises:
            TopologyError: it is neither.
        """
        choices = [backend.value for backend in StoreBackend]
        if store_type not in choices:
            raise TopologyError(
                f"The store type is one of {choices}, not {store_type!r}.", remedy="pass StoreBackend.ROCKSDB or MEMORY"
            )
        return replace(self, store_type=StoreBackend(store_type))

    def with_rocksdb_options(self, options: RocksDBOptions) -> Materialized:
        """Sets a tuning of RocksDB for this store."""
        return replace(self, rocksdb=options)


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class Branched:
    """The options of a branch of ``split()``.

    Args:
        name: suffix of the branch's name; ``None`` takes its number, ``0`` for the default branch.
        function: applied to the branch; the result stands in the dictionary of branches (``None`` leaves it out).
        consumer: called with the branch, which then does not stand in the dictionary.
    """

    name: str | None = None
    function: Callable[[KStream], KStream | EndOfStream | None] | None = None
    consumer: Callable[[KStream], Any] | None = None

    def __post_init__(self) -> None:
        if self.function is not None:
            check_callable(self.function, 1, what="branch function", takes="stream")
        if self.consumer is not None:
            check_callable(self.consumer, 1, what="branch consumer", takes="stream")

    @classmethod
    def as_(cls, name: str) -> Branched:
        """Names the branch: ``name`` is its suffix."""
        return cls(name=check_name(name, what="branch"))

    @classmethod
    def with_function(
        cls, function: Callable[[KStream], KStream | EndOfStream | None], *, name: str | None = None
    ) -> Branched:
        """Returns a branch that ``function`` makes another stream of."""
        return cls(name=name and check_name(name, what="branch"), function=function)

    @classmethod
    def with_consumer(cls, consumer: Callable[[KStream], Any], *, name: str | None = None) -> Branched:
        """Returns a branch that ``consumer`` uses up."""
        return cls(name=name and check_name(name, what="branch"), consumer=consumer)
