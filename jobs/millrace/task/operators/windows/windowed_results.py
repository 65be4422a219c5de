"""The updates of a windowed table, collected one by one while records are processed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from millrace.task.columns import Column, WindowedColumn
from millrace.task.records import Records

_Update = tuple[int, int, int, Any, int, Any]
"""Row of the record, start and end of the window, result, timestamp, the result before it."""


class WindowedResults:
    """The collected updates that go downstream.

    Args:
        merged: only the last update of each window goes on, and none of a window created and deleted: the store is
            cached.
        with_old_values: whether a node below needs the results before the updates.
    """

    def __init__(self, *, merged: bool, with_old_values: bool) -> None:
        self._merged = merged
        self._with_old_values = with_old_values
        self._updates: list[_Update] = []
        self._last: dict[tuple[bytes, int, int], _Update] = {}
        self._born: set[tuple[bytes, int, int]] = set()

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
        """Adds an update.

        Args:
            row: row of the record that made it, not below that of the update before.
            key: the un-windowed key as bytes.
            window: start and end of the window, milliseconds.
            result: the new result, ``None`` for a tombstone.
            timestamp: the update's, milliseconds.
            was_there: whether the store had the window before.
            is_there: whether the store has it now.
            old: the result before it.
        """
        update = (row, *window, result, timestamp, old)
        if not self._merged:
            self._updates.append(update)
            return
        window_key = (key, *window)
        known = self._last.pop(window_key, None)
        if not is_there and (window_key in self._born or (known is None and not was_there)):
            self._born.discard(window_key)
            return
        if known is None and not was_there:
            self._born.add(window_key)
        self._last[window_key] = update if known is None else (*update[:-1], known[-1])

    def of_sessions(self, records: Records) -> Records | None:
        """Returns the updates as records; as in Kafka Streams those of sessions have no headers."""
        made = self.of_windows(records)
        return None if made is None else replace(made, headers=None)

    def of_windows(self, records: Records) -> Records | None:
        """Returns the updates as records, in their order.

        Args:
            records: what was processed.
        """
        updates = list(self._last.values()) if self._merged else self._updates
        if not updates:
            return None
        rows, starts, ends, results, timestamps, before = zip(*updates, strict=True)
        parents = np.array(rows, dtype=np.int64)
        first = np.searchsorted(parents, parents, side="left")
        expanded = records.expand(
            parents,
            np.arange(len(parents), dtype=np.int64) - first,
            WindowedColumn(
                records.keys.take(parents), np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
            ),
            Column(objects=list(results)),
        )
        return replace(
            expanded,
            timestamps=np.array(timestamps, dtype=np.int64),
            old_values=Column(objects=list(before)) if self._with_old_values else None,
        )
