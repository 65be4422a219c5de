"""``flat_map`` and ``flat_map_values``: any number of records for each record."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.stateless.mapping import checked_pair
from millrace.task.processor import Forwarded, Processor, call_per_record
from millrace.task.records import Records
from millrace.topology.operators import FlatMap, FlatMapValues


class FlatMapProcessor(Processor):
    """The processor of ``flat_map``: ``(key, value) -> iterable of (key, value)``."""

    def __init__(self, node: str, operator: FlatMap, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        results, rows = call_per_record(self._pairs, records, self._failures, self._node)
        kept = records if rows is None else records.take(rows)
        pairs = [pair for result in results for pair in result]
        return _expanded(
            kept,
            [len(result) for result in results],
            Column(objects=[key for key, _ in pairs]),
            Column(objects=[value for _, value in pairs]),
        )

    def _pairs(self, key: Any, value: Any) -> list[tuple[Any, Any]]:
        # A generator runs here, inside the handler's reach, and not later.
        return [checked_pair(pair, self._node) for pair in self._operator.mapper(key, value)]


class FlatMapValuesProcessor(Processor):
    """The processor of ``flat_map_values``: ``(key, value) -> iterable of values``."""

    def __init__(self, node: str, operator: FlatMapValues, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        results, rows = call_per_record(self._values, records, self._failures, self._node)
        kept = records if rows is None else records.take(rows)
        values = [value for result in results for value in result]
        return _expanded(kept, [len(result) for result in results], None, Column(objects=values))

    def _values(self, key: Any, value: Any) -> list[Any]:
        return list(self._operator.mapper(key, value))


def _expanded(records: Records, counts: list[int], keys: Column | None, values: Column) -> Records:
    lengths = np.array(counts, dtype=np.int64)
    parents = np.repeat(np.arange(len(records), dtype=np.int64), lengths)
    first = np.cumsum(lengths) - lengths
    ordinals = np.arange(len(parents), dtype=np.int64) - np.repeat(first, lengths)
    return records.expand(parents, ordinals, keys, values)
