"""Writing a table's updates to its store, and showing them to the processors that look the table up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.state import KeyValueStore
from millrace.task.aggregation.groups import group, group_codes
from millrace.task.columns import IntArray
from millrace.task.processor import TaskContext
from millrace.task.records import Records


def write_table(
    context: TaskContext,
    name: str,
    store: KeyValueStore,
    updates: Records,
    *,
    keys: list[bytes],
    values: list[bytes | None],
    timestamps: IntArray,
    merge: bool,
) -> Records:
    """Writes updates of a table and returns those that go downstream.

    Args:
        context: the task's surroundings.
        name: the store's name.
        store: the store.
        updates: the updates in their order.
        keys: their key bytes.
        values: their value bytes, ``None`` deletes.
        timestamps: their timestamps in the store, milliseconds.
        merge: only the last update of each key goes downstream and to the store.

    Returns:
        All updates, or the last one of each key.
    """
    rows = None
    if merge and len(keys) > 1:
        last = np.sort(group(group_codes(pa.array(keys, type=pa.binary()))).last_rows)
        rows = last if len(last) < len(keys) else None
    final_keys = keys if rows is None else [keys[row] for row in rows.tolist()]
    final_values = values if rows is None else [values[row] for row in rows.tolist()]
    final_timestamps = timestamps if rows is None else timestamps[rows]
    forwarded = updates if rows is None else updates.take(rows)
    if name in context.shared_stores:
        view = context.tables[name]
        view.set_changes(keys, values, updates.order)

        def write() -> None:
            store.put_many(final_keys, final_values, final_timestamps)
            view.clear()

        context.after_batch.append(write)
    else:
        store.put_many(final_keys, final_values, final_timestamps)
    return forwarded
