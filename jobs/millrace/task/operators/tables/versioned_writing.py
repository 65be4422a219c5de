"""The writing of a table's updates to a versioned store (KIP-914): expired ones are dropped, late ones are marked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from millrace.metrics import DropReason
from millrace.state import NOT_PUT, VALID_TO_UNDEFINED, VersionedKeyValueStore, VersionedSnapshot
from millrace.task.columns import IntArray
from millrace.task.failures import FailureHandler
from millrace.task.records import Records
from millrace.task.task_stores import TaskStores
from millrace.task.versioned_view import VersionedTableView


class VersionedWriter:
    """The writer of the updates of one table in one batch, which puts them one after the other.

    Args:
        stores: the task's stores.
        failures: counts what the store does not take.
        name: the store's name.
        store: the store.
        keys: key bytes of all updates of the batch.
    """

    def __init__(
        self, stores: TaskStores, failures: FailureHandler, name: str, store: VersionedKeyValueStore, keys: list[bytes]
    ) -> None:
        self._failures = failures
        self._stores = stores
        self._name = name
        self._store = store
        self._before: VersionedSnapshot | None = store.snapshot(keys) if name in stores.shared else None
        self._codes: list[int] = []

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Puts the next update."""
        self._codes += self._store.put_many([key], [value], np.array([timestamp], dtype=np.int64)).tolist()

    def put_all(self, keys: list[bytes], values: list[bytes | None], timestamps: IntArray) -> None:
        """Puts the next updates."""
        self._codes += self._store.put_many(keys, values, timestamps).tolist()

    def put_each(
        self, keys: list[bytes], values: list[bytes | None], timestamps: IntArray, *, skip_nothing: bool
    ) -> tuple[IntArray, list[bytes | None]]:
        """Puts the next updates, and returns what each of them replaces.

        Args:
            keys: key bytes.
            values: value bytes, ``None`` deletes.
            timestamps: milliseconds.
            skip_nothing: leave out deletions of keys that have no value.

        Returns:
            the updates that were put, and the newest value of the key before each of them.
        """
        rows: list[int] = []
        before: list[bytes | None] = []
        for row, (key, value, timestamp) in enumerate(zip(keys, values, timestamps.tolist(), strict=True)):
            old = self._store.latest_many([key])[0][0]
            if skip_nothing and old is None and value is None:
                continue
            self.put(key, value, timestamp)
            rows.append(row)
            before.append(old)
        return np.array(rows, dtype=np.int64), before

    def finish(self, updates: Records, keys: list[bytes], values: list[bytes | None], timestamps: IntArray) -> Records:
        """Makes the updates visible to nodes that look the table up, and counts those that the store dropped.

        Args:
            updates: the updates that were put, in their order.
            keys: their key bytes.
            values: their value bytes.
            timestamps: their timestamps in the store, milliseconds.

        Returns:
            What goes downstream: those that the store took, with a mark on those that are not the newest of their key.
        """
        codes = np.array(self._codes, dtype=np.int64)
        taken = codes != NOT_PUT
        self._failures.drop(DropReason.LATE, updates.origin[~taken])
        late = codes != VALID_TO_UNDEFINED
        updates = replace(updates, superseded=late if bool(late.any()) else None)
        if not taken.all():
            rows = np.flatnonzero(taken)
            updates, timestamps = updates.take(rows), timestamps[rows]
            keys, values = [keys[row] for row in rows.tolist()], [values[row] for row in rows.tolist()]
        if self._before is not None:
            view = self._stores.tables[self._name]
            assert isinstance(view, VersionedTableView)
            view.set_changes(self._before, keys, values, timestamps, updates.order)
            self._stores.after_batch.append(view.clear)
        return updates
