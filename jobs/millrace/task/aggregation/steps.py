"""The built-in aggregations computed one record at a time.

This is for every intermediate state, where a store is not cached, and for values without a type (JSON without a
schema).

Their states equal those of the kernels (a test compares them); kernels are the fast form where only the last state of
each group in a batch is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millrace.serdes.times import python_values
from millrace.task.aggregation.groups import Groups
from millrace.task.aggregation.kernels import ColumnAggregator, check_input, field_of, input_of, state_type
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
    """Returns the state of each row's group after that row.

    Args:
        aggregator: what to compute.
        values: the rows' values.
        groups: which rows belong together.
        prior: old state of each group, null where there is none.

    Returns:
        One state per row.
    """
    if isinstance(aggregator, StructAggregator):
        columns = [running_states(part, values, groups, field_of(prior, name)) for name, part in aggregator.fields]
        return pa.StructArray.from_arrays(columns, names=[name for name, _ in aggregator.fields])
    column = input_of(aggregator, values)
    check_input(aggregator, column)
    counts_nulls = isinstance(aggregator, CountAggregator) and aggregator.field is None
    inputs = [True] * len(column) if counts_nulls else python_values(column)
    states: list[Any] = python_values(prior)
    step = _STEPS[type(aggregator)]
    after: list[Any] = []
    for group, value in zip(groups.ids.tolist(), inputs, strict=True):
        state = step(states[group], value)
        states[group] = state
        after.append(state)
    return pa.array(after, type=state_type(aggregator, column.type, prior.type))


def step_of(aggregator: ColumnAggregator) -> Callable[[Any, Any], Any]:
    """Returns ``step(state, value) -> state`` over Python objects; ``None`` stands for no state and for null.

    The step raises where a value does not have the form that the aggregation needs.
    """
    if isinstance(aggregator, StructAggregator):
        parts = [(name, step_of(part)) for name, part in aggregator.fields]

        def step_all(state: Any, value: Any) -> Any:
            return {name: step(None if state is None else state.get(name), value) for name, step in parts}

        return step_all
    step = _STEPS[type(aggregator)]
    field = aggregator.field
    if field is not None:
        return lambda state, value: step(state, None if value is None else value.get(field))
    if isinstance(aggregator, CountAggregator):
        return lambda state, _: step(state, True)
    return step


def result_of(aggregator: ColumnAggregator, state: Any) -> Any:
    """Returns the result that goes downstream for a state: the state, but for means; an empty mean is ``None``."""
    if isinstance(aggregator, AvgAggregator):
        return state["sum"] / state["count"] if state is not None and state["count"] else None
    if isinstance(aggregator, StructAggregator) and state is not None:
        return {name: result_of(part, state[name]) for name, part in aggregator.fields}
    return state


_WRAP = 2**63


def _count(state: Any, value: Any) -> Any:
    return (state or 0) + (value is not None)


def _sum(state: Any, value: Any) -> Any:
    total = (0 if state is None else state) + (0 if value is None else value)
    if isinstance(total, int) and not -_WRAP <= total < _WRAP:
        total = (total + _WRAP) % (2 * _WRAP) - _WRAP
    return total


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
