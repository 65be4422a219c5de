"""The built-in aggregations one record at a time: every intermediate state, for stores without caching.

They give the same states as the kernels (a test compares them); kernels are the fast form where only the last state of
each group in a batch is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millrace.task.aggregation.groups import Groups
from millrace.task.aggregation.kernels import ColumnAggregator, check_input, input_of
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


def running_states(aggregator: ColumnAggregator, values: pa.Array, groups: Groups, prior: pa.Array) -> pa.Array:
    """The state of each row's group after the row.

    Args:
        aggregator: what to compute.
        values: the rows' values.
        groups: which rows belong together.
        prior: old state of each group, null where there is none.

    Returns:
        One state per row.
    """
    if isinstance(aggregator, StructAggregator):
        is_struct = pa.types.is_struct(prior.type)
        columns = []
        for name, part in aggregator.fields:
            index = prior.type.get_field_index(name) if is_struct else -1
            own = prior.flatten()[index] if index >= 0 else pa.nulls(len(prior))
            columns.append(running_states(part, values, groups, own))
        return pa.StructArray.from_arrays(columns, names=[name for name, _ in aggregator.fields])
    column = input_of(aggregator, values)
    check_input(aggregator, column)
    counts_nulls = isinstance(aggregator, CountAggregator) and aggregator.field is None
    inputs = [True] * len(column) if counts_nulls else column.to_pylist()
    states: list[Any] = prior.to_pylist()
    step = _STEPS[type(aggregator)]
    after: list[Any] = []
    for group, value in zip(groups.ids.tolist(), inputs, strict=True):
        state = step(states[group], value)
        states[group] = state
        after.append(state)
    return pa.array(after)


def _count(state: Any, value: Any) -> Any:
    return (state or 0) + (value is not None)


def _sum(state: Any, value: Any) -> Any:
    return (0 if state is None else state) + (0 if value is None else value)


def _avg(state: Any, value: Any) -> Any:
    old = state or {"sum": 0.0, "count": 0}
    if value is None:
        return old
    return {"sum": old["sum"] + value, "count": old["count"] + 1}


def _min(state: Any, value: Any) -> Any:
    if value is None or state is None:
        return state if value is None else value
    return value if value < state or value != value else state  # noqa: PLR0124 - NaN differs from itself


def _max(state: Any, value: Any) -> Any:
    if value is None or state is None:
        return state if value is None else value
    return value if value > state or value != value else state  # noqa: PLR0124 - NaN differs from itself


def _first(state: Any, value: Any) -> Any:
    return value if state is None else state


def _last(state: Any, value: Any) -> Any:
    return state if value is None else value


def _collect(state: Any, value: Any) -> Any:
    return [*(state or []), *([] if value is None else [value])]


_STEPS: dict[type[BuiltInAggregator], Callable[[Any, Any], Any]] = {
    CountAggregator: _count,
    SumAggregator: _sum,
    AvgAggregator: _avg,
    MinAggregator: _min,
    MaxAggregator: _max,
    FirstAggregator: _first,
    LastAggregator: _last,
    CollectAggregator: _collect,
}
