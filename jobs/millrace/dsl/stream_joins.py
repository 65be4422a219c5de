"""Joins of two streams: what ``KStream.join``, ``left_join`` and ``outer_join`` append to the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.dsl.callables import joiner_takes_key as takes_key
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.join_inputs import repartitioned_for_join
from millrace.dsl.stream_joined import StreamJoined
from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology import naming
from millrace.topology.logical import Process, StreamJoin
from millrace.topology.operators import JoinBuffer, JoinKind
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.windows import JoinWindows

if TYPE_CHECKING:
    from millrace.dsl.kstream import KStream


def join_streams(
    this: KStream,
    other: KStream,
    joiner: Callable[..., Any],
    windows: JoinWindows,
    stream_joined: StreamJoined | None = None,
    *,
    kind: JoinKind,
    joiner_takes_key: bool | None = None,
) -> KStream:
    """Joins two streams, each behind a repartition topic where its key may have changed.

    Raises:
        TopologyError: the joiner does not fit, the streams are of different builders, or a name is used twice.
    """
    with_key = takes_key(joiner, "value, other_value", asked=joiner_takes_key)
    this._check_same_builder(other._graph)
    joined = stream_joined or StreamJoined()
    graph, name = this._graph, joined.name
    left = repartitioned_for_join(this, _named(name, "-left"), joined.key_serde, joined.value_serde)
    right = repartitioned_for_join(other, _named(name, "-right"), joined.key_serde, joined.other_value_serde)
    sources = left._sources | right._sources
    graph.co_partition(sources)

    left_waits, right_waits = kind is not JoinKind.INNER, kind is JoinKind.OUTER
    left_suffix = "-outer-this-join" if right_waits else "-this-join"
    right_suffix = "-outer-other-join" if left_waits else "-other-join"
    left_buffer = graph.new_name(naming.STREAM_WINDOWED, _named(name, "-this-windowed"))
    right_buffer = graph.new_name(naming.STREAM_WINDOWED, _named(name, "-other-windowed"))
    # Both numbers are drawn whatever the names: those of the stores contain them.
    left_number = graph.new_name(naming.STREAM_OUTER_THIS if right_waits else naming.STREAM_JOIN_THIS)
    right_number = graph.new_name(naming.STREAM_OUTER_OTHER if left_waits else naming.STREAM_JOIN_OTHER)
    merge = graph.new_name(naming.STREAM_MERGE, _named(name, "-merge"))

    key_serde = joined.key_serde or left._key_serde
    _check_suppliers(joined, windows)
    stores = []
    for number, suffix, supplier, serde in (
        (left_number, left_suffix, joined.this_store_supplier, joined.value_serde or left._value_serde),
        (right_number, right_suffix, joined.other_store_supplier, joined.other_value_serde or right._value_serde),
    ):
        if supplier is None:
            store_name = graph.join_store_name(number, _named(joined.store_name, suffix))
            stores.append(_buffer(store_name, joined, windows, key_serde, serde))
        else:
            stores.append(supplier.place(_buffer(supplier.name, joined, windows, key_serde, serde)))
    for buffer, stream, store in zip((left_buffer, right_buffer), (left, right), stores, strict=True):
        graph.add(Process(name=buffer, parents=(stream._name,), operator=JoinBuffer(store.name, windows), store=store))
    graph.add(
        StreamJoin(
            name=merge,
            parents=(left_buffer, right_buffer),
            this_name=_named(name, left_suffix) or left_number,
            other_name=_named(name, right_suffix) or right_number,
            kind=kind,
            windows=windows,
            joiner=joiner,
            joiner_takes_key=with_key,
            left_store=stores[0].name,
            right_store=stores[1].name,
            waiting_store=_waiting_store(graph, joined, kind, left_number) if left_waits else None,
        )
    )
    from millrace.dsl.kstream import KStream

    return KStream(graph, merge, key_serde=key_serde, value_serde=None, sources=sources, key_changed=False)


def _named(name: str | None, suffix: str) -> str | None:
    return None if name is None else name + suffix


def _check_suppliers(options: StreamJoined, windows: JoinWindows) -> None:
    """Refuses suppliers whose stores would not hold what the join looks for, as Kafka Streams does."""
    suppliers = [each for each in (options.this_store_supplier, options.other_store_supplier) if each is not None]
    for supplier in suppliers:
        if supplier.kind is not StoreKind.WINDOW or not supplier.retains_duplicates:
            raise TopologyError(
                f"The supplier of store {supplier.name!r} makes a {supplier.kind} store without duplicates; a join of "
                "two streams keeps all records of a key.",
                remedy="use a window store of Stores with retain_duplicates=True",
            )
        found, needed = (
            (supplier.window_size_ms, supplier.retention_ms),
            (windows.size_ms, windows.retention_ms),
        )
        if found != needed:
            raise TopologyError(
                f"The supplier of store {supplier.name!r} has windows of {found[0]} ms and a retention of {found[1]} "
                f"ms; the join's are {needed[0]} ms and {needed[1]} ms (size and grace).",
                remedy="give the supplier the join's window size and retention",
            )
    if len(suppliers) != len({supplier.name for supplier in suppliers}):
        raise TopologyError(
            f"Both sides of the join would keep their records in store {suppliers[0].name!r}.",
            remedy="give the suppliers different names",
        )


def _buffer(
    name: str, options: StreamJoined, windows: JoinWindows, key_serde: Serde | None, value_serde: Serde | None
) -> StoreSpec:
    """The store of one side's records."""
    return StoreSpec(
        name=name,
        kind=StoreKind.WINDOW,
        key_serde=key_serde,
        value_serde=value_serde,
        backend=options.store_type,
        logged=options.logging,
        cached=False,
        window_size_ms=windows.size_ms,
        retention_ms=windows.retention_ms,
        retains_duplicates=True,
        changelog_settings=options.changelog_settings,
        rocksdb=options.rocksdb,
    )


def _waiting_store(graph: GraphBuilder, options: StreamJoined, kind: JoinKind, left_number: str) -> StoreSpec:
    """The store of the records without a partner. It has keys and values of its own, so no serde."""
    number = left_number.rpartition("-")[2]
    suffix = "-outer-shared-join" if kind is JoinKind.OUTER else "-left-shared-join"
    supplier = options.this_store_supplier
    given = options.store_name if supplier is None else supplier.name
    return StoreSpec(
        name=graph.join_store_name(naming.STREAM_OUTER_SHARED + number, _named(given, suffix)),
        kind=StoreKind.KEY_VALUE,
        # A store of the user's own is not asked to hold what only Millrace reads.
        backend=options.store_type if supplier is None or supplier.custom is not None else supplier.backend,
        logged=options.logging,
        cached=False,
        changelog_settings=options.changelog_settings,
        rocksdb=options.rocksdb,
    )
