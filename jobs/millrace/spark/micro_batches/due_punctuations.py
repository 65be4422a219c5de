"""The tasks of a query whose wall-clock punctuations are due, and the time of the next one."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_INTERVAL_S = 0.1
"""Shortest time between two batches without rows for the sake of punctuations: each is a Spark job of its own."""


class DuePunctuations:
    """The due punctuations, as tasks reported them at the end of their last batches.

    Args:
        wall_clock_ms: the clock of the workers' host, milliseconds since the epoch.
    """

    def __init__(self, wall_clock_ms: Callable[[], float] = lambda: time.time() * 1000) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._due_ms: dict[int, int] = {}
        self._last_ms = 0.0

    def clear(self) -> None:
        """Discards all punctuations: the query starts again, and its tasks report theirs."""
        self._due_ms = {}

    def set(self, task: int, due_ms: int | None) -> None:
        """Sets when the next punctuation of a task is due, as it reported after a batch; ``None`` if never."""
        if due_ms is None:
            self._due_ms.pop(task, None)
        else:
            self._due_ms[task] = due_ms

    def take(self) -> list[int]:
        """Returns the tasks whose punctuations are due now; empty if some were returned a moment ago."""
        now_ms = self._wall_clock_ms()
        if now_ms - self._last_ms < LEAST_INTERVAL_S * 1000:
            return []
        due = sorted(task for task, due_ms in self._due_ms.items() if due_ms <= now_ms)
        if due:
            self._last_ms = now_ms
        return due

    def next_s(self) -> float | None:
        """Returns the seconds until :meth:`take` may return a task; ``None`` if no punctuation is scheduled."""
        if not self._due_ms:
            return None
        earliest_ms = max(min(self._due_ms.values()), self._last_ms + LEAST_INTERVAL_S * 1000)
        return max(earliest_ms - self._wall_clock_ms(), 0.0) / 1000
