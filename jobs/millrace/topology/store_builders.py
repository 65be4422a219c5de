"""Stores of processors: ``Stores`` and ``StoreBuilder`` of ``org.apache.kafka.streams.state``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology.naming import check_name
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.windows import Duration, to_milliseconds


@dataclass(frozen=True)
class StoreBuilder:
    """A store to be added to a topology. Each ``with_`` method returns a changed copy.

    As in Kafka Streams it is logged and not cached unless told otherwise.

    Args:
        spec: the store.
    """

    spec: StoreSpec

    @property
    def name(self) -> str:
        """Name of the store."""
        return self.spec.name

    def with_caching_enabled(self) -> StoreBuilder:
        """Only the last write of a key within one commit goes to the changelog."""
        return StoreBuilder(replace(self.spec, cached=True))

    def with_caching_disabled(self) -> StoreBuilder:
        """Every write goes to the changelog."""
        return StoreBuilder(replace(self.spec, cached=False))

    def with_logging_enabled(self, settings: Mapping[str, str] | None = None) -> StoreBuilder:
        """Backed by a changelog topic with these topic settings over its defaults."""
        pairs = tuple(sorted((key, str(value)) for key, value in (settings or {}).items()))
        return StoreBuilder(replace(self.spec, logged=True, changelog_settings=pairs))

    def with_logging_disabled(self) -> StoreBuilder:
        """Without a changelog topic: the store starts empty wherever its task moves."""
        return StoreBuilder(replace(self.spec, logged=False, changelog_settings=()))


@dataclass(frozen=True, kw_only=True)
class StoreSupplier:
    """Where a store keeps its bytes, and the shape of its keys. Made by :class:`Stores`."""

    name: str
    kind: StoreKind
    backend: StoreBackend
    retention_ms: int = 0
    window_size_ms: int = 0


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
    def persistent_window_store(name: str, retention: Duration, window_size: Duration) -> StoreSupplier:
        """Values by key and window start, in RocksDB.

        Args:
            name: name of the store.
            retention: how long a window is kept after its start, of stream time; at least ``window_size``.
            window_size: length of the windows.

        Raises:
            TopologyError: a length is out of its range.
        """
        return _window(name, retention, window_size, StoreBackend.ROCKSDB)

    @staticmethod
    def in_memory_window_store(name: str, retention: Duration, window_size: Duration) -> StoreSupplier:
        """As :meth:`persistent_window_store`, in memory."""
        return _window(name, retention, window_size, StoreBackend.MEMORY)

    @staticmethod
    def persistent_session_store(name: str, retention: Duration) -> StoreSupplier:
        """Values by key, start and end of a session, in RocksDB.

        Args:
            name: name of the store.
            retention: how long a session is kept after its end, of stream time.

        Raises:
            TopologyError: the retention is not above 0.
        """
        return _session(name, retention, StoreBackend.ROCKSDB)

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration) -> StoreSupplier:
        """As :meth:`persistent_session_store`, in memory."""
        return _session(name, retention, StoreBackend.MEMORY)

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """A store of plain values. A serde of ``None`` takes the default (bytes)."""
        return _builder(supplier, StoreKind.KEY_VALUE, key_serde, value_serde, timestamped=False)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """A store of :class:`~millrace.topology.state_stores.ValueAndTimestamp`."""
        return _builder(supplier, StoreKind.KEY_VALUE, key_serde, value_serde, timestamped=True)

    @staticmethod
    def window_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """A window store of plain values."""
        return _builder(supplier, StoreKind.WINDOW, key_serde, value_serde, timestamped=False)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """A window store of :class:`~millrace.topology.state_stores.ValueAndTimestamp`."""
        return _builder(supplier, StoreKind.WINDOW, key_serde, value_serde, timestamped=True)

    @staticmethod
    def session_store_builder(
        supplier: StoreSupplier, key_serde: Serde | None, value_serde: Serde | None
    ) -> StoreBuilder:
        """A session store."""
        return _builder(supplier, StoreKind.SESSION, key_serde, value_serde, timestamped=False)


def _key_value(name: str, backend: StoreBackend) -> StoreSupplier:
    return StoreSupplier(name=check_name(name, what="store"), kind=StoreKind.KEY_VALUE, backend=backend)


def _window(name: str, retention: Duration, window_size: Duration, backend: StoreBackend) -> StoreSupplier:
    check_name(name, what="store")
    retention_ms, window_size_ms = to_milliseconds(retention), to_milliseconds(window_size)
    if window_size_ms < 1 or retention_ms < window_size_ms:
        raise TopologyError(
            f"Window store {name!r} has windows of {window_size_ms} ms and a retention of {retention_ms} ms.",
            remedy="give it windows of at least 1 ms and a retention that is not shorter than them",
        )
    return StoreSupplier(
        name=name, kind=StoreKind.WINDOW, backend=backend, retention_ms=retention_ms, window_size_ms=window_size_ms
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
    return StoreBuilder(
        StoreSpec(
            name=supplier.name,
            kind=kind,
            key_serde=key_serde,
            value_serde=value_serde,
            backend=supplier.backend,
            cached=False,
            window_size_ms=supplier.window_size_ms,
            retention_ms=supplier.retention_ms,
            timestamped=timestamped,
        )
    )
