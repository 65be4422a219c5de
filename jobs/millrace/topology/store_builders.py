"""Stores of processors: ``Stores`` and ``StoreBuilder`` of ``org.apache.kafka.streams.state``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology.arguments import checks_arguments
from millrace.topology.custom_stores import StoreFactory
from millrace.topology.naming import check_name
from millrace.topology.rocksdb_options import RocksDBOptions
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.versioned_suppliers import VersionedStoreSupplier, versioned_store
from millrace.topology.windows import Duration, to_milliseconds


@checks_arguments
@dataclass(frozen=True)
class StoreBuilder:
    """A store to be added to a topology. Each ``with_`` method returns a changed copy.

    As in Kafka Streams it is logged and not cached unless set otherwise.

    Args:
        spec: the store.
    """

    spec: StoreSpec

    @property
    def name(self) -> str:
        """Name of the store."""
        return self.spec.name

    def with_caching_enabled(self) -> StoreBuilder:
        """Sends only the last write of a key within one commit to the changelog; versioned stores are never cached."""
        return StoreBuilder(replace(self.spec, cached=self.spec.kind is not StoreKind.VERSIONED))

    def with_caching_disabled(self) -> StoreBuilder:
        """Sends every write to the changelog."""
        return StoreBuilder(replace(self.spec, cached=False))

    def with_rocksdb_options(self, options: RocksDBOptions) -> StoreBuilder:
        """Sets a tuning of RocksDB for this store."""
        return StoreBuilder(replace(self.spec, rocksdb=options))

    def with_logging_enabled(self, settings: Mapping[str, str] | None = None) -> StoreBuilder:
        """Backs the store by a changelog topic with these topic settings over its defaults."""
        pairs = tuple(sorted((key, str(value)) for key, value in (settings or {}).items()))
        return StoreBuilder(replace(self.spec, logged=True, changelog_settings=pairs))

    def with_logging_disabled(self) -> StoreBuilder:
        """Keeps no changelog topic: the store starts empty wherever its task moves."""
        return StoreBuilder(replace(self.spec, logged=False, changelog_settings=()))


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class StoreSupplier:
    """The place where a store keeps its bytes, and the shape of its keys.

    Made by :class:`Stores`, and taken by its builders, ``Materialized.as_`` and ``StreamJoined``.

    Args:
        name: name of the store.
        kind: shape of its keys.
        backend: RocksDB on disk, or memory.
        retention_ms: how long a window is kept after its start, a session after its end, milliseconds.
        window_size_ms: length of the windows.
        retains_duplicates: whether several values of one key and window are kept: what a join of two streams needs.
        capacity: most keys, of a least-recently-used map.
        custom: makes the store, where it is one of the user's.
        rocksdb: tuning of RocksDB for this store.
    """

    name: str
    kind: StoreKind
    backend: StoreBackend
    retention_ms: int = 0
    window_size_ms: int = 0
    retains_duplicates: bool = False
    capacity: int | None = None
    custom: StoreFactory | None = None
    rocksdb: RocksDBOptions | None = None

    def with_rocksdb_options(self, options: RocksDBOptions) -> StoreSupplier:
        """Sets a tuning of RocksDB for this store."""
        return replace(self, rocksdb=options)

    def place(self, spec: StoreSpec) -> StoreSpec:
        """Returns ``spec`` with the backend that this supplier names."""
        return replace(
            spec,
            backend=self.backend,
            custom=self.custom,
            capacity=self.capacity,
            rocksdb=self.rocksdb or spec.rocksdb,
            supplied=True,
        )


@checks_arguments
class Stores:
    """Makes stores for processors, named as in Kafka Streams.

    Example::

        Stores.key_value_store_builder(Stores.persistent_key_value_store("totals"), StringSerde(), LongSerde())
    """

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSupplier:
        """Keys and values in RocksDB."""
        return _key_value(name, StoreBackend.ROCKSDB)

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSupplier:
        """Keys and values in memory, restored from the changelog at each start."""
        return _key_value(name, StoreBackend.MEMORY)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSupplier:
        """Works like :meth:`persistent_key_value_store`: here every store keeps timestamps (KIP-258)."""
        return _key_value(name, StoreBackend.ROCKSDB)

    @staticmethod
    def lru_map(name: str, max_cache_size: int) -> StoreSupplier:
        """Keys and values in memory, so many keys at most: a new one pushes out the one that was not used for longest.

        What is pushed out is deleted in the changelog too. What is there depends on each single read and write, so
        the records of a sub-topology with such a store are taken one by one, which costs throughput.

        Args:
            name: name of the store.
            max_cache_size: most keys, above 0.

        Raises:
            TopologyError: it is not.
        """
        if max_cache_size < 1:
            raise TopologyError(f"The map {name!r} holds at least 1 key, not {max_cache_size}.")
        return replace(_key_value(name, StoreBackend.MEMORY), capacity=max_cache_size)

    @staticmethod
    def custom_key_value_store(name: str, factory: StoreFactory) -> StoreSupplier:
        """Keys and values in a store of your own. Not in Kafka Streams, where it is a supplier class.

        Args:
            name: name of the store.
            factory: ``name -> store``, see :class:`~millrace.topology.custom_stores.StateStore`.
        """
        return replace(_key_value(name, StoreBackend.MEMORY), custom=factory)

    @staticmethod
    def custom_window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        factory: StoreFactory,
        *,
        retain_duplicates: bool = False,
    ) -> StoreSupplier:
        """Works like :meth:`persistent_window_store`, in a store of your own."""
        supplier = _window(name, retention, window_size, StoreBackend.MEMORY, retain_duplicates=retain_duplicates)
        return replace(supplier, custom=factory)

    @staticmethod
    def custom_session_store(name: str, retention: Duration, factory: StoreFactory) -> StoreSupplier:
        """Works like :meth:`persistent_session_store`, in a store of your own."""
        return replace(_session(name, retention, StoreBackend.MEMORY), custom=factory)

    @staticmethod
    def persistent_window_store(
        name: str, retention: Duration, window_size: Duration, *, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Returns the values by key and window start, in RocksDB.

        Args:
            name: name of the store.
            retention: how long a window is kept after its start, of stream time; at least ``window_size``.
            window_size: length of the windows; 0 only with ``retain_duplicates``.
            retain_duplicates: whether several values of one key and start are kept: for joins of two streams.

        Raises:
            TopologyError: a length is out of its range.
        """
        return _window(name, retention, window_size, StoreBackend.ROCKSDB, retain_duplicates=retain_duplicates)

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, retention: Duration, window_size: Duration, *, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Works like :meth:`persistent_window_store`: here every store keeps timestamps (KIP-258)."""
        return _window(name, retention, window_size, StoreBackend.ROCKSDB, retain_duplicates=retain_duplicates)

    @staticmethod
    def in_memory_window_store(
        name: str, retention: Duration, window_size: Duration, *, retain_duplicates: bool = False
    ) -> StoreSupplier:
        """Works like :meth:`persistent_window_store`, in memory."""
        return _window(name, retention, window_size, StoreBackend.MEMORY, retain_duplicates=retain_duplicates)

    @staticmethod
    def persistent_session_store(name: str, retention: Duration) -> StoreSupplier:
        """Returns the values by key, start and end of a session, in RocksDB.

        Args:
            name: name of the store.
            retention: how long a session is kept after its end, of stream time.

        Raises:
            TopologyError: the retention is not above 0.
        """
        return _session(name, retention, StoreBackend.ROCKSDB)

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration) -> StoreSupplier:
        """Works like :meth:`persistent_session_store`, in memory."""
        return _session(name, retention, StoreBackend.MEMORY)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedStoreSupplier:
        """Returns a store with the history of each key in RocksDB (KIP-889), for processors and ``Materialized.as_``.

        Args:
            name: name of the store.
            history_retention: how far back from the newest timestamp versions may be put and asked for, a timedelta
                or milliseconds. The newest version of a key never expires.
            segment_interval: how long the parts are in which history is forgotten; ``None`` takes a twenty-fourth of a
                long retention, a third of a short one.

        Raises:
            TopologyError: the retention is negative, or the interval not positive.
        """
        return versioned_store(name, history_retention, segment_interval, StoreBackend.ROCKSDB)

    @staticmethod
    def in_memory_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedStoreSupplier:
        """Works like :meth:`persistent_versioned_key_value_store`, in memory. Kafka Streams has no such store."""
        return versioned_store(name, history_retention, segment_interval, StoreBackend.MEMORY)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: VersionedStoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """Returns a versioned store: its puts and deletes have timestamps, and it answers what was valid at a time."""
        return StoreBuilder(supplier.spec(key_serde=key_serde, value_serde=value_serde))

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """Returns a store of plain values. A serde of ``None`` takes the default (bytes)."""
        return _builder(supplier, StoreKind.KEY_VALUE, key_serde, value_serde, timestamped=False)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """Returns a store of :class:`~millrace.topology.state_stores.ValueAndTimestamp`."""
        return _builder(supplier, StoreKind.KEY_VALUE, key_serde, value_serde, timestamped=True)

    @staticmethod
    def window_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """Returns a window store of plain values."""
        return _builder(supplier, StoreKind.WINDOW, key_serde, value_serde, timestamped=False)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """Returns a window store of :class:`~millrace.topology.state_stores.ValueAndTimestamp`."""
        return _builder(supplier, StoreKind.WINDOW, key_serde, value_serde, timestamped=True)

    @staticmethod
    def session_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """Returns a session store."""
        return _builder(supplier, StoreKind.SESSION, key_serde, value_serde, timestamped=False)


def _key_value(name: str, backend: StoreBackend) -> StoreSupplier:
    return StoreSupplier(name=check_name(name, what="store"), kind=StoreKind.KEY_VALUE, backend=backend)


def _window(
    name: str, retention: Duration, window_size: Duration, backend: StoreBackend, *, retain_duplicates: bool
) -> StoreSupplier:
    check_name(name, what="store")
    retention_ms, window_size_ms = to_milliseconds(retention), to_milliseconds(window_size)
    # A join may be of records of the same millisecond; its stores then have windows of none.
    shortest_ms = 0 if retain_duplicates else 1
    if window_size_ms < shortest_ms or retention_ms < window_size_ms:
        raise TopologyError(
            f"Window store {name!r} has windows of {window_size_ms} ms and a retention of {retention_ms} ms.",
            remedy=f"give it windows of at least {shortest_ms} ms and a retention that is not shorter than them",
        )
    return StoreSupplier(
        name=name,
        kind=StoreKind.WINDOW,
        backend=backend,
        retention_ms=retention_ms,
        window_size_ms=window_size_ms,
        retains_duplicates=retain_duplicates,
    )


def _session(name: str, retention: Duration, backend: StoreBackend) -> StoreSupplier:
    retention_ms = to_milliseconds(retention)
    if retention_ms < 1:
        raise TopologyError(f"Session store {name!r} has a retention of {retention_ms} ms, which must be above 0.")
    return StoreSupplier(
        name=check_name(name, what="store"), kind=StoreKind.SESSION, backend=backend, retention_ms=retention_ms
    )


def _builder(
    supplier: StoreSupplier, kind: StoreKind, key_serde: Serde | None, value_serde: Serde | None, *, timestamped: bool
) -> StoreBuilder:
    if supplier.kind is not kind:
        raise TopologyError(
            f"The supplier of store {supplier.name!r} makes a {supplier.kind} store, not a {kind} store.",
            remedy="use the builder of its kind",
        )
    if supplier.retains_duplicates:
        raise TopologyError(
            f"The window store {supplier.name!r} retains duplicates, which only a join of two streams can use.",
            remedy="leave retain_duplicates out, or give the supplier to StreamJoined",
        )
    spec = StoreSpec(
        name=supplier.name,
        kind=kind,
        key_serde=key_serde,
        value_serde=value_serde,
        cached=False,
        window_size_ms=supplier.window_size_ms,
        retention_ms=supplier.retention_ms,
        timestamped=timestamped,
    )
    return StoreBuilder(supplier.place(spec))
