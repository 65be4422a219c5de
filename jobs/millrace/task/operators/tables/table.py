"""Tables: a topic or stream read as changes of a table, and a table's changes as a stream."""

from __future__ import annotations

from dataclasses import replace

from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.operators.tables.table_rows import present_key_bytes
from millrace.task.operators.tables.table_writing import write_table
from millrace.task.processor import Forwarded, Processor, TaskContext, drop_null_keys
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.written_records import written
from millrace.topology.operators import TableSource, TableToStream


class TableSourceProcessor(Processor):
    """Takes each record as an update of its key's row; a null value deletes the row.

    Out-of-order updates apply, but where the table is versioned: there they become part of the row's history.
    """

    def __init__(self, node: str, operator: TableSource, context: TaskContext) -> None:
        self._node = node
        self._context = context
        self._name = operator.store
        self._store: KeyValueStore | VersionedKeyValueStore | None = None
        if operator.store is not None:
            store = context.open_store(operator.store)
            assert isinstance(store, KeyValueStore | VersionedKeyValueStore)
            self._store = store
            spec = context.stores[operator.store]
            self._key_serde = or_default(spec.key_serde)
            self._value_serde = or_default(spec.value_serde)

    def process(self, records: Records) -> Forwarded:
        records = drop_null_keys(records, self._context.failures)
        if self._store is None or self._name is None or len(records) == 0:
            return records
        found = written(
            records, self._context.failures, self._node, key_serde=self._key_serde, value_serde=self._value_serde
        )
        records = found.records
        merge = self._context.merges_updates(self._name)
        return write_table(
            self._context,
            self._name,
            self._store,
            records,
            keys=present_key_bytes(found.keys, self._node),
            values=found.values,
            timestamps=records.timestamps,
            merge=merge,
            sends_old_values=self._context.sends_old_values(self._node),
        )


class TableToStreamProcessor(Processor):
    """A table's new values as a stream, also those that came out of order; a deletion is a null value."""

    def __init__(self, node: str, operator: TableToStream, context: TaskContext) -> None:
        pass

    def process(self, records: Records) -> Forwarded:
        return replace(records, old_values=None, superseded=None)
