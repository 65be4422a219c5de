"""Cogroups: several streams aggregated into one table (KIP-150)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from millrace.task.columns import CogroupedColumn
from millrace.task.failures import FailureHandler
from millrace.task.operators.aggregations.aggregating import StreamAggregateProcessor
from millrace.task.operators.windows.session_aggregating import SessionAggregateProcessor
from millrace.task.operators.windows.sliding_aggregating import SlidingAggregateProcessor
from millrace.task.operators.windows.windowed_aggregating import WindowedAggregateProcessor
from millrace.task.processor import HeldBackByStore, JointProcessor, Processor
from millrace.task.records import Records, concat_orders, merge_in_order, sorted_rows
from millrace.task.task_stores import TaskStores
from millrace.topology.aggregators import CallableAggregator
from millrace.topology.nodes import ProcessorNode
from millrace.topology.operators import (
    CogroupAggregate,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    WindowedAggregate,
)

Aggregation = StreamAggregate | WindowedAggregate | SlidingAggregate | SessionAggregate


class CogroupProcessor(JointProcessor):
    """The processor that aggregates the records of all inputs in their common order, each with its input's adder.

    The inputs are one stream of pairs of input and value to the processor of such an aggregation; only stream time it
    keeps for each of them (see :func:`millrace.task.stream_time.advance_stream_time`), as Kafka Streams does.
    """

    def __init__(
        self,
        nodes: Sequence[ProcessorNode],
        *,
        failures: FailureHandler,
        stores: TaskStores,
        stream_times: dict[str, int],
        held_back: HeldBackByStore,
    ) -> None:
        self._index_of = {
            node.name: node.operator.index for node in nodes if isinstance(node.operator, CogroupAggregate)
        }
        by_index = sorted(nodes, key=lambda node: self._index_of[node.name])
        operators = [node.operator for node in by_index if isinstance(node.operator, CogroupAggregate)]
        aggregators = [operator.aggregation.aggregator for operator in operators]
        callables = [aggregator for aggregator in aggregators if isinstance(aggregator, CallableAggregator)]
        assert len(callables) == len(nodes)
        # Each input has an initializer, and all of them are the same.
        both = CallableAggregator(callables[0].initializer, _by_input([one.adder for one in callables]))
        self._first = by_index[0].name
        self._processor = _create(
            operators[0].joint,
            replace(operators[0].aggregation, aggregator=both),
            failures=failures,
            stores=stores,
            stream_times=stream_times,
            held_back=held_back,
        )

    def reset(self) -> None:
        self._processor.reset()

    def process(self, inputs: Mapping[str, Records]) -> Mapping[str, Records]:
        batches = list(inputs.values())
        indices = np.concatenate([np.full(len(records), self._index_of[node]) for node, records in inputs.items()])
        if len(batches) > 1:
            indices = indices[sorted_rows(concat_orders([records.order for records in batches]))]
        merged = merge_in_order(batches)
        forwarded = self._processor.process(
            merged.with_values(CogroupedColumn(merged.values, indices.astype(np.int64)))
        )
        assert forwarded is None or isinstance(forwarded, Records)
        # All inputs feed the same node, which puts what it gets in order.
        return {} if forwarded is None else {self._first: forwarded}


def _by_input(adders: Sequence[Callable[[Any, Any, Any], Any]]) -> Callable[[Any, Any, Any], Any]:
    def add(key: Any, value: tuple[int, Any], aggregate: Any) -> Any:
        index, own_value = value
        return adders[index](key, own_value, aggregate)

    return add


def _create(
    node: str,
    operator: Aggregation,
    *,
    failures: FailureHandler,
    stores: TaskStores,
    stream_times: dict[str, int],
    held_back: HeldBackByStore,
) -> Processor:
    match operator:
        case StreamAggregate():
            return StreamAggregateProcessor(node, operator, failures=failures, stores=stores)
        case WindowedAggregate():
            return WindowedAggregateProcessor(
                node, operator, failures=failures, stores=stores, stream_times=stream_times, held_back=held_back
            )
        case SlidingAggregate():
            return SlidingAggregateProcessor(
                node, operator, failures=failures, stores=stores, stream_times=stream_times, held_back=held_back
            )
        case SessionAggregate():
            return SessionAggregateProcessor(
                node, operator, failures=failures, stores=stores, stream_times=stream_times, held_back=held_back
            )
