"""``filter``, ``filter_not``, ``map_values`` and ``transform_values`` of tables: changes with new and old values."""

from __future__ import annotations

from typing import Generic, TypeVar

from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.table_rows import RowFunctions, no_rows, present_key_bytes
from millrace.task.operators.tables.table_writing import decoded, values_before, write_table
from millrace.task.operators.tables.versioned_writing import VersionedWriter
from millrace.task.processor import Forwarded, Processor
from millrace.task.records import Records
from millrace.task.serialization import or_default, to_bytes_list
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.operators import TableFilter, TableMapValues, TableTransformValues

OperatorT = TypeVar("OperatorT", TableFilter, TableMapValues, TableTransformValues)


class RowByRowProcessor(Processor, Generic[OperatorT]):
    """The common base of filters and mappers: the new value follows from the parent's, and is stored or not."""

    def __init__(self, node: str, operator: OperatorT, *, failures: FailureHandler, stores: TaskStores) -> None:
        self._node = node
        self._operator: OperatorT = operator
        self._failures = failures
        self._stores = stores
        self._sends_old_values = stores.sends_old_values(node)
        self._skips_needless = False
        self._store: KeyValueStore | VersionedKeyValueStore | None = None
        if operator.store is not None:
            store = stores.open(operator.store)
            assert isinstance(store, KeyValueStore | VersionedKeyValueStore)
            self._store = store
            self._key_serde = or_default(stores.specs[operator.store].key_serde)
            self._value_serde = or_default(stores.specs[operator.store].value_serde)

    def _apply(self, functions: RowFunctions, values: Column) -> Column:
        raise NotImplementedError

    def process(self, records: Records) -> Forwarded:
        functions = RowFunctions(self._failures, self._node, records)
        new_values = self._apply(functions, records.values)
        old_values = None
        if self._sends_old_values and self._store is None:
            old_values = self._apply(functions, records.old_values or no_rows(len(records)))
        changes = records.with_change(new_values, old_values).filter(~functions.failed)
        if self._store is None:
            return self._without_needless(changes) if self._skips_needless else changes
        found = written(changes, self._failures, self._node, key_serde=self._key_serde, value_serde=self._value_serde)
        changes, values = found.records, found.values
        keys = present_key_bytes(found.keys, self._node)
        if isinstance(self._store, VersionedKeyValueStore):
            return self._versioned(self._store, changes, keys, values)
        return self._stored(self._store, changes, keys, values)

    def _versioned(
        self, store: VersionedKeyValueStore, changes: Records, keys: list[bytes], values: list[bytes | None]
    ) -> Records:
        assert self._operator.store is not None
        timestamps = changes.timestamps
        writer = VersionedWriter(self._stores, self._failures, self._operator.store, store, keys)
        if not self._sends_old_values:
            writer.put_all(keys, values, timestamps)
            return writer.finish(changes, keys, values, timestamps)
        rows, before = writer.put_each(keys, values, timestamps, skip_nothing=self._skips_needless)
        kept = rows.tolist()
        changes = changes.take(rows)
        changes = changes.with_change(changes.values, decoded(self._stores, self._operator.store, before))
        return writer.finish(changes, [keys[row] for row in kept], [values[row] for row in kept], timestamps[rows])

    def _stored(self, store: KeyValueStore, changes: Records, keys: list[bytes], values: list[bytes | None]) -> Records:
        assert self._operator.store is not None
        if self._sends_old_values:
            old_values = decoded(self._stores, self._operator.store, values_before(store, keys, values))
            changes = changes.with_change(changes.values, old_values)
            needed = self._without_needless(changes) if self._skips_needless else changes
            if len(needed) < len(changes):
                changes = needed
                keys = present_key_bytes(to_bytes_list(changes.keys, self._key_serde), self._node)
                values = to_bytes_list(changes.values, self._value_serde)
        return write_table(
            self._stores,
            self._operator.store,
            store,
            changes,
            keys=keys,
            values=values,
            timestamps=changes.timestamps,
            merge=self._stores.merges_updates(self._operator.store),
            sends_old_values=self._sends_old_values,
            failures=self._failures,
        )

    def _without_needless(self, changes: Records) -> Records:
        if changes.old_values is None:
            return changes
        return changes.filter(~(changes.values.null_mask() & changes.old_values.null_mask()))


class TableFilterProcessor(RowByRowProcessor[TableFilter]):
    """The processor that deletes rows that do not match; where old values are known, only if they matched before.

    Of a versioned table every change goes on: that a row does not match is part of its history.
    """

    def __init__(self, node: str, operator: TableFilter, *, failures: FailureHandler, stores: TaskStores) -> None:
        super().__init__(node, operator, failures=failures, stores=stores)
        self._skips_needless = not operator.of_versioned

    def _apply(self, functions: RowFunctions, values: Column) -> Column:
        return functions.filter(self._operator, values)


class TableMapValuesProcessor(RowByRowProcessor[TableMapValues]):
    """The processor that maps the new value, and the old one where it is needed and not stored."""

    def _apply(self, functions: RowFunctions, values: Column) -> Column:
        return functions.map(self._operator, values)
