"""The subtraction of a value from a built-in aggregate, needed when a row of a grouped table changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.errors import TopologyError
from millrace.task.aggregation.kernels import ColumnAggregator
from millrace.task.aggregation.steps import step_of
from millrace.topology.aggregators import (
    AvgAggregator,
    BuiltInAggregator,
    CountAggregator,
    StructAggregator,
    SumAggregator,
)


def subtraction_of(aggregator: ColumnAggregator) -> Callable[[Any, Any], Any]:
    """Returns ``step(state, value) -> state``, the inverse of :func:`millrace.task.aggregation.steps.step_of`.

    Raises:
        TopologyError: the aggregation cannot take a value back.
    """
    if isinstance(aggregator, StructAggregator):
        parts = [(name, subtraction_of(part)) for name, part in aggregator.fields]
        return lambda state, value: {name: step(state.get(name), value) for name, step in parts}
    if type(aggregator) not in _SUBTRACTIONS:
        raise TopologyError(f"The aggregation {aggregator.kind} cannot take a value back.")
    step, field = _SUBTRACTIONS[type(aggregator)], aggregator.field
    if field is not None:
        return lambda state, value: step(state, value.get(field))
    if isinstance(aggregator, CountAggregator):
        return lambda state, _: step(state, True)
    return step


def _count(state: Any, value: Any) -> Any:
    return state - (value is not None)


_add_up = step_of(SumAggregator())


def _sum(state: Any, value: Any) -> Any:
    return state if value is None else _add_up(state, -value)


def _avg(state: Any, value: Any) -> Any:
    return state if value is None else {"sum": state["sum"] - value, "count": state["count"] - 1}


_SUBTRACTIONS: dict[type[BuiltInAggregator], Callable[[Any, Any], Any]] = {
    CountAggregator: _count,
    SumAggregator: _sum,
    AvgAggregator: _avg,
}
