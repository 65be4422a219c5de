"""Joins of a stream with a global table: each record with the row of a selected key, as the table is now."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.metrics import DropReason
from millrace.state import KeyValueStore
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.stateless.mapping import mapped
from millrace.task.processor import Forwarded, Processor, call_per_record
from millrace.task.records import Records
from millrace.task.serialization import from_bytes, or_default
from millrace.task.written_records import written
from millrace.topology.operators import JoinKind, StreamGlobalTableJoin
from millrace.topology.stores import StoreSpec


class StreamGlobalTableJoinProcessor(Processor):
    """The processor of joins with a global table; null stream values are dropped and counted.

    So are null selected keys, except in a left join, where they find no row.

    The record's own key does not matter. Unlike a table's, the rows are not those of the record's time: the whole
    batch sees the global table as it was caught up before.
    """

    def __init__(
        self,
        node: str,
        operator: StreamGlobalTableJoin,
        *,
        failures: FailureHandler,
        store: KeyValueStore,
        spec: StoreSpec,
    ) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures
        self._store = store
        self._key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)

    def process(self, records: Records) -> Forwarded:
        failures = self._failures
        no_value = records.values.null_mask()
        failures.drop(DropReason.NULL_VALUE, records.origin[no_value])
        # Kafka Streams calls the selector for null values as well, and drops the record then whatever it says.
        records, keys = mapped(self._operator.key_selector, records.filter(~no_value), self._failures, self._node)
        if self._operator.kind is not JoinKind.LEFT:
            no_key = keys.null_mask()
            failures.drop(DropReason.NULL_KEY, records.origin[no_key])
            records, keys = records.filter(~no_key), keys.take(np.flatnonzero(~no_key))
        found = written(records, failures, self._node, key_serde=self._key_serde, keys=keys)
        if found.kept is not None:
            records, keys = found.records, keys.take(found.kept)
        if len(records) == 0:
            return None
        rows = self._rows(found.keys)
        if self._operator.kind is not JoinKind.LEFT:
            there = np.flatnonzero(~rows.null_mask())
            records, keys, rows = records.take(there), keys.take(there), rows.take(there)
        return self._joined(records, keys, rows)

    def _rows(self, encoded: list[bytes | None]) -> Column:
        """Returns the table's value for each key; null for a null key."""
        distinct = list(dict.fromkeys(key for key in encoded if key is not None))
        stored = dict(zip(distinct, self._store.get_many(distinct)[0], strict=True))
        return from_bytes([None if key is None else stored[key] for key in encoded], self._value_serde)

    def _joined(self, records: Records, keys: Column, rows: Column) -> Records:
        operator, joiner = self._operator, self._operator.joiner
        parts: list[list[Any]] = [records.values.objects, rows.objects]
        if operator.joiner_takes_selected_key:
            parts.insert(0, keys.objects)
        arguments = records.with_values(Column(objects=list(zip(*parts, strict=True))))
        takes_key = operator.joiner_takes_key or operator.joiner_takes_selected_key
        results, kept = call_per_record(
            (lambda key, given: joiner(key, *given)) if takes_key else (lambda _, given: joiner(*given)),
            arguments,
            self._failures,
            self._node,
        )
        return (records if kept is None else records.take(kept)).with_values(Column(objects=results))
