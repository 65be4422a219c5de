"""``count``, ``reduce`` and ``aggregate`` of a grouped table: old values are subtracted, new ones added."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.aggregation.groups import Groups, group, group_codes
from millrace.task.aggregation.steps import result_of, step_of
from millrace.task.aggregation.subtraction import subtraction_of
from millrace.task.columns import Column
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.operators.tables.table_rows import no_rows
from millrace.task.operators.tables.table_writing import decoded, write_table
from millrace.task.operators.tables.versioned_writing import VersionedWriter
from millrace.task.processor import Forwarded, Processor
from millrace.task.records import Records
from millrace.task.serialization import from_bytes, or_default
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.aggregators import (
    BuiltInAggregator,
    StructAggregator,
    TableAggregator,
    TableCallableAggregator,
    TableReduceAggregator,
)
from millrace.topology.operators import TableAggregate


@dataclass(frozen=True)
class _Steps:
    """The calls of an aggregation, one value at a time. ``None`` stands for no aggregate.

    Args:
        add: ``(key, value, aggregate) -> aggregate``; gets ``None`` for the first value of a group.
        subtract: ``(key, value, aggregate) -> aggregate``.
        restarts_at_own_time: a first value's result has its own timestamp, also where a subtraction left nothing.
        result: what goes downstream for an aggregate.
    """

    add: Callable[[Any, Any, Any], Any]
    subtract: Callable[[Any, Any, Any], Any]
    restarts_at_own_time: bool
    result: Callable[[Any], Any] | None = None


class TableAggregateProcessor(Processor):
    """The processor of a table aggregation: it reads each group once; a change subtracts, then adds, in one update."""

    def __init__(self, node: str, operator: TableAggregate, *, failures: FailureHandler, stores: TaskStores) -> None:
        store = stores.open(operator.store)
        assert isinstance(store, KeyValueStore | VersionedKeyValueStore)
        self._node = node
        self._name = operator.store
        self._failures = failures
        self._stores = stores
        self._store = store
        self._key_serde = or_default(stores.specs[operator.store].key_serde)
        self._value_serde = or_default(stores.specs[operator.store].value_serde)
        self._steps = _steps(operator.aggregator)

    def process(self, records: Records) -> Forwarded:
        found = written(records, self._failures, self._node, key_serde=self._key_serde)
        records, key_bytes = found.records, found.key_array
        groups = group(group_codes(key_bytes))
        distinct: list[bytes] = key_bytes.take(groups.first_rows).to_pylist()
        if isinstance(self._store, VersionedKeyValueStore):
            return self._versioned(self._store, records, groups, distinct)
        rows, stored, aggregates, timestamps = self._run(records, groups, *self._store.get_many(distinct))
        updated = records.take(np.array(rows, dtype=np.int64))
        deleted = np.fromiter((value is None for value in stored), dtype=bool, count=len(stored))
        # A deletion is logged with its record's own timestamp.
        stored_timestamps = np.where(deleted, updated.timestamps, timestamps)
        return write_table(
            self._stores,
            self._name,
            self._store,
            replace(updated, values=Column(objects=aggregates), timestamps=timestamps, old_values=None),
            keys=[distinct[number] for number in groups.ids[rows].tolist()],
            values=stored,
            timestamps=stored_timestamps,
            merge=self._stores.merges_updates(self._name),
            sends_old_values=self._stores.sends_old_values(self._node),
            failures=self._failures,
        )

    def _versioned(
        self, store: VersionedKeyValueStore, records: Records, groups: Groups, keys: list[bytes]
    ) -> Records | None:
        """Aggregates change by change, since a versioned store may keep something else than what was put."""
        writer = VersionedWriter(self._stores, self._failures, self._name, store, keys)
        alone = group(np.zeros(1, dtype=np.int64))
        kept: list[int] = []
        stored: list[bytes | None] = []
        aggregates: list[Any] = []
        before: list[bytes | None] = []
        times: list[int] = []
        for row, number in enumerate(groups.ids.tolist()):
            prior = store.latest_many([keys[number]])
            rows, new, results, timestamps = self._run(records.take(np.array([row], dtype=np.int64)), alone, *prior)
            if rows:
                writer.put(keys[number], new[0], int(timestamps[0]))
                kept.append(row)
                stored += new
                aggregates += results
                before += prior[0]
                times.append(int(timestamps[0]))
        changes = replace(
            records.take(np.array(kept, dtype=np.int64)),
            values=Column(objects=aggregates),
            timestamps=np.array(times, dtype=np.int64),
            old_values=decoded(self._stores, self._name, before) if self._stores.sends_old_values(self._node) else None,
        )
        return writer.finish(changes, [keys[groups.ids[row]] for row in kept], stored, changes.timestamps)

    def _run(
        self, records: Records, groups: Groups, prior: list[bytes | None], prior_timestamps: Any
    ) -> tuple[list[int], list[bytes | None], list[Any], Any]:
        """Returns the rows that did not fail, and for each the aggregate as bytes, the result, and the timestamp."""
        steps, serde = self._steps, self._value_serde
        current = list(prior)
        current_timestamps = prior_timestamps.tolist()
        rows: list[int] = []
        stored: list[bytes | None] = []
        timestamps: list[int] = []
        changes = zip(
            groups.ids.tolist(),
            records.keys.objects,
            records.values.objects,
            (records.old_values or no_rows(len(records))).objects,
            records.timestamps.tolist(),
            strict=True,
        )
        for row, (number, key, new, old, timestamp) in enumerate(changes):
            # Read back each time, since a function may change the aggregate that it was given in place.
            data = current[number]
            before = None if data is None else serde.deserialize(data)
            later = max(timestamp, current_timestamps[number]) if before is not None else timestamp
            try:
                aggregate, after = before, timestamp
                if old is not None and before is not None:
                    aggregate, after = steps.subtract(key, old, before), later
                if new is not None:
                    if not (steps.restarts_at_own_time and aggregate is None):
                        after = later
                    aggregate = steps.add(key, new, aggregate)
                encoded = None if aggregate is None else serde.serialize(aggregate)
            except Exception as error:
                self._failures.processing(error, int(records.origin[row]), self._node, processed_record(records, row))
                continue
            current[number], current_timestamps[number] = encoded, after
            rows.append(row)
            stored.append(encoded)
            timestamps.append(after)
        results = from_bytes(stored, serde).objects
        if steps.result is not None:
            results = [steps.result(aggregate) for aggregate in results]
        return rows, stored, results, np.array(timestamps, dtype=np.int64)


def _steps(aggregator: TableAggregator) -> _Steps:
    match aggregator:
        case TableReduceAggregator(adder=reduce_add, subtractor=reduce_subtract):
            return _Steps(
                add=lambda _, value, aggregate: value if aggregate is None else reduce_add(aggregate, value),
                subtract=lambda _, value, aggregate: reduce_subtract(aggregate, value),
                restarts_at_own_time=True,
            )
        case TableCallableAggregator(initializer=initializer, adder=adder, subtractor=subtractor):
            return _Steps(
                add=lambda key, value, aggregate: adder(key, value, initializer() if aggregate is None else aggregate),
                subtract=subtractor,
                restarts_at_own_time=False,
            )
        case BuiltInAggregator() | StructAggregator():
            built_in = aggregator
            add, subtract = step_of(built_in), subtraction_of(built_in)
            return _Steps(
                add=lambda _, value, aggregate: add(aggregate, value),
                subtract=lambda _, value, aggregate: subtract(aggregate, value),
                restarts_at_own_time=False,
                result=lambda aggregate: result_of(built_in, aggregate),
            )
