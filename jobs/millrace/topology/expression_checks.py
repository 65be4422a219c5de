"""Looks at every expression of a topology before any record comes: what its names mean, and whether it can be computed.

A name that could be a field of the value as well as the record's own part is refused, and so are a field that values do
not have and a function that does not take its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import TopologyError
from millrace.serdes.changes import ChangeSerde
from millrace.topology.aggregators import (
    Aggregator,
    AvgAggregator,
    BuiltInAggregator,
    StructAggregator,
    SumAggregator,
    TableAggregator,
)
from millrace.topology.expression_fields import EXPLICIT, SHORT, RecordPart, fields_of
from millrace.topology.expression_results import Check, compute
from millrace.topology.foreign_key_join import SubscriptionSend
from millrace.topology.nodes import Node, ProcessorNode, SourceNode
from millrace.topology.operators import (
    Branch,
    CogroupAggregate,
    CogroupMerge,
    DropNullKeys,
    Filter,
    FlatMapValues,
    JoinBuffer,
    MapValues,
    PassThrough,
    Peek,
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
    TableFilter,
    TableJoinMerge,
    TableJoinSide,
    TableMapValues,
    TableSource,
    TableSuppress,
    TableToStream,
    TableTransformValues,
    WindowedAggregate,
)
from millrace.topology.shapes import (
    UNDECLARED,
    UNKNOWN,
    Shape,
    common_shape,
    shape_of_aggregate,
    shape_of_input,
    shape_of_serde,
    shape_of_stored,
    shape_of_type,
)
from millrace.topology.stores import StoreSpec
from millrace.topology.topology import FrozenTopology

_PASSES_ON = (
    *(Filter, Branch, PassThrough, Peek, DropNullKeys, JoinBuffer),
    *(TableSource, TableFilter, TableSuppress, TableToStream),
)
_KEEPS_THE_KEY = (
    *(MapValues, FlatMapValues, StreamTableJoin, StreamGlobalTableJoin, StreamStreamJoin, StreamSelfJoin),
    *(TableMapValues, TableTransformValues, TableJoinSide, TableJoinMerge),
)


@dataclass(frozen=True)
class RecordShape:
    """The known shape of the records that a node forwards."""

    key: Shape = UNKNOWN
    value: Shape = UNKNOWN


def boolean(kind: pa.DataType) -> str | None:
    """Refuses results of a predicate that say neither true nor false."""
    return None if pa.types.is_boolean(kind) or pa.types.is_null(kind) else "boolean"


def text(kind: pa.DataType) -> str | None:
    """Refuses results of a topic name extractor that are no names."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return None if is_text or pa.types.is_null(kind) or pa.types.is_dictionary(kind) else "a text"


def check_expressions(topology: FrozenTopology) -> None:
    """Refuses expressions that mean nothing, or more than one thing.

    Raises:
        TopologyError: the first one that there is, with its node.
    """
    shapes: dict[str, RecordShape] = {}
    for part in topology.sub_topologies:
        stores = {store.name: store for store in part.stores}
        for node in part.nodes:
            shapes[node.name] = _shape_of(node, [shapes[parent] for parent in _parents(node)], stores)


def _parents(node: Node) -> Sequence[str]:
    return () if isinstance(node, SourceNode) else node.parents


def _shape_of(node: Node, parents: list[RecordShape], stores: dict[str, StoreSpec]) -> RecordShape:
    """What a node forwards; its expressions are checked on the way."""
    if isinstance(node, SourceNode):
        known = not isinstance(node.value_serde, ChangeSerde) and not node.frame_functions
        return RecordShape(shape_of_serde(node.key_serde), shape_of_serde(node.value_serde) if known else UNKNOWN)
    given = RecordShape(
        common_shape([parent.key for parent in parents]), common_shape([parent.value for parent in parents])
    )
    if isinstance(node, ProcessorNode):
        return _after(node, given, stores)
    if isinstance(node.extractor, pc.Expression):
        _checked(node.extractor, given, node.name, "topic name extractor", text)
    return RecordShape()


