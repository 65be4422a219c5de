"""The operators of processor nodes: frozen data, one class an operator. Their behaviour is in ``millrace.task``.

A ``Predicate`` or ``Mapper`` is either a Python callable, called per record, or a pyarrow expression over the record,
which stays in columns. What a name in an expression means is in :mod:`millrace.topology.expression_fields`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import pyarrow.compute as pc

from millrace.topology.aggregators import Aggregator, TableAggregator
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.foreign_key_join import (
    ForeignTableJoin,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from millrace.topology.session_windows import SessionWindows
from millrace.topology.sliding_windows import SlidingWindows
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.windows import JoinWindows, TimeWindows

Predicate: TypeAlias = Callable[[Any, Any], Any] | pc.Expression
"""``(key, value) -> truth``, or a boolean expression (null counts as false)."""

PairMapper: TypeAlias = Callable[[Any, Any], Any]
"""``(key, value) -> (key, value)``."""

ValueMapper: TypeAlias = Callable[[Any], Any] | Callable[[Any, Any], Any] | pc.Expression
"""``(value) -> value`` or ``(key, value) -> value``, or an expression."""

KeyAndValueMapper: TypeAlias = Callable[[Any, Any], Any] | pc.Expression
"""``(key, value) -> value``, or an expression: what an operator has of a ``ValueMapper``."""

KeyMapper: TypeAlias = Callable[[Any, Any], Any] | pc.Expression
"""``(key, value) -> key``, or an expression."""


@dataclass(frozen=True)
class Filter:
    """Passes records for which ``predicate`` is true, or, negated, those for which it is not."""

    predicate: Predicate
    negated: bool = False


@dataclass(frozen=True)
class Map:
    """Maps ``(key, value) -> (key, value)``."""

    mapper: PairMapper


@dataclass(frozen=True)
class MapValues:
    """A new value for each record; key, timestamp and headers stay."""

    mapper: KeyAndValueMapper


@dataclass(frozen=True)
class FlatMap:
    """Maps ``(key, value) -> iterable of (key, value)``."""

    mapper: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class FlatMapValues:
    """Maps ``(key, value) -> iterable of values``."""

    mapper: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class SelectKey:
    """A new key for each record."""

    mapper: KeyMapper


@dataclass(frozen=True)
class Peek:
    """Calls ``action(key, value)`` for its side effect and passes the record on (``forwards``), or ends there."""

    action: Callable[[Any, Any], Any]
    forwards: bool = True


@dataclass(frozen=True)
class Branch:
    """Sends each record to the first child whose predicate is true, otherwise to the default child if there is one.

    Args:
        predicates: one per branch, in order; each names the child node it feeds.
        default_child: child node of the records that matched none, or ``None``: they are dropped, not counted.
    """

    predicates: tuple[tuple[Predicate, str], ...]
    default_child: str | None = None


@dataclass(frozen=True)
class PassThrough:
    """Passes everything on: merge nodes and the children of a branch."""


@dataclass(frozen=True)
class DropNullKeys:
    """Filters null keys: in front of a repartition topic's sink."""


@dataclass(frozen=True)
class StreamAggregate:
    """Un-windowed count, reduce or aggregate of a grouped stream into ``store``. Null keys and values are dropped."""

    store: str
    aggregator: Aggregator


@dataclass(frozen=True)
class WindowedAggregate:
    """Count, reduce or aggregate per key and window into ``store``. Null keys are dropped and counted."""

    store: str
    windows: TimeWindows | UnlimitedWindows
    aggregator: Aggregator
    emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE


@dataclass(frozen=True)
class SlidingAggregate:
    """Count, reduce or aggregate per key and sliding window into ``store``. Null keys and values are dropped."""

    store: str
    windows: SlidingWindows
    aggregator: Aggregator
    emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE


@dataclass(frozen=True)
class SessionAggregate:
    """Count, reduce or aggregate per key and session into ``store``. Null keys are dropped and counted.

    Args:
        merger: ``(key, older aggregate, newer aggregate) -> aggregate``, where ``aggregator`` is made of callables.
    """

    store: str
    windows: SessionWindows
    aggregator: Aggregator
    merger: Callable[[Any, Any, Any], Any] | None = None
    emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE


