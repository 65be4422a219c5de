"""Final results of windows, each once when its window closes (KIP-825).

Kafka Streams looks for closed windows in the store, and misses those that have expired there because stream time
jumped. Here the keys of open windows are in memory, in order, so that every closed window is found; its content is in
the store until the commit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeAlias

import numpy as np

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.serdes import Serde
from millrace.state import SessionStore, WindowStore
from millrace.task.columns import Column, IntArray, WindowedColumn
from millrace.task.operators.windows.open_windows import OpenWindows, T
from millrace.task.processor import HeldBack, HeldBackByStore
from millrace.task.records import Records
from millrace.task.serialization import from_bytes
from millrace.task.task_stores import TaskStores

Result: TypeAlias = Callable[[bytes], Any]
"""A function from an aggregate's store bytes to a result."""

Window: TypeAlias = tuple[bytes, int, int]
"""Key, start and end."""


class ClosingWindows(ABC, Generic[T]):
    """The open windows of a store, read from the store on first use.

    Args:
        store: name of the store.
        lag_ms: a window has closed once stream time less this is at its time or beyond, milliseconds.
        stream_times: stream time of each windowed operator, by store.
        held_back: gets the function that counts them.
    """

    def __init__(self, store: str, lag_ms: int, *, stream_times: dict[str, int], held_back: HeldBackByStore) -> None:
        self._store = store
        self._stream_times = stream_times
        self._lag_ms = lag_ms
        self._open: OpenWindows[T] | None = None
        held_back[store] = self.held_back

    def reset(self) -> None:
        """Discards the windows in memory: the store goes back to its last commit."""
        self._open = None

    def load(self) -> OpenWindows[T]:
        """Returns the open windows; to be called while stream time is that of the last commit."""
        if self._open is None:
            self._open = OpenWindows()
            closed = self._stream_times.get(self._store, UNKNOWN_TIME) - self._lag_ms
            self._read(self._open, max(closed + 1, 0))
        return self._open

    def held_back(self) -> HeldBack:
        """Returns the number of open windows, and the end of the oldest."""
        windows = self.load()
        first = windows.first_time
        return HeldBack(len(windows), None, None if first is None else self._end(first))

    def closed_until(self, stream_times: IntArray) -> IntArray:
        """Returns for each record the time up to which windows have closed."""
        return stream_times - self._lag_ms

    @abstractmethod
    def window(self, time: int, item: T) -> Window:
        """Returns key, start and end of a window."""

    @abstractmethod
    def item(self, key: bytes, start: int, end: int) -> tuple[int, T]:
        """Returns the time and the item of a window: the inverse of :meth:`window`."""

    @abstractmethod
    def content(self, windows: list[Window]) -> list[tuple[bytes, int] | None]:
        """Returns aggregate and timestamp of each window, expired ones included; ``None`` where the store has none."""

    @abstractmethod
    def _read(self, windows: OpenWindows[T], first_time: int) -> None: ...

    @abstractmethod
    def _end(self, time: int) -> int: ...


class ClosingTimeWindows(ClosingWindows[bytes]):
    """The open tumbling, hopping or sliding windows: by start, then key."""

    def __init__(
        self,
        store: str,
        stores: TaskStores,
        *,
        size_ms: int,
        lag_ms: int,
        stream_times: dict[str, int],
        held_back: HeldBackByStore,
    ) -> None:
        opened = stores.open(store)
        assert isinstance(opened, WindowStore)
        super().__init__(store, lag_ms, stream_times=stream_times, held_back=held_back)
        self._windows = opened
        self._size_ms = size_ms

    def window(self, time: int, item: bytes) -> Window:
        return item, time, time + self._size_ms

    def item(self, key: bytes, start: int, end: int) -> tuple[int, bytes]:
        return start, key

    def content(self, windows: list[Window]) -> list[tuple[bytes, int] | None]:
        starts = np.array([start for _, start, _ in windows], dtype=np.int64)
        values, timestamps = self._windows.peek_many([key for key, _, _ in windows], starts)
        return [
            None if value is None else (value, timestamp)
            for value, timestamp in zip(values, timestamps.tolist(), strict=True)
        ]

    def _read(self, windows: OpenWindows[bytes], first_time: int) -> None:
        for key, start in self._windows.keys_from(first_time):
            windows.add(start, [key])

    def _end(self, time: int) -> int:
        return time + self._size_ms


class ClosingSessions(ClosingWindows[tuple[int, bytes]]):
    """The open sessions: by end, then start, then key."""

    def __init__(
        self, store: str, stores: TaskStores, *, lag_ms: int, stream_times: dict[str, int], held_back: HeldBackByStore
    ) -> None:
        opened = stores.open(store)
        assert isinstance(opened, SessionStore)
        super().__init__(store, lag_ms, stream_times=stream_times, held_back=held_back)
        self._sessions = opened

    def window(self, time: int, item: tuple[int, bytes]) -> Window:
        return item[1], item[0], time

    def item(self, key: bytes, start: int, end: int) -> tuple[int, tuple[int, bytes]]:
        return end, (start, key)

    def content(self, windows: list[Window]) -> list[tuple[bytes, int] | None]:
        values = [self._sessions.peek(key, start, end) for key, start, end in windows]
        # The timestamp of a session's result is its end.
        return [None if value is None else (value, end) for value, (_, _, end) in zip(values, windows, strict=True)]

    def _read(self, windows: OpenWindows[tuple[int, bytes]], first_time: int) -> None:
        for key, start, end in self._sessions.keys_from(first_time):
            windows.add(end, [(start, key)])

    def _end(self, time: int) -> int:
        return time


