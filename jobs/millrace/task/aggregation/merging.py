"""The merging of two states of a built-in aggregation, needed when sessions merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.task.aggregation.steps import step_of
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

Merge = Callable[[Any, Any], Any]
"""``merge(one, two) -> state``; ``None`` stands for no state."""


def merge_of(aggregator: BuiltInAggregator | StructAggregator) -> Merge:
    """Returns ``merge(older, newer) -> state``: the state of the values of both, those of the older one first."""
    if isinstance(aggregator, StructAggregator):
        parts = [(name, merge_of(part)) for name, part in aggregator.fields]

        def merge_all(older: Any, newer: Any) -> Any:
            if older is None or newer is None:
                return newer if older is None else older
            return {name: merge(older.get(name), newer.get(name)) for name, merge in parts}

        return merge_all
    return _absent_is_neutral(_MERGES[type(aggregator)])


def _absent_is_neutral(merge: Merge) -> Merge:
    def merged(older: Any, newer: Any) -> Any:
        if older is None or newer is None:
            return newer if older is None else older
        return merge(older, newer)

    return merged


def _add_means(older: Any, newer: Any) -> Any:
    return {"sum": older["sum"] + newer["sum"], "count": older["count"] + newer["count"]}


_MERGES: dict[type[BuiltInAggregator], Merge] = {
    CountAggregator: lambda older, newer: older + newer,
    # A sum, a smallest, a largest and a last value take another state as they take a value.
    SumAggregator: step_of(SumAggregator()),
    MinAggregator: step_of(MinAggregator()),
    MaxAggregator: step_of(MaxAggregator()),
    LastAggregator: step_of(LastAggregator()),
    FirstAggregator: step_of(FirstAggregator()),
    AvgAggregator: _add_means,
    CollectAggregator: lambda older, newer: [*older, *newer],
}
