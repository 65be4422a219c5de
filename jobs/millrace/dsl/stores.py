"""Store specs from ``Materialized``."""

from __future__ import annotations

from dataclasses import replace

from millrace.dsl.options import Materialized
from millrace.dsl.suppressed import BufferConfig
from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology.session_windows import SessionWindows
from millrace.topology.sliding_windows import SlidingWindows
from millrace.topology.store_builders import StoreBuilder, StoreSupplier
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.versioned_suppliers import VersionedStoreSupplier
from millrace.topology.windows import TimeWindows


def key_value_store(
    name: str, options: Materialized, *, key_serde: Serde | None, value_serde: Serde | None
) -> StoreSpec:
    """Returns a store of a table without windows, versioned where the options have such a store.

    Raises:
        TopologyError: the options have a supplier of another kind of store.
    """
    if isinstance(options.supplier, VersionedStoreSupplier):
        store = options.supplier.spec(
            key_serde=key_serde,
            value_serde=value_serde,
            logged=options.logging,
            changelog_settings=options.changelog_settings,
        )
        return replace(store, rocksdb=options.rocksdb)
    spec = StoreSpec(
        name=name,
        kind=StoreKind.KEY_VALUE,
        key_serde=key_serde,
        value_serde=value_serde,
        backend=options.store_type,
        logged=options.logging,
        cached=options.caching,
        changelog_settings=options.changelog_settings,
        rocksdb=options.rocksdb,
    )
    return _supplied(spec, options)


def grace_buffer(name: str, *, key_serde: Serde | None, value_serde: Serde | None) -> StoreSpec:
    """Returns the store of the records that wait in a stream-table join with grace; the serdes are the stream's."""
    return StoreSpec(
        name=name,
        kind=StoreKind.KEY_VALUE,
        key_serde=key_serde,
        value_serde=value_serde,
        cached=False,
    )


def _check_unversioned(name: str, options: Materialized) -> None:
    if isinstance(options.supplier, VersionedStoreSupplier):
        raise TopologyError(
            f"Store {name!r} is versioned, but its table has windows.",
            remedy="give the windows a store by its name; versioned stores are for tables without windows",
        )


def window_store(
    name: str,
    options: Materialized,
    windows: TimeWindows | UnlimitedWindows | SlidingWindows,
    *,
    key_serde: Serde | None,
    value_serde: Serde | None,
) -> StoreSpec:
    """Returns a store of a windowed table.

    Raises:
        TopologyError: the retention is shorter than window size and grace, so that open windows would be lost; or a
            supplier is for another kind of store or other windows.
    """
    _check_unversioned(name, options)
    is_sliding = isinstance(windows, SlidingWindows)
    least = windows.least_retention_ms if isinstance(windows, SlidingWindows) else windows.size_ms + windows.grace_ms
    retention_ms = _retention_ms(options, least)
    if retention_ms < least:
        raise TopologyError(
            f"The retention of window store {name!r} is {retention_ms} ms, but its windows need {least} ms: "
            f"{'twice the time difference' if is_sliding else 'size'} {windows.size_ms} ms and "
            f"grace {windows.grace_ms} ms.",
            remedy="raise Materialized.with_retention, or the retention of the supplier",
        )
    spec = StoreSpec(
        name=name,
        kind=StoreKind.WINDOW,
        key_serde=key_serde,
        value_serde=value_serde,
        backend=options.store_type,
        logged=options.logging,
        cached=options.caching,
        window_size_ms=windows.size_ms,
        retention_ms=retention_ms,
        changelog_settings=options.changelog_settings,
        rocksdb=options.rocksdb,
    )
    return _supplied(spec, options)


def session_store(
    name: str, options: Materialized, windows: SessionWindows, *, key_serde: Serde | None, value_serde: Serde | None
) -> StoreSpec:
    """Returns a store of a table of sessions.

    Raises:
        TopologyError: the retention is shorter than inactivity gap and grace, so that open sessions would be lost; or
            a supplier is for another kind of store.
    """
    _check_unversioned(name, options)
    least = windows.least_retention_ms
    retention_ms = _retention_ms(options, least)
    if retention_ms < least:
        raise TopologyError(
            f"The retention of session store {name!r} is {retention_ms} ms, but its sessions need {least} ms: "
            f"inactivity gap {windows.gap_ms} ms and grace {windows.grace_ms} ms.",
            remedy="raise Materialized.with_retention, or the retention of the supplier",
        )
    plain = key_value_store(name, replace(options, supplier=None), key_serde=key_serde, value_serde=value_serde)
    return _supplied(replace(plain, kind=StoreKind.SESSION, retention_ms=retention_ms), options)


def _retention_ms(options: Materialized, least: int) -> int:
    if isinstance(options.supplier, StoreSupplier):
        return options.supplier.retention_ms
    return least if options.retention_ms is None else options.retention_ms


def _supplied(spec: StoreSpec, options: Materialized) -> StoreSpec:
    """The store where the options' supplier says, if they have one."""
    supplier = options.supplier
    if not isinstance(supplier, StoreSupplier):
        return spec
    if supplier.kind is not spec.kind or supplier.retains_duplicates:
        kind = "window store that retains duplicates" if supplier.retains_duplicates else f"{supplier.kind} store"
        raise TopologyError(
            f"The supplier of store {spec.name!r} makes a {kind}; its table needs a {spec.kind} store.",
            remedy="choose the method of Stores for its kind",
        )
    if supplier.window_size_ms != spec.window_size_ms:
        raise TopologyError(
            f"The supplier of store {spec.name!r} is for windows of {supplier.window_size_ms} ms; its table has "
            f"windows of {spec.window_size_ms} ms.",
            remedy="give both the same size",
        )
    return supplier.place(spec)


def suppression_buffer(
    name: str, buffer: BufferConfig, *, key_serde: Serde | None, value_serde: Serde | None
) -> StoreSpec:
    """Returns the buffer of a suppressed table. Its keys' serde is that of the table's keys, windows included."""
    return StoreSpec(
        name=name,
        kind=StoreKind.BUFFER,
        key_serde=key_serde,
        value_serde=value_serde,
        logged=buffer.logging,
        cached=False,
        changelog_settings=buffer.changelog_settings,
    )


def read_only_store_spec(builder: StoreBuilder, topic: str) -> StoreSpec:
    """Returns the store of a topic that is its changelog (KIP-813).

    Raises:
        TopologyError: it is no key-value store.
    """
    spec = builder.with_logging_disabled().spec
    if spec.kind is not StoreKind.KEY_VALUE or spec.capacity is not None:
        kind = spec.kind if spec.capacity is None else "least-recently-used"
        raise TopologyError(
            f"The read-only store {spec.name!r} is a {kind} store, which topic {topic!r} cannot restore.",
            remedy="make it a key-value store",
        )
    return replace(spec, source_topic=topic)
