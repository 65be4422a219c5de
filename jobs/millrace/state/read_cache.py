"""A bounded cache of committed values in front of a bytes store, filled by reads and by commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.state.layout import Packed

ENTRY_OVERHEAD_BYTES = 200
"""What two bytes objects and a slot of a dictionary take beside their content, measured on CPython 3.11."""


def table_bytes(table: Mapping[bytes, Packed]) -> int:
    """Returns the approximate memory of a dictionary of keys and local values, bytes."""
    return (
        len(table) * ENTRY_OVERHEAD_BYTES
        + sum(map(len, table))
        + sum([len(value) for value in table.values() if value])
    )


class ReadCache:
    """Committed values by key, with ``None`` for keys known to be absent.

    It has two generations: when the younger one has half of the budget, the older one is dropped and the younger one
    replaces it, so that keys in use stay without bookkeeping per read.

    Args:
        budget_bytes: memory of both generations; 0 keeps nothing.
        complete: whether the store is empty now, so that a key that is not in the cache is nowhere. That stays so
            until something is dropped.
    """

    def __init__(self, *, budget_bytes: int, complete: bool) -> None:
        self._budget = budget_bytes
        self._young: dict[bytes, Packed] = {}
        self._old: dict[bytes, Packed] = {}
        self._estimate = 0
        self.complete = complete and budget_bytes > 0

    def generations(self) -> tuple[dict[bytes, Packed], dict[bytes, Packed]]:
        """Returns the younger and the older generation, for lookups in bulk."""
        return self._young, self._old

    def add(self, keys: Sequence[bytes], values: Sequence[Packed]) -> None:
        """Adds committed values."""
        self.merge(dict(zip(keys, values, strict=True)))

    def merge(self, table: dict[bytes, Packed]) -> None:
        """Adds committed values; the cache may keep ``table`` itself."""
        if not self._budget:
            return
        self._estimate += table_bytes(table)
        if self._young:
            self._young.update(table)
        else:
            self._young = table
        if self._estimate > self._budget // 2:
            # Overwritten entries were counted twice: count again before dropping anything.
            self._estimate = table_bytes(self._young)
            if self._estimate > self._budget // 2:
                self.complete = self.complete and self._old.keys() <= self._young.keys()
                self._old, self._young, self._estimate = self._young, {}, 0
                if table_bytes(self._old) > self._budget:
                    self._old = {}
                    self.complete = False

    def clear(self) -> None:
        """Discards everything; the store is no longer known to be empty."""
        self._young, self._old, self._estimate = {}, {}, 0
        self.complete = False
