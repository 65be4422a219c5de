"""The suppliers of versioned key-value stores (KIP-889)."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology.arguments import checks_arguments
from millrace.topology.naming import check_name
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.windows import Duration, to_milliseconds


@checks_arguments
@dataclass(frozen=True, kw_only=True)
class VersionedStoreSupplier:
    """A versioned key-value store: made by ``Stores``, taken by ``Materialized.as_``.

    Args:
        name: name of the store.
        history_retention_ms: how far back from the newest timestamp versions may be put and asked for, milliseconds.
        segment_interval_ms: how long the parts are in which history is forgotten, milliseconds.
        backend: RocksDB on disk, or memory.
    """

    name: str
    history_retention_ms: int
    segment_interval_ms: int
    backend: StoreBackend

    def spec(
        self,
        *,
        key_serde: Serde | None,
        value_serde: Serde | None,
        logged: bool = True,
        changelog_settings: tuple[tuple[str, str], ...] = (),
    ) -> StoreSpec:
        """Returns the store with its serdes and its changelog. It is never cached.

        A processor is shown plain values: each version has its own times beside the value.
        """
        return StoreSpec(
            name=self.name,
            kind=StoreKind.VERSIONED,
            key_serde=key_serde,
            value_serde=value_serde,
            backend=self.backend,
            logged=logged,
            cached=False,
            history_retention_ms=self.history_retention_ms,
            segment_interval_ms=self.segment_interval_ms,
            changelog_settings=changelog_settings,
            timestamped=False,
        )


def versioned_store(
    name: str, history_retention: Duration, segment_interval: Duration | None, backend: StoreBackend
) -> VersionedStoreSupplier:
    """Returns a versioned store; the arguments are those of ``Stores.persistent_versioned_key_value_store``.

    Raises:
        TopologyError: the retention is negative, or the interval not positive.
    """
    retention_ms = to_milliseconds(history_retention)
    if retention_ms < 0:
        raise TopologyError(f"The history retention must be 0 ms or more, not {retention_ms}.")
    interval_ms = _default_interval(retention_ms) if segment_interval is None else to_milliseconds(segment_interval)
    if interval_ms < 1:
        raise TopologyError(f"The segment interval must be 1 ms or more, not {interval_ms}.")
    return VersionedStoreSupplier(
        name=check_name(name, what="store"),
        history_retention_ms=retention_ms,
        segment_interval_ms=interval_ms,
        backend=backend,
    )


def _default_interval(retention_ms: int) -> int:
    """That of Kafka Streams' ``RocksDbVersionedKeyValueBytesStoreSupplier``."""
    for longest, parts, least in ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)):
        if retention_ms <= longest:
            return max(retention_ms // parts, least)
    return max(retention_ms // 24, 300_000)
