"""``map``, ``map_values``, ``select_key``, ``peek`` and ``foreach``: one record for each record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc

from millrace.errors import ProcessingError
from millrace.task.columns import Column, IntArray
from millrace.task.expressions import evaluate
from millrace.task.failures import FailureHandler
from millrace.task.processor import Forwarded, Processor, call_per_record
from millrace.task.records import Records
from millrace.topology.operators import Map, MapValues, Peek, SelectKey


def _kept(records: Records, rows: IntArray | None) -> Records:
    return records if rows is None else records.take(rows)


def mapped(
    mapper: Callable[[Any, Any], Any] | pc.Expression, records: Records, failures: FailureHandler, node: str
) -> tuple[Records, Column]:
    """Returns the records for which the mapper did not fail, and its result for each."""
    if isinstance(mapper, pc.Expression):
        column, rows = evaluate(mapper, records, failures, node)
        return _kept(records, rows), column
    results, rows = call_per_record(mapper, records, failures, node)
    return _kept(records, rows), Column(objects=results)


class MapProcessor(Processor):
    """The processor of ``map``: ``(key, value) -> (key, value)``."""

    def __init__(self, node: str, operator: Map, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        pairs, rows = call_per_record(self._pair, records, self._failures, self._node)
        records = _kept(records, rows)
        return records.with_keys(Column(objects=[key for key, _ in pairs])).with_values(
            Column(objects=[value for _, value in pairs])
        )

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any]:
        return checked_pair(self._operator.mapper(key, value), self._node)


def checked_pair(result: Any, node: str) -> tuple[Any, Any]:
    """Returns ``result``, checked to be a (key, value) pair.

    Raises:
        ProcessingError: it is not one.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise ProcessingError(
            f"The mapper of node {node} returned {type(result).__name__} instead of a (key, value) tuple.",
            remedy="return a tuple of key and value",
        )
    return result


class MapValuesProcessor(Processor):
    """The processor that sets the value of each record."""

    def __init__(self, node: str, operator: MapValues, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        records, values = mapped(self._operator.mapper, records, self._failures, self._node)
        return records.with_values(values)


class SelectKeyProcessor(Processor):
    """The processor that sets the key of each record."""

    def __init__(self, node: str, operator: SelectKey, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        records, keys = mapped(self._operator.mapper, records, self._failures, self._node)
        return records.with_keys(keys)


class PeekProcessor(Processor):
    """The processor that calls an action for each record and passes the record on, unless it is ``foreach``."""

    def __init__(self, node: str, operator: Peek, *, failures: FailureHandler) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures

    def process(self, records: Records) -> Forwarded:
        _, rows = call_per_record(self._operator.action, records, self._failures, self._node)
        return _kept(records, rows) if self._operator.forwards else None
