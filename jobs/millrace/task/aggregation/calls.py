"""An aggregation as calls for one record at a time, built-in aggregators and the user's callables alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from millrace.errors import ProcessingError
from millrace.task.aggregation.kernels import check_input, input_of
from millrace.task.aggregation.merging import merge_of
from millrace.task.aggregation.steps import result_of, step_of
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.records import Records
from millrace.topology.aggregators import (
    Aggregator,
    BuiltInAggregator,
    CountAggregator,
    ReduceAggregator,
    StructAggregator,
)


@dataclass(frozen=True)
class AggregationCalls:
    """The calls that compute an aggregate, one record at a time.

    Args:
        initial: ``initial() -> aggregate`` of nothing.
        add: ``add(key, value, aggregate) -> aggregate``.
        merge: ``merge(key, older, newer) -> aggregate``, for sessions.
        result: ``result(aggregate)``: what goes downstream for what is stored.
    """

    initial: Callable[[], Any]
    add: Callable[[Any, Any, Any], Any]
    merge: Callable[[Any, Any, Any], Any]
    result: Callable[[Any], Any]


def calls_of(aggregator: Aggregator, merger: Callable[[Any, Any, Any], Any] | None = None) -> AggregationCalls:
    """Returns the calls of an aggregation.

    Args:
        aggregator: what to compute.
        merger: ``merger(key, older, newer)`` of an aggregation by callables over sessions; the others bring their own.
    """
    if isinstance(aggregator, BuiltInAggregator | StructAggregator):
        step, merge = step_of(aggregator), merge_of(aggregator)
        return AggregationCalls(
            initial=lambda: None,
            add=lambda _, value, state: step(state, value),
            merge=lambda _, older, newer: merge(older, newer),
            result=partial(result_of, aggregator),
        )
    if isinstance(aggregator, ReduceAggregator):
        reducer = aggregator.reducer

        def reduce(old: Any, value: Any) -> Any:
            return value if old is None else reducer(old, value)

        return AggregationCalls(
            initial=lambda: None,
            add=lambda _, value, aggregate: reduce(aggregate, value),
            merge=lambda _, older, newer: reduce(older, newer),
            result=_unchanged,
        )
    return AggregationCalls(aggregator.initializer, aggregator.adder, merger or _cannot_merge, _unchanged)


def fitting(aggregator: Aggregator, records: Records, failures: FailureHandler, node: str) -> Records:
    """Returns the records if a built-in aggregation can be computed of values of their type, else none of them.

    Raises:
        ProcessingError: there is no such field, or it is not a number where one is needed, and the handler does not
            continue.
    """
    try:
        _check_values(aggregator, records.values)
    except ProcessingError as error:
        for row, origin in enumerate(records.origin.tolist()):
            failures.processing(error, origin, node, processed_record(records, row))
        return records.take(np.zeros(0, dtype=np.int64))
    return records


def _check_values(aggregator: Aggregator, values: Column) -> None:
    """Raises an error for typed values of which a built-in aggregation cannot be computed.

    Raises:
        ProcessingError: there is no such field, or it is not a number where one is needed.
    """
    if not values.is_arrow:
        return
    parts = [part for _, part in aggregator.fields] if isinstance(aggregator, StructAggregator) else [aggregator]
    for part in parts:
        if isinstance(part, BuiltInAggregator) and not (isinstance(part, CountAggregator) and part.field is None):
            check_input(part, input_of(part, values.arrow))


def _unchanged(aggregate: Any) -> Any:
    return aggregate


def _cannot_merge(key: Any, older: Any, newer: Any) -> Any:
    raise NotImplementedError(f"The aggregates {older!r} and {newer!r} of key {key!r} have no merger.")
