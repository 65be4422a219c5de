"""The built-in aggregations over whole columns: old aggregates and the groups' rows result in new aggregates.

Every kernel adds in the order of the rows and starts from the old aggregate, so that where a batch is cut never shows
in a result, floating-point sums included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import ProcessingError
from millrace.serdes.times import python_values
from millrace.task.aggregation.groups import Groups
from millrace.task.columns import BoolArray, IntArray
from millrace.topology.aggregators import (
    AvgAggregator,
    BuiltInAggregator,
    CollectAggregator,
    CountAggregator,
    FirstAggregator,
    LastAggregator,
    MaxAggregator,
    MinAggregator,
    StructAggregator,
    SumAggregator,
)

ColumnAggregator = BuiltInAggregator | StructAggregator


def input_of(aggregator: BuiltInAggregator, values: pa.Array) -> pa.Array:
    """Returns the column that the aggregation reads.

    Raises:
        ProcessingError: the values have no such field.
    """
    if aggregator.field is None:
        return values
    if pa.types.is_null(values.type):
        return values
    if not pa.types.is_struct(values.type) or values.type.get_field_index(aggregator.field) < 0:
        raise ProcessingError(
            f"There is no field {aggregator.field!r} to compute {aggregator.kind} of in values of type {values.type}.",
            remedy="correct the field's name, or the schema of the value serde",
        )
    # Unlike the field() of a struct array, flatten() applies the struct's own nulls.
    return values.flatten()[values.type.get_field_index(aggregator.field)]


def check_input(aggregator: BuiltInAggregator, column: pa.Array) -> None:
    """Refuses columns that the aggregation cannot be computed of.

    Raises:
        ProcessingError: a sum or a mean of something that is not a number.
    """
    kind = column.type
    if isinstance(aggregator, (SumAggregator, AvgAggregator)) and not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)
    ):
        raise ProcessingError(
            f"The {aggregator.kind} of values of type {kind} cannot be computed.",
            remedy="aggregate a field of numbers, or use callables",
        )


def is_beyond_64_bits(aggregator: ColumnAggregator, values: pa.Array) -> bool:
    """Returns whether the aggregation reads integers that a signed 64-bit state may not hold."""
    if isinstance(aggregator, StructAggregator):
        return any(is_beyond_64_bits(part, values) for _, part in aggregator.fields)
    return bool(pa.types.is_uint64(input_of(aggregator, values).type))


def aggregate_columns(aggregator: ColumnAggregator, values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    """Returns the new state of each group.

    Args:
        aggregator: what to compute.
        values: the rows' values.
        groups: which rows belong together.
        prior: old state of each group, null where there is none.

    Returns:
        One state per group, in the order of the groups.
    """
    if isinstance(aggregator, StructAggregator):
        states = [aggregate_columns(part, values, groups, field_of(prior, name)) for name, part in aggregator.fields]
        return pa.StructArray.from_arrays(states, names=[name for name, _ in aggregator.fields])
    column = input_of(aggregator, values)
    check_input(aggregator, column)
    if isinstance(aggregator, CountAggregator) and aggregator.field is None:
        column = pa.array(np.ones(len(column), dtype=bool))
    states = _KERNELS[type(aggregator)](column, groups, prior)
    return states.cast(state_type(aggregator, column.type, prior.type))


def results_of(aggregator: ColumnAggregator, states: pa.Array) -> pa.Array:
    """Returns the results that go downstream for stored states: the states, but for means; an empty mean is null."""
    if isinstance(aggregator, AvgAggregator):
        counts = field_of(states, "count").cast(pa.float64())
        # 0 becomes null, which a division passes on.
        counts = pc.if_else(pc.equal(counts, 0.0), pa.scalar(None, pa.float64()), counts)
        return pc.divide(field_of(states, "sum").cast(pa.float64()), counts)
    if isinstance(aggregator, StructAggregator) and any(
        isinstance(part, AvgAggregator) for _, part in aggregator.fields
    ):
        return pa.StructArray.from_arrays(
            [results_of(part, field_of(states, name)) for name, part in aggregator.fields],
            names=[name for name, _ in aggregator.fields],
            mask=states.is_null(),
        )
    return states


def field_of(column: pa.Array, name: str) -> pa.Array:
    """Returns a field of a struct column, null where the struct is null or has no such field."""
    if pa.types.is_struct(column.type):
        index = column.type.get_field_index(name)
        if index >= 0:
            return column.flatten()[index]
    return pa.nulls(len(column))


def needs_a_value(aggregator: ColumnAggregator) -> bool:
    """Returns whether there is no aggregate before the first non-null value."""
    return isinstance(aggregator, MinAggregator | MaxAggregator | FirstAggregator | LastAggregator)


def state_type(aggregator: BuiltInAggregator, values: pa.DataType, prior: pa.DataType) -> pa.DataType:
    """Returns the Arrow type of the states, from the types of the input column and of the old states."""
    floating = pa.types.is_floating(values) or pa.types.is_floating(prior)
    number = pa.float64() if floating else pa.int64()
    known = prior if pa.types.is_null(values) else values
    kind: pa.DataType = known
    match aggregator:
        case CountAggregator():
            kind = pa.int64()
        case SumAggregator():
            kind = number
        case AvgAggregator():
            kind = pa.struct([("sum", pa.float64()), ("count", pa.int64())])
        case CollectAggregator():
            kind = pa.list_(values) if pa.types.is_null(prior) or not pa.types.is_null(values) else prior
        case MinAggregator() | MaxAggregator() if pa.types.is_integer(known) or pa.types.is_floating(known):
            kind = number
    return kind


def _count(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    counts = np.bincount(groups.ids[_valid(values)], minlength=groups.count)
    return pa.array(_integers(prior) + counts.astype(np.int64))


def _sum(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    mask = _valid(values)
    if pa.types.is_floating(values.type) or pa.types.is_floating(prior.type):
        totals = _doubles(prior)
        _add_doubles(totals, groups.ids[mask], _numbers(values, pa.float64())[mask])
        return pa.array(totals)
    sums = _integers(prior)
    np.add.at(sums, groups.ids[mask], _numbers(values, pa.int64())[mask])
    return pa.array(sums)


def _add_doubles(totals: Any, ids: IntArray, numbers: Any) -> None:
    # Sums may become infinite, as they do anywhere else.
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(totals, ids, numbers)


def _avg(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    mask = _valid(values)
    totals = _doubles(field_of(prior, "sum"))
    _add_doubles(totals, groups.ids[mask], _numbers(values, pa.float64())[mask])
    counts = _integers(field_of(prior, "count")) + np.bincount(groups.ids[mask], minlength=groups.count)
    return pa.StructArray.from_arrays([pa.array(totals), pa.array(counts)], names=["sum", "count"])


def _extreme(
    at: Callable[[Any, IntArray, Any], None], better: Callable[[Any, Any], bool]
) -> Callable[[pa.Array, Groups, pa.Array], pa.Array]:
    def kernel(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
        number_types = [kind for kind in (values.type, prior.type) if not pa.types.is_null(kind)]
        if number_types and all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in number_types):
            return numbers(values, groups, prior)
        return _fold(values, groups, prior, lambda old, new: new if old is None or better(new, old) else old)

    def numbers(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
        kind = pa.float64() if pa.types.is_floating(values.type) or pa.types.is_floating(prior.type) else pa.int64()
        mask = _valid(values)
        rows = _numbers(values, kind)[mask]
        ids = groups.ids[mask]
        known = _valid(prior)
        best = _doubles(prior) if pa.types.is_floating(kind) else _integers(prior)
        # A group without an old aggregate starts from its own first value.
        fresh = np.full(groups.count, -1, dtype=np.int64)
        fresh[ids[::-1]] = np.arange(len(ids) - 1, -1, -1, dtype=np.int64)
        starting = ~known & (fresh >= 0)
        best[starting] = rows[fresh[starting]]
        with np.errstate(invalid="ignore"):
            at(best, ids, rows)
        return pa.array(best, mask=~(known | (fresh >= 0)))

    return kernel


def _first(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    return _fold(values, groups, prior, lambda old, new: new if old is None else old)


def _last(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    return _fold(values, groups, prior, lambda _, new: new)


def _collect(values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    states = [[] if old is None else list(old) for old in python_values(prior)]
    for group, value in zip(groups.ids.tolist(), python_values(values), strict=True):
        if value is not None:
            states[group].append(value)
    value_type = prior.type if pa.types.is_null(values.type) else pa.list_(values.type)
    return pa.array(states, type=pa.list_(pa.null()) if pa.types.is_null(value_type) else value_type)


def _fold(values: pa.Array, groups: Groups, prior: pa.Array, step: Callable[[Any, Any], Any]) -> pa.Array:
    states = python_values(prior)
    for group, value in zip(groups.ids.tolist(), python_values(values), strict=True):
        if value is not None:
            states[group] = step(states[group], value)
    return pa.array(states, type=prior.type if pa.types.is_null(values.type) else values.type)


def _valid(column: pa.Array) -> BoolArray:
    mask: BoolArray = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _numbers(values: pa.Array, kind: pa.DataType) -> Any:
    # An integer that a double does not hold is rounded, as it is where one is added to the other.
    return pc.fill_null(values.cast(kind, safe=False), pa.scalar(0, kind)).to_numpy(zero_copy_only=False)


def _integers(prior: pa.Array) -> IntArray:
    filled: IntArray = pc.fill_null(prior.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).copy()
    return filled


def _doubles(prior: pa.Array) -> Any:
    return pc.fill_null(prior.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False).copy()


def _less(new: Any, old: Any) -> bool:
    return bool(new < old)


def _greater(new: Any, old: Any) -> bool:
    return bool(new > old)


_KERNELS: dict[type[BuiltInAggregator], Callable[[pa.Array, Groups, pa.Array], pa.Array]] = {
    CountAggregator: _count,
    SumAggregator: _sum,
    AvgAggregator: _avg,
    MinAggregator: _extreme(np.minimum.at, _less),
    MaxAggregator: _extreme(np.maximum.at, _greater),
    FirstAggregator: _first,
    LastAggregator: _last,
    CollectAggregator: _collect,
}
