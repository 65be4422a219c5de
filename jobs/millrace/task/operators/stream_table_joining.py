"""Stream-table joins: each stream record with its key's row, as the table was at the record's place in the order."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.metrics import DropReason
from millrace.task.aggregation.steps import result_of
from millrace.task.columns import Column
from millrace.task.processor import Forwarded, Processor, TaskContext, call_per_record
from millrace.task.records import Records
from millrace.task.serialization import from_bytes, or_default, to_bytes_list
from millrace.topology.aggregators import BuiltInAggregator, StructAggregator
from millrace.topology.operators import JoinKind, StreamTableJoin


class StreamTableJoinProcessor(Processor):
    """Null stream values are dropped and counted; a null key too, but for a left join, where it finds no row."""

    def __init__(self, node: str, operator: StreamTableJoin, context: TaskContext) -> None:
        spec = context.stores[operator.store]
        self._node = node
        self._operator = operator
        self._context = context
        self._view = context.tables[operator.store]
        self._key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)
        self._aggregator = context.aggregators.get(operator.store)

    def process(self, records: Records) -> Forwarded:
        failures = self._context.failures
        left = self._operator.kind is JoinKind.LEFT
        no_key, no_value = records.keys.null_mask(), records.values.null_mask()
        dropped_keys = np.zeros(len(records), dtype=bool) if left else no_key
        failures.drop(DropReason.NULL_KEY, int(dropped_keys.sum()))
        failures.drop(DropReason.NULL_VALUE, int((no_value & ~dropped_keys).sum()))
        records = records.filter(~(dropped_keys | no_value))
        keys = to_bytes_list(records.keys, self._key_serde)
        with_key = np.fromiter((key is not None for key in keys), dtype=bool, count=len(keys))
        found: list[bytes | None] = [None] * len(records)
        looked_up = self._view.lookup(
            [key for key in keys if key is not None], tuple(column[with_key] for column in records.order)
        )
        for row, value in zip(np.flatnonzero(with_key).tolist(), looked_up, strict=True):
            found[row] = value
        if not left:
            matched = np.fromiter((value is not None for value in found), dtype=bool, count=len(found))
            records = records.filter(matched)
            found = [value for value in found if value is not None]
        rows = from_bytes(found, self._value_serde).objects
        if isinstance(self._aggregator, BuiltInAggregator | StructAggregator):
            aggregator = self._aggregator
            rows = [None if row is None else result_of(aggregator, row) for row in rows]
        return self._joined(records, rows)

    def _joined(self, records: Records, table_values: list[Any]) -> Records:
        joiner = self._operator.joiner
        pairs = records.with_values(Column(objects=list(zip(records.values.objects, table_values, strict=True))))
        if self._operator.joiner_takes_key:
            results, rows = call_per_record(
                lambda key, pair: joiner(key, pair[0], pair[1]), pairs, self._context.failures, self._node
            )
        else:
            results, rows = call_per_record(
                lambda _, pair: joiner(pair[0], pair[1]), pairs, self._context.failures, self._node
            )
        kept = records if rows is None else records.take(rows)
        return kept.with_values(Column(objects=results))