@dataclass(frozen=True)
class CogroupAggregate:
    """An input of a cogroup: adds its records to the aggregates of all inputs (KIP-150), which run together.

    Args:
        joint: common name of the inputs: that of the node that merges their changes.
        index: the input's position among them, from 0.
        aggregation: what its records do; all but the adder is the same for every input.
    """

    joint: str
    index: int
    aggregation: StreamAggregate | WindowedAggregate | SlidingAggregate | SessionAggregate


@dataclass(frozen=True)
class CogroupMerge:
    """The changes of all inputs of a cogroup as one table, which is in ``store``."""

    store: str


@dataclass(frozen=True)
class TableSource:
    """Turns a stream of records into a table's changes; materialised in ``store`` where there is one."""

    store: str | None


@dataclass(frozen=True)
class TableToStream:
    """Passes a table's new values on as a stream."""


class JoinKind(StrEnum):
    """The kind of a join: what happens to a record without a partner."""

    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"


@dataclass(frozen=True)
class StreamTableJoin:
    """Looks each stream record's key up in a table.

    Args:
        table: name of the node that makes the table.
        kind: inner drops a record without a partner, left joins it with ``None``.
        joiner: ``(stream value, table value) -> value``, or ``(key, stream value, table value) -> value``
            where ``joiner_takes_key``.
        buffer: store of the records that wait for late updates of the table, ``None`` where they are joined at once.
        grace_ms: how long they wait, milliseconds of stream time.
    """

    table: str
    kind: JoinKind
    joiner: Callable[..., Any]
    joiner_takes_key: bool = False
    buffer: str | None = None
    grace_ms: int | None = None


@dataclass(frozen=True)
class StreamGlobalTableJoin:
    """Looks a key that each stream record names up in a global table.

    Args:
        store: the global table's store.
        kind: inner drops a record without a partner, left joins it with ``None``.
        key_selector: gives the key of the table's row.
        joiner: ``(stream value, table value) -> value``; ``(key, stream value, table value) -> value`` where
            ``joiner_takes_key``; ``(key, selected key, stream value, table value) -> value`` where
            ``joiner_takes_selected_key``.
    """

    store: str
    kind: JoinKind
    key_selector: KeyMapper
    joiner: Callable[..., Any]
    joiner_takes_key: bool = False
    joiner_takes_selected_key: bool = False


class JoinSide(StrEnum):
    """The side of a join: its left or its right stream."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class JoinBuffer:
    """Passes one side's records of a stream-stream join on; the join keeps them in ``store`` for the other side."""

    store: str
    windows: JoinWindows


@dataclass(frozen=True)
class StreamStreamJoin:
    """A side of a stream-stream join; both sides run together, as ``joint`` says.

    Args:
        joint: common name of the nodes of the join.
        side: the side whose records come here.
        kind: which side's records get a result without a partner: none, the left one's, both.
        windows: how far apart partners may be.
        left_store: buffer of the left records.
        right_store: buffer of the right records.
        waiting_store: the records that have no partner yet, ``None`` for an inner join.
        joiner: ``(left value, right value) -> value``, or ``(key, left value, right value) -> value`` where
            ``joiner_takes_key``.
    """

    joint: str
    side: JoinSide
    kind: JoinKind
    windows: JoinWindows
    left_store: str
    right_store: str
    waiting_store: str | None
    joiner: Callable[..., Any]
    joiner_takes_key: bool = False


@dataclass(frozen=True)
class StreamSelfJoin:
    """A stream joined with itself over one buffer. The fields are those of ``StreamStreamJoin``."""

    store: str
    windows: JoinWindows
    joiner: Callable[..., Any]
    joiner_takes_key: bool = False


@dataclass(frozen=True)
class ProcessRecords:
    """Hands each record to a processor that the user wrote.

    Args:
        supplier: makes the processor: a ``Processor``, or, with a fixed key, a ``FixedKeyProcessor``.
        fixed_key: the processor keeps the keys.
    """

    supplier: Callable[[], Any]
    fixed_key: bool = False


# ---- operators of tables


@dataclass(frozen=True)
class TableFilter:
    """A table's rows for which ``predicate`` is true, or, negated, is not; materialised where there is a ``store``.

    Args:
        predicate: which rows.
        negated: whether it is about the others.
        store: the store of the rows.
        of_versioned: the table is versioned, so that a row that does not match is a version all the same.
    """

    predicate: Predicate
    negated: bool = False
    store: str | None = None
    of_versioned: bool = False


