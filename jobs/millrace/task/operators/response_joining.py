"""The end of a foreign-key join: responses, joined with the primary rows that they are for."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.kafka.murmur3 import hash128
from millrace.metrics import DropReason
from millrace.serdes.subscriptions import Response
from millrace.task.columns import Column
from millrace.task.operators.table_rows import RowFunctions
from millrace.task.processor import Forwarded, Processor, TaskContext, call_per_record
from millrace.task.records import Records
from millrace.task.serialization import or_default, to_bytes_list
from millrace.task.table_getters import table_getter
from millrace.topology.foreign_key_join import ResponseJoin


class ResponseJoinProcessor(Processor):
    """A response whose hash is not that of the row's value now is dropped and counted: a later one follows.

    No foreign row means no result, which a left join has only where the primary row is gone as well.
    """

    def __init__(self, node: str, operator: ResponseJoin, context: TaskContext) -> None:
        self._node = node
        self._context = context
        self._joiner = operator.joiner
        self._left_join = operator.left_join
        self._value_serde = or_default(operator.value_serde)
        self._getter = table_getter(operator.table, context)

    def process(self, records: Records) -> Forwarded:
        functions = RowFunctions(self._context, self._node, records)
        rows = self._getter.get(records, functions).values
        hashes = [None if value is None else hash128(value) for value in to_bytes_list(rows, self._value_serde)]
        responses: list[Response] = records.values.objects
        current = np.fromiter(
            (response.hash == row_hash for response, row_hash in zip(responses, hashes, strict=True)), dtype=bool
        )
        self._context.failures.drop(DropReason.STALE_RESPONSE, records.origin[~current & ~functions.failed])
        kept = np.flatnonzero(current & ~functions.failed)
        return self._joined(records.take(kept), rows.take(kept).objects) if len(kept) else None

    def _joined(self, records: Records, rows: list[Any]) -> Records:
        pairs = [(row, response.foreign_value) for row, response in zip(rows, records.values.objects, strict=True)]
        joiner, left_join = self._joiner, self._left_join

        def join(_: Any, pair: tuple[Any, Any]) -> Any:
            row, foreign_value = pair
            if foreign_value is None and (not left_join or row is None):
                return None
            return joiner(row, foreign_value)

        called = records.with_values(Column(objects=pairs))
        results, joined = call_per_record(join, called, self._context.failures, self._node)
        kept = records if joined is None else records.take(joined)
        return kept.with_values(Column(objects=results))
