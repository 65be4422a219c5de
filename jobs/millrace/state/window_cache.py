"""A bounded cache of committed windows: one dictionary per window start, dropped as a whole, oldest window first."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.state.layout import Packed
from millrace.state.read_cache import table_bytes


class WindowCache:
    """Committed values by window start and key, with ``None`` for keys known to be absent.

    A window that was written for the first time while it was newer than all windows before has all its entries here:
    it is complete, and a key that is not in it is nowhere.

    Args:
        budget_bytes: memory; 0 keeps nothing.
    """

    def __init__(self, *, budget_bytes: int) -> None:
        self._budget = budget_bytes
        self._windows: dict[int, dict[bytes, Packed]] = {}
        self._complete: set[int] = set()
        self._estimates: dict[int, int] = {}

    def window(self, start: int) -> dict[bytes, Packed] | None:
        """Returns the cached content of a window; ``None`` if there is none."""
        return self._windows.get(start)

    def is_complete(self, start: int) -> bool:
        """Returns whether a key that :meth:`window` does not have does not exist."""
        return start in self._complete

    def merge(self, start: int, table: dict[bytes, Packed], *, complete: bool) -> None:
        """Adds committed values of one window; the cache may keep ``table`` itself.

        Args:
            start: start of the window.
            table: local values by key.
            complete: whether the window had no entry before.
        """
        if not self._budget:
            return
        known = self._windows.get(start)
        if known is None:
            self._windows[start] = table
        else:
            known.update(table)
        if complete:
            self._complete.add(start)
        self._estimates[start] = self._estimates.get(start, 0) + table_bytes(table)

    def add(self, start: int, keys: Sequence[bytes], values: Sequence[Packed]) -> None:
        """Adds values that were read."""
        self.merge(start, dict(zip(keys, values, strict=True)), complete=False)

    def expire(self, first_start: int) -> None:
        """Discards the windows that start before ``first_start``."""
        for start in [start for start in self._windows if start < first_start]:
            self._drop(start)

    def shrink(self) -> None:
        """Drops the oldest windows until the rest fits into the budget."""
        if sum(self._estimates.values()) <= self._budget:
            return
        # Overwritten entries were counted twice: count again before dropping anything.
        self._estimates = {start: table_bytes(table) for start, table in self._windows.items()}
        for start in sorted(self._windows):
            if sum(self._estimates.values()) <= self._budget:
                return
            self._drop(start)

    def clear(self) -> None:
        """Discards everything."""
        self._windows.clear()
        self._complete.clear()
        self._estimates.clear()

    def _drop(self, start: int) -> None:
        del self._windows[start]
        del self._estimates[start]
        self._complete.discard(start)
