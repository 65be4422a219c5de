"""The value of an aggregate before its first record, for operators that need the value before an update."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from millrace.task.columns import Column
from millrace.topology.aggregators import Aggregator, CallableAggregator, CountAggregator, SumAggregator


def first_result(aggregator: Aggregator) -> Any:
    """Returns the result of an aggregation before any record."""
    if isinstance(aggregator, CountAggregator | SumAggregator):
        return 0
    return aggregator.initializer() if isinstance(aggregator, CallableAggregator) else None


def before_first(aggregator: Aggregator, old: Column) -> Column:
    """Returns the old values, with the aggregation's initial value where there was no aggregate yet.

    Kafka Streams takes the initializer's value for the old one, so that a table grouped by another key subtracts it;
    where the store is cached it does not, since what it then sends comes from the store.

    Args:
        aggregator: what is computed.
        old: the value before each update, null where there was none.
    """
    if not isinstance(aggregator, CountAggregator | SumAggregator | CallableAggregator):
        return old
    if old.is_arrow and not isinstance(aggregator, CallableAggregator):
        return Column(arrow=pc.fill_null(old.arrow, 0))
    return Column(objects=[first_result(aggregator) if value is None else value for value in old.objects])
