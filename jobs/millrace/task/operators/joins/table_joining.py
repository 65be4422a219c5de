"""Joins of two tables: a change of either side with the other side's row as of the change's position in the order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.table_rows import RowFunctions, no_rows, present_key_bytes
from millrace.task.operators.tables.table_writing import write_table
from millrace.task.processor import Forwarded, Processor, drop_null_keys, drop_superseded
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.table_getters import table_getter
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.operators import TableJoinKind, TableJoinMerge, TableJoinSide


class TableJoinSideProcessor(Processor):
    """The processor that joins the changes of one table with rows of the other.

    A change that leaves the joined table as it is goes on all the same, where the other side has a row: an inner join
    deletes what it may never have sent. Of a versioned table what comes out of order is dropped and counted.
    """

    def __init__(self, node: str, operator: TableJoinSide, *, failures: FailureHandler, stores: TaskStores) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures
        self._stores = stores
        self._getter = table_getter(operator.table, stores)
        # The side whose rows make rows of the join without a partner.
        self._needs_other = operator.kind is TableJoinKind.INNER or (
            operator.kind is TableJoinKind.LEFT and not operator.is_left
        )

    def process(self, records: Records) -> Forwarded:
        records = drop_null_keys(records, self._failures)
        records = drop_superseded(records, self._failures)
        if len(records) == 0:
            return None
        functions = RowFunctions(self._failures, self._node, records)
        others = self._getter.get(records, functions)
        old_values = records.old_values or no_rows(len(records))
        relevant = ~others.values.null_mask()
        if not self._needs_other:
            relevant |= ~(records.values.null_mask() & old_values.null_mask())
        sends_old_values = self._stores.sends_old_values(self._node)
        joined = self._joiner(functions, others.values, relevant)
        new_results = joined(records.values)
        old_results = joined(old_values) if sends_old_values else None
        results = replace(
            records,
            values=new_results,
            old_values=old_results,
            timestamps=np.maximum(records.timestamps, others.timestamps),
        )
        return results.filter(relevant & ~functions.failed)

    def _joiner(self, functions: RowFunctions, others: Column, rows: Any) -> Callable[[Column], Column]:
        kind, joiner = self._operator.kind, self._operator.joiner
        if self._operator.is_left:
            return lambda own: functions.join(kind, joiner, own, others, rows=rows)
        return lambda own: functions.join(kind, joiner, others, own, rows=rows)


class TableJoinMergeProcessor(Processor):
    """The processor that takes the results of both sides in turn, and stores them if the join is materialised."""

    def __init__(self, node: str, operator: TableJoinMerge, *, failures: FailureHandler, stores: TaskStores) -> None:
        self._node = node
        self._name = operator.store
        self._failures = failures
        self._stores = stores
        self._sends_old_values = stores.sends_old_values(node)
        self._store: KeyValueStore | VersionedKeyValueStore | None = None
        if operator.store is not None:
            store = stores.open(operator.store)
            assert isinstance(store, KeyValueStore | VersionedKeyValueStore)
            self._store = store
            self._key_serde = or_default(stores.specs[operator.store].key_serde)
            self._value_serde = or_default(stores.specs[operator.store].value_serde)

    def process(self, records: Records) -> Forwarded:
        if self._store is None or self._name is None:
            return records if self._sends_old_values else records.with_change(records.values, None)
        found = written(records, self._failures, self._node, key_serde=self._key_serde, value_serde=self._value_serde)
        return write_table(
            self._stores,
            self._name,
            self._store,
            found.records,
            keys=present_key_bytes(found.keys, self._node),
            values=found.values,
            timestamps=found.records.timestamps,
            merge=self._stores.merges_updates(self._name),
            sends_old_values=self._sends_old_values,
            failures=self._failures,
        )
