"""``count``, ``reduce`` and ``aggregate`` of a grouped stream, un-windowed."""

from __future__ import annotations

from dataclasses import replace

from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.aggregation.groups import group, group_codes
from millrace.task.aggregation.initial import before_first
from millrace.task.aggregation.update import update_aggregates
from millrace.task.failures import FailureHandler
from millrace.task.operators.aggregations.versioned_aggregating import VersionedAggregation
from millrace.task.operators.tables.table_writing import write_table
from millrace.task.processor import Forwarded, Processor, drop_nulls
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.operators import StreamAggregate


class StreamAggregateProcessor(Processor):
    """The processor of a stream aggregation, which reads each distinct key of a batch once and writes it once."""

    def __init__(self, node: str, operator: StreamAggregate, *, failures: FailureHandler, stores: TaskStores) -> None:
        store = stores.open(operator.store)
        self._versioned: VersionedAggregation | None = None
        if isinstance(store, VersionedKeyValueStore):
            self._versioned = VersionedAggregation(node, operator, store, failures=failures, stores=stores)
        else:
            assert isinstance(store, KeyValueStore)
            self._store = store
        spec = stores.specs[operator.store]
        self._node = node
        self._operator = operator
        self._failures = failures
        self._stores = stores
        self._merges_updates = stores.merges_updates(operator.store)
        self._key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)

    def process(self, records: Records) -> Forwarded:
        failures = self._failures
        records = drop_nulls(records, failures)
        if len(records) == 0:
            return None
        found = written(records, failures, self._node, key_serde=self._key_serde)
        records, key_bytes = found.records, found.key_array
        if len(records) == 0:
            return None
        if self._versioned is not None:
            return self._versioned.process(records, key_bytes)
        groups = group(group_codes(key_bytes))
        distinct = key_bytes.take(groups.first_rows).to_pylist()
        prior = self._store.get_many(distinct)
        shared = self._operator.store in self._stores.shared
        cached = self._stores.is_cached(self._operator.store)
        update = update_aggregates(
            self._operator.aggregator,
            records,
            groups,
            prior,
            serde=self._value_serde,
            every_update=shared or not cached,
            failures=self._failures,
            node=self._node,
        )
        keys = [distinct[group_id] for group_id in groups.ids[update.rows].tolist()]
        updated = records.take(update.rows)
        changes = write_table(
            self._stores,
            self._operator.store,
            self._store,
            replace(updated, values=update.results, timestamps=update.timestamps),
            keys=keys,
            values=update.stored,
            timestamps=update.stored_timestamps(updated.timestamps),
            merge=shared and self._merges_updates,
            sends_old_values=self._stores.sends_old_values(self._node),
            failures=self._failures,
        )
        if changes.old_values is None or cached:
            return changes
        return changes.with_change(changes.values, before_first(self._operator.aggregator, changes.old_values))
