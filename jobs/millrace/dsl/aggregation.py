"""Checked aggregators from the arguments of ``aggregate`` and ``reduce``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.dsl.callables import check_callable
from millrace.errors import TopologyError
from millrace.topology.aggregators import (
    Aggregator,
    BuiltInAggregator,
    CallableAggregator,
    ReduceAggregator,
    StructAggregator,
)


def to_aggregator(
    initializer: Callable[[], Any] | BuiltInAggregator | StructAggregator,
    adder: Callable[[Any, Any, Any], Any] | None,
) -> Aggregator:
    """Returns a built-in aggregator, or one made of callables.

    Raises:
        TopologyError: a callable takes another number of arguments, or there is one too many or too few.
    """
    if isinstance(initializer, BuiltInAggregator | StructAggregator):
        if adder is not None:
            raise TopologyError("A built-in aggregator takes no adder.", remedy="pass either of them")
        return initializer
    check_callable(initializer, 0, what="initializer", takes="")
    if adder is None:
        raise TopologyError(
            "An aggregation by callables needs an initializer and an adder, and there is no adder.",
            remedy="pass an adder (key, value, aggregate), or instead of both a built-in aggregator, for example "
            "aggregators.sum_('amount') or aggregators.count()",
        )
    check_callable(adder, 3, what="adder", takes="key, value, aggregate")
    return CallableAggregator(initializer, adder)


def to_reducer(reducer: Callable[[Any, Any], Any]) -> ReduceAggregator:
    """Returns a reduction.

    Raises:
        TopologyError: the callable takes another number of arguments.
    """
    check_callable(reducer, 2, what="reducer", takes="aggregate, value")
    return ReduceAggregator(reducer)
