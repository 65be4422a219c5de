"""The shapes of keys and values at each node, known before any record comes: their type, or at least their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from millrace.serdes import Serde
from millrace.topology.aggregators import (
    Aggregator,
    AvgAggregator,
    BuiltInAggregator,
    CollectAggregator,
    CountAggregator,
    ReduceAggregator,
    StructAggregator,
    SumAggregator,
    TableAggregator,
    TableReduceAggregator,
)
from millrace.topology.stores import StoreSpec


@dataclass(frozen=True)
class Shape:
    """The known shape of a column.

    Args:
        fields: names of its fields, empty where it is no object; ``None``: not known.
        type: its Arrow type; ``None``: not known.
        is_declared: whether anything says what it is; without a serde in the code the configuration decides.
    """

    fields: frozenset[str] | None = None
    type: pa.DataType | None = None
    is_declared: bool = True


UNKNOWN = Shape()
UNDECLARED = Shape(is_declared=False)
NO_OBJECT = Shape(fields=frozenset())
"""Numbers, texts, lists: what has no fields, of whichever type."""


def shape_of_type(kind: pa.DataType) -> Shape:
    """Returns the shape of a column of an Arrow type."""
    if pa.types.is_null(kind):
        return UNKNOWN
    names = [field.name for field in kind] if pa.types.is_struct(kind) else []
    return Shape(frozenset(names), kind)


def shape_of_serde(serde: Serde | None) -> Shape:
    """Returns the shape of what a serde reads."""
    if serde is None:
        return UNDECLARED
    return UNKNOWN if serde.arrow_type is None else shape_of_type(serde.arrow_type)


def common_shape(shapes: list[Shape]) -> Shape:
    """Returns the shape of what comes from several parents."""
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    return UNKNOWN if any(shape.is_declared for shape in shapes) else UNDECLARED


def shape_of_aggregate(
    aggregator: Aggregator | TableAggregator, values: Shape, store: str, stores: Mapping[str, StoreSpec]
) -> Shape:
    """Returns the shape of an aggregation's results.

    Args:
        aggregator: what is computed.
        values: the shape of what it is computed of.
        store: its store.
        stores: specifications of the stores, by name.
    """
    match aggregator:
        case CountAggregator():
            return shape_of_type(pa.int64())
        case SumAggregator() | AvgAggregator() | CollectAggregator():
            return NO_OBJECT
        case StructAggregator():
            return Shape(frozenset(name for name, _ in aggregator.fields))
        case BuiltInAggregator():
            return _same_kind(shape_of_input(aggregator, values))
        case ReduceAggregator() | TableReduceAggregator() if values.fields is not None:
            # Objects that a reducer makes may lack fields, and nothing says that they do.
            return UNKNOWN if values.fields else NO_OBJECT
        case _:
            return shape_of_stored(store, stores)


def shape_of_input(aggregator: BuiltInAggregator, values: Shape) -> Shape:
    """Returns the shape of the column that an aggregation reads."""
    if aggregator.field is None:
        return values
    if values.type is None or not pa.types.is_struct(values.type):
        return UNKNOWN if values.is_declared else UNDECLARED
    return shape_of_type(values.type.field(aggregator.field).type)


def shape_of_stored(store: str, stores: Mapping[str, StoreSpec]) -> Shape:
    """Returns the shape of what callables keep in a store, which may lack fields."""
    shape = shape_of_serde(stores[store].value_serde)
    if shape.fields is None:
        return shape
    return UNKNOWN if shape.fields else NO_OBJECT


def _same_kind(shape: Shape) -> Shape:
    """The shape of a smallest, largest, first or last value: numbers are wider then."""
    if shape.type is not None and (pa.types.is_integer(shape.type) or pa.types.is_floating(shape.type)):
        return NO_OBJECT
    return shape
