"""Stream-table joins: each stream record with its key's row, as of the record's position in the order.

Of a versioned table a record sees the version of its own timestamp, and may be buffered until late
versions have arrived (KIP-914, KIP-923).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.metrics import DropReason
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.joins.grace_buffer import GraceBuffer
from millrace.task.operators.tables.table_rows import RowFunctions
from millrace.task.processor import Forwarded, Processor, call_per_record
from millrace.task.records import Records
from millrace.task.table_getters import table_getter
from millrace.task.task_stores import TaskStores
from millrace.topology.operators import JoinKind, StreamTableJoin


class StreamTableJoinProcessor(Processor):
    """The processor of stream-table joins; null stream values are dropped and counted.

    So are null keys, except in a left join, where they find no row.
    """

    def __init__(
        self,
        node: str,
        operator: StreamTableJoin,
        *,
        failures: FailureHandler,
        stores: TaskStores,
        stream_times: dict[str, int],
    ) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures
        self._getter = table_getter(operator.table, stores)
        self._buffer: GraceBuffer | None = None
        if operator.buffer is not None and operator.grace_ms is not None:
            self._buffer = GraceBuffer(
                stores, operator.buffer, operator.grace_ms, failures=failures, stream_times=stream_times
            )

    def reset(self) -> None:
        if self._buffer is not None:
            self._buffer.discard()

    def process(self, records: Records) -> Forwarded:
        failures = self._failures
        left = self._operator.kind is JoinKind.LEFT
        no_key, no_value = records.keys.null_mask(), records.values.null_mask()
        dropped_keys = np.zeros(len(records), dtype=bool) if left else no_key
        failures.drop(DropReason.NULL_KEY, records.origin[dropped_keys])
        failures.drop(DropReason.NULL_VALUE, records.origin[no_value & ~dropped_keys])
        records = records.filter(~(dropped_keys | no_value))
        if self._buffer is not None and len(records):
            records = self._buffer.release(records)
        if len(records) == 0:
            return None
        with_key = ~records.keys.null_mask()
        whole = bool(with_key.all())
        searching = records if whole else records.filter(with_key)
        functions = RowFunctions(self._failures, self._node, searching)
        as_of = searching.timestamps if self._getter.is_versioned else None
        rows = self._getter.get(searching, functions, as_of=as_of).values
        failed = functions.failed
        if not whole:
            found: list[Any] = [None] * len(records)
            indices = np.flatnonzero(with_key)
            for index, row in zip(indices.tolist(), rows.objects, strict=True):
                found[index] = row
            rows = Column(objects=found)
            failed = np.zeros(len(records), dtype=bool)
            failed[indices] = functions.failed
        kept = ~failed if left else ~(failed | rows.null_mask())
        if not kept.all():
            indices = np.flatnonzero(kept)
            records, rows = records.take(indices), rows.take(indices)
        return self._joined(records, rows.objects)

    def _joined(self, records: Records, table_values: list[Any]) -> Records:
        joiner = self._operator.joiner
        pairs = records.with_values(Column(objects=list(zip(records.values.objects, table_values, strict=True))))
        if self._operator.joiner_takes_key:
            results, rows = call_per_record(
                lambda key, pair: joiner(key, pair[0], pair[1]), pairs, self._failures, self._node
            )
        else:
            results, rows = call_per_record(lambda _, pair: joiner(pair[0], pair[1]), pairs, self._failures, self._node)
        kept = records if rows is None else records.take(rows)
        return kept.with_values(Column(objects=results))
