"""A windowed table as lookups see it within a batch: as :mod:`millrace.task.table_view`, by key and window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

import numpy as np

from millrace.state import SessionStore, WindowStore
from millrace.state.layout import NO_TIMESTAMP
from millrace.task.columns import IntArray
from millrace.task.records import concat_orders
from millrace.task.table_view import joint_ranks, last_changes_before

_BOUNDS = Struct(">qq")

_Row = tuple[bytes | None, int]
"""Value and timestamp, -1 where there is no row."""


class WindowedTableView:
    """The windows that a batch changes: their state before, and each change with its position in the order.

    Aggregations write their store as they go, since they read it again; so before each write what is there is kept
    here. A window that has expired by the writes up to a position is not found from there on, as in Kafka Streams.

    Args:
        store: the table's store.
        retention_ms: how long a window is kept after its start, a session after its end, milliseconds.
        after_batch: takes what is to be done once all nodes have run.
    """

    def __init__(
        self, store: WindowStore | SessionStore, retention_ms: int, after_batch: list[Callable[[], None]]
    ) -> None:
        self._store = store
        self._retention_ms = retention_ms
        self._after_batch = after_batch
        self.clear()

    def clear(self) -> None:
        """Discards the changes: the batch has ended."""
        self._before: dict[bytes, _Row] = {}
        self._observed_before = 0
        self._windows: list[bytes] = []
        self._rows: list[_Row] = []
        self._times: list[int] = []
        self._orders: list[tuple[IntArray, ...]] = []

    def note(
        self,
        keys: Sequence[bytes],
        starts: Sequence[int],
        ends: Sequence[int],
        *,
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        order: tuple[IntArray, ...],
    ) -> None:
        """Records updates that are about to be written to the store.

        Args:
            keys: un-windowed keys.
            starts: starts of the windows, milliseconds.
            ends: their ends.
            values: what is written, ``None`` deletes.
            timestamps: the rows' timestamps, milliseconds.
            order: order columns of the updates.
        """
        if not self._orders:
            self._observed_before = self._store.observed_stream_time
            self._after_batch.append(self.clear)
        windows = [_window(*window_key) for window_key in zip(keys, starts, ends, strict=True)]
        new = {
            window: window_key
            for window, window_key in zip(windows, zip(keys, starts, ends, strict=True), strict=True)
            if window not in self._before
        }
        self._before.update(zip(new, self._stored(list(new.values())), strict=True))
        self._windows += windows
        self._rows += [
            (value, NO_TIMESTAMP if value is None else timestamp)
            for value, timestamp in zip(values, timestamps, strict=True)
        ]
        self._times += ends if isinstance(self._store, SessionStore) else starts
        self._orders.append(order)

    def lookup(
        self, keys: Sequence[bytes], starts: IntArray, ends: IntArray, order: tuple[IntArray, ...]
    ) -> tuple[list[bytes | None], IntArray]:
        """Returns the table's value for each key and window, as of its position in the order.

        Args:
            keys: un-windowed keys.
            starts: starts of the windows, milliseconds.
            ends: their ends.
            order: the order columns of the records that look up.

        Returns:
            Value bytes, ``None`` where the table has no such window then, and their timestamps in milliseconds, -1
            there.
        """
        window_keys = list(zip(keys, starts.tolist(), ends.tolist(), strict=True))
        windows = [_window(*window_key) for window_key in window_keys]
        changes = concat_orders(self._orders) if self._orders else ()
        change_of = last_changes_before(self._windows, changes, windows, order)
        rows: list[_Row | None] = [
            self._rows[change] if change >= 0 else self._before.get(window)
            for window, change in zip(windows, change_of.tolist(), strict=True)
        ]
        unchanged = [number for number, row in enumerate(rows) if row is None]
        for number, row in zip(unchanged, self._stored([window_keys[number] for number in unchanged]), strict=True):
            rows[number] = row
        times = ends if isinstance(self._store, SessionStore) else starts
        expired = (times < self._observed(changes, order, len(keys)) - self._retention_ms + 1).tolist()
        found = [
            (None, NO_TIMESTAMP) if row is None or is_expired else row
            for row, is_expired in zip(rows, expired, strict=True)
        ]
        return [value for value, _ in found], np.array([timestamp for _, timestamp in found], dtype=np.int64)

    def _observed(self, changes: tuple[IntArray, ...], order: tuple[IntArray, ...], count: int) -> IntArray:
        """Returns the store's stream time as of each position."""
        if not changes:
            return np.full(count, self._store.observed_stream_time, dtype=np.int64)
        ranks = joint_ranks(changes, order)
        number = len(self._times)
        in_order = np.argsort(ranks[:number])
        newest = np.maximum.accumulate(
            np.concatenate(([self._observed_before], np.array(self._times, dtype=np.int64)[in_order]))
        )
        return np.asarray(newest[np.searchsorted(ranks[:number][in_order], ranks[number:])])

    def _stored(self, window_keys: list[tuple[bytes, int, int]]) -> list[_Row]:
        """Returns what the store has for the windows, expired or not."""
        if not window_keys:
            return []
        if isinstance(self._store, SessionStore):
            values = [self._store.peek(*window_key) for window_key in window_keys]
            return [
                (value, NO_TIMESTAMP if value is None else end)
                for value, (_, _, end) in zip(values, window_keys, strict=True)
            ]
        keys, starts, _ = zip(*window_keys, strict=True)
        found, timestamps = self._store.peek_many(list(keys), np.array(starts, dtype=np.int64))
        return list(zip(found, timestamps.tolist(), strict=True))


def _window(key: bytes, start: int, end: int) -> bytes:
    return key + _BOUNDS.pack(start, end)
