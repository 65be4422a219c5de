"""Tables from topics or streams, and streams of a table's changes."""

from __future__ import annotations

from dataclasses import replace

from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.table_rows import present_key_bytes
from millrace.task.operators.tables.table_writing import write_table
from millrace.task.processor import Forwarded, Processor, drop_null_keys
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.operators import TableSource, TableToStream


class TableSourceProcessor(Processor):
    """The processor that takes each record as an update of its key's row; a null value deletes the row.

    Out-of-order updates apply, but where the table is versioned: there they become part of the row's history.
    """

    def __init__(self, node: str, operator: TableSource, *, failures: FailureHandler, stores: TaskStores) -> None:
        self._node = node
        self._failures = failures
        self._stores = stores
        self._name = operator.store
        self._store: KeyValueStore | VersionedKeyValueStore | None = None
        if operator.store is not None:
            store = stores.open(operator.store)
            assert isinstance(store, KeyValueStore | VersionedKeyValueStore)
            self._store = store
            spec = stores.specs[operator.store]
            self._key_serde = or_default(spec.key_serde)
            self._value_serde = or_default(spec.value_serde)

    def process(self, records: Records) -> Forwarded:
        records = drop_null_keys(records, self._failures)
        if self._store is None or self._name is None or len(records) == 0:
            return records
        found = written(records, self._failures, self._node, key_serde=self._key_serde, value_serde=self._value_serde)
        records = found.records
        merge = self._stores.merges_updates(self._name)
        return write_table(
            self._stores,
            self._name,
            self._store,
            records,
            keys=present_key_bytes(found.keys, self._node),
            values=found.values,
            timestamps=records.timestamps,
            merge=merge,
            sends_old_values=self._stores.sends_old_values(self._node),
            failures=self._failures,
        )


class TableToStreamProcessor(Processor):
    """The processor that sends a table's new values as a stream, out-of-order ones too; a deletion is a null value."""

    def __init__(self, node: str, operator: TableToStream) -> None:
        pass

    def process(self, records: Records) -> Forwarded:
        return replace(records, old_values=None, superseded=None)
