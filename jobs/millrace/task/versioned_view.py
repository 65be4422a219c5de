"""A versioned table as lookups see it within a batch: as of the record's position in the order, and of a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from millrace.state import VersionedKeyValueStore, VersionedRecord, VersionedSnapshot
from millrace.state.layout import NO_TIMESTAMP
from millrace.task.columns import IntArray
from millrace.task.table_view import joint_ranks

_NONE = np.zeros(0, dtype=np.int64)


class VersionedTableView:
    """The store with the batch's changes, and what is needed to see it as it was before each of them.

    A key that the batch changes is looked up by going through its changes once more, from the history before the
    batch, in the order of all positions; any other key in the store.
    """

    def __init__(self, store: VersionedKeyValueStore) -> None:
        self._store = store
        self.clear()

    def clear(self) -> None:
        """Discards the changes: from here on lookups read the store itself."""
        self._before: VersionedSnapshot | None = None
        self._changes: dict[bytes, list[int]] = {}
        self._values: Sequence[bytes | None] = []
        self._timestamps: IntArray = _NONE
        self._order: tuple[IntArray, ...] = ()

    def set_changes(
        self,
        before: VersionedSnapshot,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: IntArray,
        order: tuple[IntArray, ...],
    ) -> None:
        """Sets the versions that the batch put into the store, in their order.

        Args:
            before: the store before the batch, for all of ``keys``.
            keys: key bytes of the versions that the store took.
            values: their value bytes.
            timestamps: their timestamps, milliseconds.
            order: their order columns.
        """
        self._before, self._values, self._timestamps, self._order = before, values, timestamps, order
        self._changes = {}
        for row, key in enumerate(keys):
            self._changes.setdefault(key, []).append(row)

    def lookup(
        self, keys: list[bytes], order: tuple[IntArray, ...], as_of: IntArray | None = None
    ) -> tuple[list[bytes | None], IntArray]:
        """Returns the table's value for each key, as of the key's position in the order.

        Args:
            keys: key bytes, one per record.
            order: the order columns of the records.
            as_of: for each record the time whose version it sees, milliseconds; ``None``: the newest versions.

        Returns:
            Value bytes, ``None`` where the table has no such key then, and their timestamps in milliseconds, -1 there.
        """
        if not keys:
            return [], _NONE
        found = self._store_rows(keys, as_of) if self._before is None else self._rows(self._before, keys, order, as_of)
        timestamps = [NO_TIMESTAMP if version is None else version.timestamp for version in found]
        return [None if version is None else version.value for version in found], np.array(timestamps, dtype=np.int64)

    def _store_rows(self, keys: list[bytes], as_of: IntArray | None) -> list[VersionedRecord | None]:
        times = None if as_of is None else as_of.tolist()
        return self._store.get_many_at(keys, times, [self._store.observed_stream_time] * len(keys))

    def _rows(
        self, before: VersionedSnapshot, keys: list[bytes], order: tuple[IntArray, ...], as_of: IntArray | None
    ) -> list[VersionedRecord | None]:
        times: list[int] | list[None] = [None] * len(keys) if as_of is None else as_of.tolist()
        ranks = joint_ranks(self._order, order)
        change_ranks, lookup_ranks = ranks[: len(self._timestamps)], ranks[len(self._timestamps) :]
        observed = self._stream_times(before, change_ranks, lookup_ranks)
        found: list[VersionedRecord | None] = [None] * len(keys)
        unchanged: list[int] = []
        of_key: dict[bytes, list[int]] = {}
        for row, key in enumerate(keys):
            if key in self._changes:
                of_key.setdefault(key, []).append(row)
            else:
                unchanged.append(row)
        own = None if as_of is None else [int(time) for time in as_of[unchanged]]
        values = self._store.get_many_at([keys[row] for row in unchanged], own, [observed[row] for row in unchanged])
        for row, version in zip(unchanged, values, strict=True):
            found[row] = version
        for key, rows in of_key.items():
            history = before.replay(key)
            changes = iter(self._changes[key])
            change = next(changes, None)
            for row in sorted(rows, key=lookup_ranks.__getitem__):
                while change is not None and change_ranks[change] < lookup_ranks[row]:
                    history.put(self._values[change], int(self._timestamps[change]))
                    change = next(changes, None)
                found[row] = history.get(times[row], observed[row])
        return found

    def _stream_times(self, before: VersionedSnapshot, change_ranks: IntArray, lookup_ranks: IntArray) -> list[int]:
        """Returns the stream time of the store at each position."""
        seen = np.maximum(np.maximum.accumulate(self._timestamps), before.observed_stream_time)
        seen = np.concatenate([np.array([before.observed_stream_time], dtype=np.int64), seen])
        times: list[int] = seen[np.searchsorted(change_ranks, lookup_ranks)].tolist()
        return times
