"""``count``, ``reduce`` and ``aggregate`` of a grouped stream, un-windowed."""

from __future__ import annotations

from dataclasses import replace

from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.aggregation.groups import group, group_codes
from millrace.task.aggregation.initial import before_first
from millrace.task.aggregation.update import update_aggregates
from millrace.task.operators.aggregations.versioned_aggregating import VersionedAggregation
from millrace.task.operators.tables.table_writing import write_table
from millrace.task.processor import Forwarded, Processor, TaskContext, drop_nulls
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.written_records import written
from millrace.topology.operators import StreamAggregate


class StreamAggregateProcessor(Processor):
    """Reads each distinct key of a batch once and writes it once."""

    def __init__(self, node: str, operator: StreamAggregate, context: TaskContext) -> None:
        store = context.open_store(operator.store)
        self._versioned: VersionedAggregation | None = None
        if isinstance(store, VersionedKeyValueStore):
            self._versioned = VersionedAggregation(node, operator, context, store)
        else:
            assert isinstance(store, KeyValueStore)
            self._store = store
        spec = context.stores[operator.store]
        self._node = node
        self._operator = operator
        self._context = context
        self._merges_updates = context.merges_updates(operator.store)
        self._key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)

    def process(self, records: Records) -> Forwarded:
        failures = self._context.failures
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
        shared = self._operator.store in self._context.shared_stores
        cached = self._context.is_cached(self._operator.store)
        update = update_aggregates(
            self._operator.aggregator,
            records,
            groups,
            prior,
            serde=self._value_serde,
            every_update=shared or not cached,
            context=self._context,
            node=self._node,
        )
        keys = [distinct[group_id] for group_id in groups.ids[update.rows].tolist()]
        updated = records.take(update.rows)
        changes = write_table(
            self._context,
            self._operator.store,
            self._store,
            replace(updated, values=update.results, timestamps=update.timestamps),
            keys=keys,
            values=update.stored,
            timestamps=update.stored_timestamps(updated.timestamps),
            merge=shared and self._merges_updates,
            sends_old_values=self._context.sends_old_values(self._node),
        )
        if changes.old_values is None or cached:
            return changes
        return changes.with_change(changes.values, before_first(self._operator.aggregator, changes.old_values))
