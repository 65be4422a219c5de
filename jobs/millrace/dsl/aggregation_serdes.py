"""Serdes of aggregation results where the user gave none."""

from __future__ import annotations

from millrace.serdes import DoubleSerde, IntegerSerde, JsonSerde, LongSerde, Serde
from millrace.topology.aggregators import (
    Aggregator,
    AvgAggregator,
    CallableAggregator,
    CountAggregator,
    FirstAggregator,
    LastAggregator,
    MaxAggregator,
    MinAggregator,
    ReduceAggregator,
    SumAggregator,
    TableAggregator,
    TableCallableAggregator,
    TableReduceAggregator,
)


def result_serde(aggregator: Aggregator, value_serde: Serde | None) -> Serde | None:
    """Returns the serde of what ``aggregator`` gives for values of ``value_serde``.

    Counts are ``LongSerde``, averages ``DoubleSerde``. A sum of whole values is ``LongSerde`` for integers and
    ``DoubleSerde`` for doubles; smallest, largest, first and last whole values keep ``value_serde``. Other built-in
    results (of a field, lists, structs) are ``JsonSerde``. A reduction keeps ``value_serde``; for an aggregation by
    callables it is unknown: ``None``, which takes the configuration's.
    """
    result: Serde | None
    match aggregator:
        case CallableAggregator():
            result = None
        case CountAggregator():
            result = LongSerde()
        case AvgAggregator():
            result = DoubleSerde()
        case SumAggregator(field=None) if isinstance(value_serde, LongSerde | IntegerSerde):
            result = LongSerde()
        case SumAggregator(field=None) if isinstance(value_serde, DoubleSerde):
            result = DoubleSerde()
        case ReduceAggregator():
            result = value_serde
        case MinAggregator(field=None) | MaxAggregator(field=None) | FirstAggregator(field=None):
            result = value_serde or JsonSerde()
        case LastAggregator(field=None):
            result = value_serde or JsonSerde()
        case _:
            result = JsonSerde()
    return result


def table_result_serde(aggregator: TableAggregator, value_serde: Serde | None) -> Serde | None:
    """Works like :func:`result_serde`, for the aggregations of a grouped table."""
    match aggregator:
        case TableReduceAggregator():
            return value_serde
        case TableCallableAggregator():
            return None
        case _:
            return result_serde(aggregator, value_serde)


def state_serde(aggregator: Aggregator | TableAggregator, value_serde: Serde | None) -> Serde | None:
    """Returns the serde of what ``aggregator`` keeps: that of its results; for a mean, that of sum and count."""
    return JsonSerde() if isinstance(aggregator, AvgAggregator) else value_serde
