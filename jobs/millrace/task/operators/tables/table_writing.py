"""The writing of a table's updates to its store, which also makes them visible to nodes that look the table up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millrace.serdes import Serde
from millrace.state import KeyValueStore, VersionedKeyValueStore
from millrace.task.aggregation.groups import group, group_codes
from millrace.task.aggregation.kernels import results_of
from millrace.task.aggregation.steps import result_of
from millrace.task.columns import Column, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.versioned_writing import VersionedWriter
from millrace.task.records import Records
from millrace.task.serialization import from_bytes, or_default
from millrace.task.table_view import TableView
from millrace.task.task_stores import TaskStores
from millrace.topology.aggregators import Aggregator, BuiltInAggregator, StructAggregator, TableAggregator


def values_before(store: KeyValueStore, keys: list[bytes], values: list[bytes | None]) -> list[bytes | None]:
    """Returns the value that each update replaces: of the key's update before it in the batch, or of the store.

    Args:
        store: the store, to which the updates are not yet written.
        keys: key bytes of the updates, in their order.
        values: their value bytes.
    """
    numbers: dict[bytes, int] = {}
    ids = [numbers.setdefault(key, len(numbers)) for key in keys]
    return replaced_values(ids, values, store.get_many(list(numbers))[0])


def replaced_values(
    ids: Sequence[int], values: Sequence[bytes | None], prior: Sequence[bytes | None]
) -> list[bytes | None]:
    """Returns the value that each update replaces.

    Args:
        ids: for each update the number of its row of the table.
        values: the updates' values, in their order.
        prior: the value of each row before the first of them.
    """
    latest = list(prior)
    before: list[bytes | None] = []
    for row, value in zip(ids, values, strict=True):
        before.append(latest[row])
        latest[row] = value
    return before


def decoded(stores: TaskStores, name: str, values: list[bytes | None]) -> Column:
    """Returns a table's values as they go downstream, from the bytes in its store."""
    return decoded_by(stores.aggregators.get(name), or_default(stores.specs[name].value_serde), values)


def decoded_by(aggregator: Aggregator | TableAggregator | None, serde: Serde, values: list[bytes | None]) -> Column:
    """Returns the results that go downstream for the bytes that ``aggregator`` stored with ``serde``."""
    column = from_bytes(values, serde)
    if not isinstance(aggregator, BuiltInAggregator | StructAggregator):
        return column
    if column.is_arrow:
        return Column(arrow=results_of(aggregator, column.arrow))
    return Column(objects=[None if state is None else result_of(aggregator, state) for state in column.objects])


def write_table(
    stores: TaskStores,
    name: str,
    store: KeyValueStore | VersionedKeyValueStore,
    updates: Records,
    *,
    keys: list[bytes],
    values: list[bytes | None],
    timestamps: IntArray,
    merge: bool,
    failures: FailureHandler,
    sends_old_values: bool = False,
) -> Records:
    """Writes updates of a table and returns those that go downstream.

    Args:
        stores: the task's stores.
        name: the store's name.
        store: the store.
        updates: the updates in their order.
        keys: their key bytes.
        values: their value bytes, ``None`` deletes.
        timestamps: their timestamps in the store, milliseconds.
        failures: counts what a versioned store does not take.
        merge: only the last update of each key goes downstream and to the store.
        sends_old_values: what goes downstream carries the values before it: of the key's last update that went
            downstream. Old values that the updates have already stay, unless updates are merged.

    Returns:
        All updates, or the last one of each key. Of a versioned store those that it took; it never merges updates.
    """
    if isinstance(store, VersionedKeyValueStore):
        writer = VersionedWriter(stores, failures, name, store, keys)
        if not sends_old_values:
            writer.put_all(keys, values, timestamps)
            updates = updates.with_change(updates.values, None)
        elif updates.old_values is not None:
            writer.put_all(keys, values, timestamps)
        else:
            _, before = writer.put_each(keys, values, timestamps, skip_nothing=False)
            updates = updates.with_change(updates.values, decoded(stores, name, before))
        return writer.finish(updates, keys, values, timestamps)
    rows = None
    if merge and len(keys) > 1:
        last = np.sort(group(group_codes(pa.array(keys, type=pa.binary()))).last_rows)
        rows = last if len(last) < len(keys) else None
    final_keys = keys if rows is None else [keys[row] for row in rows.tolist()]
    final_values = values if rows is None else [values[row] for row in rows.tolist()]
    final_timestamps = timestamps if rows is None else timestamps[rows]
    forwarded = updates if rows is None else updates.take(rows)
    if forwarded.superseded is not None:
        # Whatever is written to a plain store is what its key has from there on.
        forwarded = replace(forwarded, superseded=None)
    if not sends_old_values:
        if forwarded.old_values is not None:
            forwarded = forwarded.with_change(forwarded.values, None)
    elif rows is not None or forwarded.old_values is None:
        old = decoded(stores, name, values_before(store, final_keys, final_values))
        forwarded = forwarded.with_change(forwarded.values, old)
    if name in stores.shared:
        view = stores.tables[name]
        assert isinstance(view, TableView)
        view.set_changes(keys, values, timestamps, updates.order)

        def write() -> None:
            store.put_many(final_keys, final_values, final_timestamps)
            view.clear()

        stores.after_batch.append(write)
    else:
        store.put_many(final_keys, final_values, final_timestamps)
    return forwarded