def _after(node: ProcessorNode, given: RecordShape, stores: dict[str, StoreSpec]) -> RecordShape:
    operator = node.operator
    match operator:
        case Filter() | TableFilter():
            _checked(operator.predicate, given, node.name, "predicate", boolean)
        case Branch():
            for predicate, child in operator.predicates:
                _checked(predicate, given, child, "predicate", boolean)
        case MapValues() | TableMapValues():
            return RecordShape(given.key, _checked(operator.mapper, given, node.name, "value mapper"))
        case SelectKey():
            return RecordShape(_checked(operator.mapper, given, node.name, "key mapper"), given.value)
        case StreamGlobalTableJoin():
            _checked(operator.key_selector, given, node.name, "key selector")
        case SubscriptionSend():
            _checked(operator.extractor, given, node.name, "foreign-key extractor")
        case StreamAggregate() | WindowedAggregate() | SlidingAggregate() | SessionAggregate() | TableAggregate():
            _check_aggregator(operator.aggregator, given.value, node.name)
            value = shape_of_aggregate(operator.aggregator, given.value, operator.store, stores)
            keeps = isinstance(operator, StreamAggregate | TableAggregate)
            return RecordShape(given.key if keeps else UNKNOWN, value)
        case CogroupAggregate():
            _check_aggregator(operator.aggregation.aggregator, given.value, node.name)
        case CogroupMerge():
            return RecordShape(UNKNOWN, shape_of_stored(operator.store, stores))
        case _:
            pass
    if isinstance(operator, _PASSES_ON):
        return given
    keeps_key = isinstance(operator, _KEEPS_THE_KEY) or (isinstance(operator, ProcessRecords) and operator.fixed_key)
    return RecordShape(given.key if keeps_key else UNKNOWN, UNKNOWN)


def _checked(expression: object, given: RecordShape, node: str, role: str, check: Check | None = None) -> Shape:
    """The shape of an expression's results; that of a callable's is not known.

    Raises:
        TopologyError: a name of the expression is ambiguous or unknown, or it cannot be computed over these types.
    """
    if not isinstance(expression, pc.Expression):
        return UNKNOWN
    columns: dict[str, pa.DataType | None] = {}
    for root in fields_of(expression).roots:
        columns[root] = _type_of(root, given, f"The {role} {expression} of node {node}")
    known = {root: kind for root, kind in columns.items() if kind is not None}
    if len(known) < len(columns):
        return UNKNOWN if given.value.is_declared else UNDECLARED
    arrays = {root: pa.array([], kind) for root, kind in known.items()}
    result = compute(expression, partial(pa.table, arrays or {"record.row": pa.array([], pa.int64())}), check)
    if isinstance(result, Exception):
        types = ", ".join(f"{root}: {kind}" for root, kind in known.items())
        raise TopologyError(
            f"The {role} {expression} of node {node} cannot be computed over the columns ({types}): {result}.",
            remedy="correct the names or types in the expression; value_field() names a field of the value, "
            "record_key(), record_value() and record_timestamp() the record's own parts",
        )
    return shape_of_type(result.type)


def _type_of(root: str, given: RecordShape, subject: str) -> pa.DataType | None:
    """The type of what a name means; ``None`` where it is not known."""
    fields = given.value.fields
    part = EXPLICIT.get(root)
    if part is not None and fields is not None and root in fields:
        raise TopologyError(
            f"{subject} names {root}, which is the record's own {part}, but values have a field of that name.",
            remedy=f"value_field({root!r}) names the field",
        )
    if part is None and fields is None:
        if root in SHORT and given.value.is_declared:
            raise TopologyError(
                f"{subject} names {root!r}, which is ambiguous: the form of the values here is not known before "
                f"they come, so it may be the record's own {root} or a field of the value.",
                remedy=f"write record_{root}() or value_field({root!r}) (millrace.dsl); or give the values a serde "
                "with a schema",
            )
        return None
    if part is None and fields is not None and root not in fields:
        part = SHORT.get(root)
        if part is None:
            raise TopologyError(
                f"{subject} names the field {root!r}, which values do not have; they have "
                f"{sorted(fields) or 'no fields'}.",
                remedy="correct the name, or the schema of the value serde",
            )
    if part is RecordPart.KEY:
        return given.key.type
    if part is RecordPart.TIMESTAMP:
        return pa.int64()
    kind = given.value.type
    return kind if part is RecordPart.VALUE or kind is None else kind.field(root).type


def _check_aggregator(aggregator: Aggregator | TableAggregator, values: Shape, node: str) -> None:
    """Refuses built-in aggregations of a field that is not there or cannot be summed.

    Raises:
        TopologyError: there is one.
    """
    parts = [part for _, part in aggregator.fields] if isinstance(aggregator, StructAggregator) else [aggregator]
    for part in parts:
        if not isinstance(part, BuiltInAggregator):
            continue
        if part.field is not None and values.fields is not None and part.field not in values.fields:
            raise TopologyError(
                f"Node {node} computes {part.kind} of the field {part.field!r}, which values do not have; they have "
                f"{sorted(values.fields) or 'no fields'}.",
                remedy="correct the name, or the schema of the value serde",
            )
        kind = shape_of_input(part, values).type
        if isinstance(part, SumAggregator | AvgAggregator) and kind is not None and not _is_number(kind):
            raise TopologyError(
                f"Node {node} computes {part.kind} of values of type {kind}.",
                remedy="aggregate a field of numbers, or use callables",
            )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))
