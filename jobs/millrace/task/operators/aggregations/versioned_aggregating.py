"""``count``, ``reduce`` and ``aggregate`` of a grouped stream into a versioned store.

The aggregate that a record meets is the newest version, its result is put at the larger of both timestamps. So it is
not always the next record's aggregate: a put may be older than the history retention, or than a tombstone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from millrace.state import VersionedKeyValueStore
from millrace.task.aggregation.groups import Groups, group, group_codes
from millrace.task.aggregation.initial import before_first
from millrace.task.aggregation.update import AggregateUpdate, update_aggregates
from millrace.task.columns import Column, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.table_writing import decoded, replaced_values
from millrace.task.operators.tables.versioned_writing import VersionedWriter
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.task_stores import TaskStores
from millrace.topology.operators import StreamAggregate


class VersionedAggregation:
    """The aggregation into a versioned store: of a batch at once where it is in order, else record by record."""

    def __init__(
        self,
        node: str,
        operator: StreamAggregate,
        store: VersionedKeyValueStore,
        *,
        failures: FailureHandler,
        stores: TaskStores,
    ) -> None:
        self._node = node
        self._operator = operator
        self._failures = failures
        self._stores = stores
        self._store = store
        self._value_serde = or_default(stores.specs[operator.store].value_serde)

    def process(self, records: Records, key_bytes: pa.Array) -> Records | None:
        """Aggregates records with a key and a value; returns the changes.

        Args:
            records: the records.
            key_bytes: their keys as the store has them.
        """
        groups = group(group_codes(key_bytes))
        distinct: list[bytes] = key_bytes.take(groups.first_rows).to_pylist()
        prior = self._store.latest_many(distinct)
        writer = VersionedWriter(self._stores, self._failures, self._operator.store, self._store, distinct)
        if self._is_in_order(records, groups, distinct, prior[1]):
            update = self._update(records, groups, prior)
            ids = groups.ids[update.rows].tolist()
            before = replaced_values(ids, update.stored, prior[0])
            keys = [distinct[number] for number in ids]
            writer.put_all(keys, update.stored, update.timestamps)
        else:
            update, before = self._one_by_one(records, groups, distinct, writer)
            keys = [distinct[number] for number in groups.ids[update.rows].tolist()]
        if len(update.rows) == 0:
            return None
        changes = replace(records.take(update.rows), values=update.results, timestamps=update.timestamps)
        if self._stores.sends_old_values(self._node):
            old_values = decoded(self._stores, self._operator.store, before)
            changes = replace(changes, old_values=before_first(self._operator.aggregator, old_values))
        return writer.finish(changes, keys, update.stored, update.timestamps)

    def _is_in_order(self, records: Records, groups: Groups, keys: list[bytes], prior_times: IntArray) -> bool:
        """Returns whether each result becomes the newest version of its key, whatever the result is."""
        times = records.timestamps
        newest = max(int(times.max()), self._store.observed_stream_time)
        if int(times.min()) < newest - self._store.history_retention_ms:
            return False
        by_group = np.argsort(groups.ids, kind="stable")
        ids, ordered = groups.ids[by_group], times[by_group]
        if bool(((ids[1:] == ids[:-1]) & (ordered[1:] < ordered[:-1])).any()):
            return False
        first_times = times[groups.first_rows]
        return bool((prior_times <= first_times).all()) and self._store.are_newest(keys, first_times.tolist())

    def _update(self, records: Records, groups: Groups, prior: tuple[list[bytes | None], IntArray]) -> AggregateUpdate:
        return update_aggregates(
            self._operator.aggregator,
            records,
            groups,
            prior,
            serde=self._value_serde,
            every_update=True,
            failures=self._failures,
            node=self._node,
        )

    def _one_by_one(
        self, records: Records, groups: Groups, keys: list[bytes], writer: VersionedWriter
    ) -> tuple[AggregateUpdate, list[bytes | None]]:
        """Returns the updates of all records that did not fail, and the aggregate before each of them."""
        alone = group(np.zeros(1, dtype=np.int64))
        rows: list[int] = []
        stored: list[bytes | None] = []
        results: list[Column] = []
        timestamps: list[int] = []
        before: list[bytes | None] = []
        for row, number in enumerate(groups.ids.tolist()):
            prior = self._store.latest_many([keys[number]])
            update = self._update(records.take(np.array([row], dtype=np.int64)), alone, prior)
            if len(update.rows) == 0:
                continue
            writer.put(keys[number], update.stored[0], int(update.timestamps[0]))
            rows.append(row)
            stored += update.stored
            results.append(update.results)
            timestamps.append(int(update.timestamps[0]))
            before += prior[0]
        update = AggregateUpdate(
            np.array(rows, dtype=np.int64),
            stored,
            Column.concat(results) if results else Column(objects=[]),
            np.array(timestamps, dtype=np.int64),
        )
        return update, before
