"""The flow of serdes to each topic and store: records that cannot be bytes are refused where no serde is named.

A walk from the sources: a topic that is read without a serde gives bytes, one that is read with a serde gives values of
it, and what a function makes of such values is taken for a value too, not for bytes. What a function makes of bytes
may be anything, so that is left alone; should it be no bytes, the record that shows it fails with the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from millrace.callables import callable_name
from millrace.errors import TopologyError
from millrace.serdes import BytesSerde, Serde, SessionWindowedSerde, TimeWindowedSerde
from millrace.serdes.changes import ChangeSerde
from millrace.serdes.subscriptions import ResponseSerde, SubscriptionSerde
from millrace.serdes.unset import UnsetSerde
from millrace.topology.aggregators import (
    CallableAggregator,
    ReduceAggregator,
    TableCallableAggregator,
    TableReduceAggregator,
)
from millrace.topology.arity import KeyedJoiner, OfValue
from millrace.topology.foreign_key_join import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from millrace.topology.nodes import ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import (
    CogroupAggregate,
    FlatMap,
    FlatMapValues,
    JoinBuffer,
    Map,
    MapValues,
    Operator,
    ProcessRecords,
    SelectKey,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    StreamGlobalTableJoin,
    StreamSelfJoin,
    StreamStreamJoin,
    StreamTableJoin,
    TableAggregate,
    TableJoinSide,
    TableMapValues,
    TableSelect,
    TableTransformValues,
    WindowedAggregate,
)
from millrace.topology.parts import SubTopology
from millrace.topology.stores import StoreSpec
from millrace.topology.summary import is_only_connected, owners_of, written_by
from millrace.topology.topology import FrozenTopology

_WINDOWED = (WindowedAggregate, SlidingAggregate, SessionAggregate)
_AGGREGATES = (StreamAggregate, TableAggregate, *_WINDOWED)
_JOINS = (StreamTableJoin, StreamGlobalTableJoin, StreamStreamJoin, StreamSelfJoin, TableJoinSide, ResponseJoin)
_NEW_KEYS = (Map, FlatMap, SelectKey, TableSelect)
_NEW_VALUES = (Map, FlatMap, MapValues, FlatMapValues, TableMapValues, TableTransformValues, TableSelect)
_OF_FOREIGN_KEYS = (SubscriptionReceive, SubscriptionJoin, ForeignTableJoin)
_BUFFERS = (JoinBuffer, StreamSelfJoin, StreamTableJoin)
"""Operators whose stores keep what reaches them, not what they make of it."""


@dataclass(frozen=True)
class _Content:
    """What keys or values are, as far as it is known.

    Args:
        origin: words for why they are no bytes; empty where they are, or may be.
        windowed_by: the node that put windows around the keys.
    """

    origin: str = ""
    windowed_by: str = ""


_BYTES = _Content()


@dataclass(frozen=True)
class _Record:
    key: _Content = _BYTES
    value: _Content = _BYTES

    @property
    def is_typed(self) -> bool:
        return self.key != _BYTES or self.value != _BYTES


@dataclass(frozen=True)
class _Problem:
    unset: UnsetSerde
    reason: str


def check_serdes(topology: FrozenTopology) -> None:
    """Refuses records that are no bytes where a topic or store has no serde.

    Raises:
        TopologyError: there are some; the first topic or store is described in full, the others are named.
    """
    problems = {
        (problem.unset.where, problem.unset.part): problem
        for part in topology.sub_topologies
        for problem in _problems(part)
    }
    if not problems:
        return
    first, *others = problems.values()
    unset = first.unset
    further = "; ".join(f"{other.unset.where} ({other.unset.part})" for other in others)
    raise TopologyError(
        f"{unset.where} has no {unset.part} serde, and default.{unset.part}.serde is not set; its {unset.part}s are "
        f"not bytes: {first.reason}." + (f" Neither have: {further}." if further else ""),
        remedy=f"name a serde by {unset.argument}, or set default.{unset.part}.serde; where they are bytes after all, "
        "name BytesSerde() (in the configuration `bytes`)",
    )


def _problems(part: SubTopology) -> Iterator[_Problem]:
    records: dict[str, _Record] = {}
    for node in part.nodes:
        match node:
            case SourceNode():
                records[node.name] = _Record(_read(node, node.key_serde), _read(node, node.value_serde))
            case SinkNode():
                reached = _together(records[parent] for parent in node.parents)
                yield from _unsuited(node.key_serde, reached.key)
                yield from _unsuited(node.value_serde, reached.value)
            case ProcessorNode():
                reached = _together(records[parent] for parent in node.parents)
                records[node.name] = made = _made(node, part, reached)
                yield from _at_node(node, part, reached, made)


def _together(records: Iterable[_Record]) -> _Record:
    """What comes from several parents: no bytes where that is so of one of them."""
    listed = list(records)
    return _Record(
        next((each.key for each in listed if each.key != _BYTES), _BYTES),
        next((each.value for each in listed if each.value != _BYTES), _BYTES),
    )


def _read(node: SourceNode, serde: Serde | None) -> _Content:
    """What a serde reads from a topic."""
    if isinstance(serde, ChangeSerde):
        serde = serde.inner
    own_messages = isinstance(serde, SubscriptionSerde | ResponseSerde)
    if serde is None or own_messages or isinstance(serde, BytesSerde) or serde.arrow_type == pa.binary():
        return _BYTES
    if isinstance(serde, TimeWindowedSerde | SessionWindowedSerde):
        return replace(_read(node, serde.inner), windowed_by=node.name)
    return _Content(f"topic {', '.join(node.topics)} is read with {type(serde).__name__}")


def _made(node: ProcessorNode, part: SubTopology, reached: _Record) -> _Record:
    """What a node forwards."""
    operator = written_by(node)
    made = _of_values(node) if reached.is_typed and not _says_bytes(operator) else _BYTES
    key, value = reached.key, reached.value
    if isinstance(operator, _OF_FOREIGN_KEYS):
        # Messages between the sides of a join, whose serdes are checked where they are sent first.
        return _Record(_BYTES, value if isinstance(operator, ForeignTableJoin) else _BYTES)
    if isinstance(operator, SubscriptionSend):
        return _Record(made, key)
    if isinstance(operator, ProcessRecords):
        return _Record(key if operator.fixed_key else made, made)
    if isinstance(operator, _AGGREGATES):
        value = _aggregate(node, _store(part, operator.store), reached)
        key = replace(key, windowed_by=node.name) if isinstance(operator, _WINDOWED) else key
    if isinstance(operator, _NEW_KEYS):
        key = made
    if isinstance(operator, (*_NEW_VALUES, *_JOINS)):
        value = made
    return _Record(key, value)


def _of_values(node: ProcessorNode) -> _Content:
    return _Content(f"node {node.name} makes them of what is not bytes")


def _says_bytes(operator: Operator) -> bool:
    """Whether the function of an operator is annotated to return bytes."""
    function = getattr(operator, "mapper", getattr(operator, "joiner", None))
    if isinstance(function, OfValue | KeyedJoiner):
        function = function.function
    return getattr(function, "__annotations__", {}).get("return") in (bytes, "bytes")


def _aggregate(node: ProcessorNode, store: StoreSpec, reached: _Record) -> _Content:
    """What an aggregation keeps and forwards."""
    if not isinstance(store.value_serde, UnsetSerde):
        return _Content(f"store {store.name} has {type(store.value_serde).__name__}")
    operator: Any = written_by(node)
    match operator.aggregator:
        case ReduceAggregator() | TableReduceAggregator():
            return reached.value
        case CallableAggregator(initializer=initializer) | TableCallableAggregator(initializer=initializer):
            return _first_aggregate(node, initializer, reached)
        case _:
            return _Content(f"node {node.name} computes them")


def _first_aggregate(node: ProcessorNode, initializer: Callable[[], Any], reached: _Record) -> _Content:
    try:
        first = initializer()
    except Exception as error:
        raise TopologyError(
            f"The initializer {callable_name(initializer)} of node {node.name} failed: "
            f"{type(error).__name__}: {error}.",
            remedy="correct it; it is called without arguments, for the first record of each key",
        ) from error
    if isinstance(first, bytes | bytearray | memoryview):
        return _BYTES
    if first is None:
        return _of_values(node) if reached.is_typed else _BYTES
    return _Content(f"the initializer of node {node.name} gives {first!r} ({type(first).__name__})")


def _at_node(node: ProcessorNode, part: SubTopology, reached: _Record, made: _Record) -> Iterator[_Problem]:
    """Where the serdes of a node's operator and of its stores do not suit."""
    operator: Operator = node.operator
    if isinstance(operator, SubscriptionSend):
        yield from _unsuited(operator.value_serde, reached.value)
        yield from _unsuited(operator.foreign_key_serde, made.key)
    if isinstance(operator, _OF_FOREIGN_KEYS) or (isinstance(operator, CogroupAggregate) and operator.index):
        return
    for name in node.stores:
        if is_only_connected(node, name) or name in {store.store.name for store in part.global_stores}:
            continue
        store = _store(part, name)
        if owners_of(part, name)[0].name != node.name:
            continue
        keeps = reached if isinstance(operator, _BUFFERS) else made
        yield from _unsuited(store.key_serde, replace(reached.key, windowed_by=_windows_of(store, reached.key)))
        yield from _unsuited(store.value_serde, keeps.value)


def _windows_of(store: StoreSpec, key: _Content) -> str:
    """The keys of a store of windows have none themselves: the windows are beside them."""
    return key.windowed_by if not store.window_size_ms else ""


def _store(part: SubTopology, name: str) -> StoreSpec:
    return next(store for store in part.stores if store.name == name)


def _unsuited(serde: Serde | None, content: _Content) -> Iterator[_Problem]:
    match serde:
        case UnsetSerde():
            if content.windowed_by:
                yield _Problem(serde, f"node {content.windowed_by} makes windowed keys")
            elif content.origin:
                yield _Problem(serde, content.origin)
        case TimeWindowedSerde(inner=UnsetSerde() as inner) | SessionWindowedSerde(inner=UnsetSerde() as inner):
            yield from _unsuited(inner, replace(content, windowed_by=""))
        case ChangeSerde(inner=UnsetSerde() as inner) | ResponseSerde(foreign_value=UnsetSerde() as inner):
            yield from _unsuited(inner, content)
        case SubscriptionSerde(primary_key=UnsetSerde() as inner):
            yield from _unsuited(inner, content)
