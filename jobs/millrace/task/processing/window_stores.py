"""Window stores as user-written processors see them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from millrace.serdes import Windowed
from millrace.state import WindowStore
from millrace.task.processing.store_values import StoreValues


class TypedWindowStore:
    """The typed form of :class:`millrace.topology.state_stores.WindowStore`.

    Args:
        store: the bytes.
        values: their serdes.
        window_size_ms: length of the windows.
    """

    def __init__(self, store: WindowStore, values: StoreValues, *, window_size_ms: int) -> None:
        self._store = store
        self._values = values
        self._window_size_ms = window_size_ms

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._values.name

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Writes a window's value."""
        data, timestamps = self._values.stored(value)
        starts = np.array([self._values.time(window_start, what="the window start")], dtype=np.int64)
        expired = self._store.put_many([self._values.key(key)], starts, [data], timestamps)
        self._values.count_expired(len(expired))

    def fetch(self, key: Any, time_from: int, time_to: int | None = None) -> Any:
        """Returns the value of the window that starts at a time; with two times, starts and values of those between."""
        if time_to is None:
            found, timestamps = self._store.fetch_many([self._values.key(key)], np.array([time_from], dtype=np.int64))
            return None if found[0] is None else self._values.value(found[0], int(timestamps[0]))
        return self._values.scan(
            (start, self._values.value(value, timestamp))
            for start, value, timestamp in self._store.fetch(self._values.key(key), time_from, time_to)
        )

    def backward_fetch(self, key: Any, time_from: int, time_to: int) -> Iterator[tuple[int, Any]]:
        """Returns starts and values of the windows between two times, from the latest."""
        found: list[tuple[int, Any]] = list(self.fetch(key, time_from, time_to))
        return self._values.scan(iter(found[::-1]))

    def fetch_range(self, from_key: Any, to_key: Any, time_from: int, time_to: int) -> Iterator[tuple[Windowed, Any]]:
        """Returns the windows of a range of keys that start between two times."""
        first, last = self._values.optional_key(from_key), self._values.optional_key(to_key)
        return self._typed(
            entry
            for entry in self._store.fetch_all(time_from, time_to)
            if (first is None or entry[0] >= first) and (last is None or entry[0] <= last)
        )

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed, Any]]:
        """Returns the windows of every key that start between two times."""
        return self._typed(self._store.fetch_all(time_from, time_to))

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        """Returns all entries that have not expired."""
        return self._typed(self._store.all())

    def _typed(self, entries: Iterator[tuple[bytes, int, bytes, int]]) -> Iterator[tuple[Windowed, Any]]:
        read_key = self._values.read_key
        return self._values.scan(
            (Windowed(read_key(key), start, start + self._window_size_ms), self._values.value(value, timestamp))
            for key, start, value, timestamp in entries
        )