class FinalResults(Generic[T]):
    """The final results of windows: instead of updates the last content, with the record that closes the window.

    It is used instead of :class:`~millrace.task.operators.windows.windowed_results.WindowedResults`.

    Args:
        windows: the open windows; they are kept up to date here.
        closed_until: see :meth:`ClosingWindows.closed_until`.
        key_serde: serde of the un-windowed keys.
        result: makes a result of what the store has.
    """

    def __init__(self, windows: ClosingWindows[T], closed_until: IntArray, *, key_serde: Serde, result: Result) -> None:
        self._windows = windows
        self._open = windows.load()
        self._closed_until = closed_until
        self._key_serde = key_serde
        self._result = result
        self._row = 0
        self._touched: dict[Window, tuple[Any, int]] = {}
        self._rows: list[int] = []
        self._closed: list[Window] = []
        self._results: list[tuple[Any, int]] = []

    def add(
        self,
        row: int,
        key: bytes,
        window: tuple[int, int],
        result: Any,
        timestamp: int,
        *,
        was_there: bool = True,
        is_there: bool = True,
        old: Any = None,
    ) -> None:
        """Takes an update into account: see :meth:`WindowedResults.add`."""
        self._close_before(row)
        time, item = self._windows.item(key, *window)
        if is_there:
            self._open.add(time, [item])
            self._touched[key, *window] = (result, timestamp)
        else:
            self._open.discard(time, item)
            self._touched.pop((key, *window), None)

    def of_sessions(self, records: Records) -> Records | None:
        """Returns the final results as records; unlike updates of sessions they have headers."""
        return self.of_windows(records)

    def of_windows(self, records: Records) -> Records | None:
        """Returns the final results as records, in their order.

        Args:
            records: what was processed.
        """
        self._close_before(len(self._closed_until))
        values = Column(objects=[result for result, _ in self._results])
        timestamps = np.array([timestamp for _, timestamp in self._results], dtype=np.int64)
        return final_records(
            records, self._rows, self._closed, values=values, timestamps=timestamps, key_serde=self._key_serde
        )

    def _close_before(self, row: int) -> None:
        """Adds the results of the windows that the records before ``row`` close."""
        if row <= self._row:
            return
        self._row = row
        rows, closed = closing(self._windows, self._open, self._closed_until[:row])
        stored = iter(self._windows.content([window for window in closed if window not in self._touched]))
        for closing_row, window in zip(rows, closed, strict=True):
            found = self._touched.pop(window, None)
            if found is None:
                content = next(stored)
                found = None if content is None else (self._result(content[0]), content[1])
            if found is not None:
                self._rows.append(closing_row)
                self._closed.append(window)
                self._results.append(found)


def closing(
    windows: ClosingWindows[T], open_windows: OpenWindows[T], closed_until: IntArray
) -> tuple[list[int], list[Window]]:
    """Removes the windows that the records close; returns them in their order, with the row of the closing record.

    Args:
        windows: what the windows are.
        open_windows: those that are open.
        closed_until: of each record.
    """
    last = int(closed_until[-1])
    first = open_windows.first_time
    if first is None or first > last:
        return [], []
    closed = [(time, windows.window(time, item)) for time, items in open_windows.pop_until(last) for item in items]
    rows: list[int] = np.searchsorted(closed_until, [time for time, _ in closed], side="left").tolist()
    return rows, [window for _, window in closed]


def final_records(
    records: Records,
    rows: list[int],
    windows: list[Window],
    *,
    values: Column,
    timestamps: IntArray,
    key_serde: Serde,
) -> Records | None:
    """Returns final results as the records that go downstream.

    Args:
        records: the records that were processed.
        rows: for each window the row of the record that closed it, ascending.
        windows: the windows.
        values: their results.
        timestamps: their timestamps, milliseconds.
        key_serde: serde of the un-windowed keys.
    """
    if not windows:
        return None
    parents = np.array(rows, dtype=np.int64)
    first = np.searchsorted(parents, parents, side="left")
    keys: list[bytes | None] = [key for key, _, _ in windows]
    expanded = records.expand(
        parents,
        np.arange(len(parents), dtype=np.int64) - first,
        WindowedColumn(
            from_bytes(keys, key_serde),
            np.array([start for _, start, _ in windows], dtype=np.int64),
            np.array([end for _, _, end in windows], dtype=np.int64),
        ),
        values,
    )
    return replace(expanded, timestamps=timestamps)