@dataclass(frozen=True)
class TableMapValues:
    """A new value for each row of a table; materialised where there is a ``store``.

    Args:
        mapper: gives the new value.
        store: the store of the results.
        maps_nulls: call the mapper for deletions as well (``transform_values``).
    """

    mapper: KeyAndValueMapper
    store: str | None = None
    maps_nulls: bool = False


@dataclass(frozen=True)
class TableTransformValues:
    """Transforms a table's values by a ``ValueTransformerWithKey``. It may use stores, and is called for deletions too.

    Args:
        supplier: makes the transformer.
        store: the store of the results.
    """

    supplier: Callable[[], Any]
    store: str | None = None


class TableJoinKind(StrEnum):
    """The kind of a join of two tables: which rows it has."""

    INNER = "inner"
    """Those of keys that both tables hold."""
    LEFT = "left"
    """Those of keys that the left table holds."""
    OUTER = "outer"
    """Those of keys that at least one table holds."""


@dataclass(frozen=True)
class TableJoinSide:
    """Joins the changes of one table with the rows of the other.

    Args:
        kind: of the whole join.
        table: name of the node that makes the other table.
        joiner: ``(left value, right value) -> value``, or a ``KeyedJoiner``.
        is_left: whether the changes are the left table's.
    """

    kind: TableJoinKind
    table: str
    joiner: Callable[..., Any]
    is_left: bool


@dataclass(frozen=True)
class TableJoinMerge:
    """The changes of both sides of a join as one table; materialised where there is a ``store``.

    Args:
        kind: of the join.
        left: name of the node that makes the left table.
        right: name of the node that makes the right table.
        joiner: ``(left value, right value) -> value``, or a ``KeyedJoiner``.
        store: the store of the results.
    """

    kind: TableJoinKind
    left: str
    right: str
    joiner: Callable[..., Any]
    store: str | None = None


@dataclass(frozen=True)
class TableSelect:
    """A new key and value for both sides of each change of a table, in front of its grouping.

    Args:
        mapper: ``(key, value) -> (key, value)``.
    """

    mapper: PairMapper


@dataclass(frozen=True)
class TableAggregate:
    """Count, reduce or aggregate of a grouped table into ``store``: the old value is subtracted, the new one added."""

    store: str
    aggregator: TableAggregator


@dataclass(frozen=True)
class TableSuppress:
    """Holds changes of a table back in ``store``, ordered by time, and lets the last one of each key go.

    Args:
        store: the buffer.
        wait_ms: a change goes once stream time is this much behind its time or more, milliseconds.
        until_window_closes: a change's time is the end of its key's window, and tombstones never go; otherwise it is
            the timestamp of the first change of its key that waits.
        max_records: keys that may wait; ``None``: any number.
        max_bytes: bytes that may wait; ``None``: any number.
        emits_when_full: whether the first changes go early when there are more, instead of a failure.
    """

    store: str
    wait_ms: int
    until_window_closes: bool
    max_records: int | None = None
    max_bytes: int | None = None
    emits_when_full: bool = False


def looked_up_table(operator: Operator) -> str | None:
    """Returns the name of the node whose table the operator looks up, besides what its parents forward."""
    match operator:
        case StreamTableJoin() | TableJoinSide() | SubscriptionJoin() | ResponseJoin():
            return operator.table
        case _:
            return None


def may_look_up_global_store(operator: Operator, store: str) -> bool:
    """Returns whether the operator may read the global store ``store``, which stands in no node's list of stores."""
    if isinstance(operator, ProcessRecords | TableTransformValues):
        return True
    return isinstance(operator, StreamGlobalTableJoin) and operator.store == store


Operator = (
    Filter
    | Map
    | MapValues
    | FlatMap
    | FlatMapValues
    | SelectKey
    | Peek
    | Branch
    | PassThrough
    | DropNullKeys
    | StreamAggregate
    | WindowedAggregate
    | SlidingAggregate
    | SessionAggregate
    | CogroupAggregate
    | CogroupMerge
    | TableSource
    | TableToStream
    | StreamTableJoin
    | StreamGlobalTableJoin
    | JoinBuffer
    | StreamStreamJoin
    | StreamSelfJoin
    | ProcessRecords
    | TableFilter
    | TableMapValues
    | TableTransformValues
    | TableJoinSide
    | TableJoinMerge
    | TableSelect
    | TableAggregate
    | TableSuppress
    | SubscriptionSend
    | SubscriptionReceive
    | ForeignTableJoin
    | SubscriptionJoin
    | ResponseJoin
)
