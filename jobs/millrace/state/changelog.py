"""The change-logging layer: the writes to a store since the last drain, in the layout of its changelog topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millrace.state.layout import Int64Array, changelog_window_keys


@dataclass(frozen=True, kw_only=True)
class ChangelogBatch:
    """Records for the changelog topic of one store, in the order of their writes.

    Args:
        store: name of the store.
        keys: keys in the changelog's layout.
        values: plain values; ``None`` is a tombstone.
        timestamps: record timestamps, int64 milliseconds.
        headers: per record (name, value) pairs or ``None``; ``None`` where no record has headers.
    """

    store: str
    keys: list[bytes]
    values: list[bytes | None]
    timestamps: Int64Array
    headers: Sequence[list[tuple[str, bytes | None]] | None] | None = None

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class _Write:
    keys: Sequence[bytes]
    starts: Int64Array | None
    values: Sequence[bytes | None]
    timestamps: Int64Array


class Changelog:
    """The writes to one store, collected by reference: a write costs nothing until it is drained.

    Args:
        store: name of the store.
        cached: whether only the last write of each key is drained (in the order of those last writes).
    """

    def __init__(self, store: str, *, cached: bool) -> None:
        self._store = store
        self._cached = cached
        self._writes: list[_Write] = []
        self._may_repeat_keys = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to drain."""
        return not self._writes

    def append(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Int64Array,
        *,
        starts: Int64Array | None = None,
        new_keys: int = 0,
    ) -> None:
        """Records one write of several keys.

        Args:
            keys: un-windowed keys; neither this list nor the others may be changed later.
            values: plain values.
            timestamps: record timestamps, int64 milliseconds.
            starts: window starts, for a window store.
            new_keys: how many of the keys were not in the overlay before; spares looking for repeated ones.
        """
        if not keys:
            return
        self._may_repeat_keys |= new_keys != len(keys)
        self._writes.append(_Write(keys, starts, values, timestamps))

    def clear(self) -> None:
        """Discards the writes that were not drained."""
        self._writes = []
        self._may_repeat_keys = False

    def drain(self) -> ChangelogBatch | None:
        """Returns the writes since the last drain; ``None`` if there are none."""
        if not self._writes:
            return None
        writes = self._writes
        compacted = self._cached and self._may_repeat_keys
        self.clear()
        keys: list[bytes] = [key for write in writes for key in write.keys] if len(writes) > 1 else list(writes[0].keys)
        values = [value for write in writes for value in write.values] if len(writes) > 1 else list(writes[0].values)
        timestamps = np.concatenate([write.timestamps for write in writes]).astype(np.int64, copy=False)
        starts = [write.starts for write in writes if write.starts is not None]
        if starts:
            keys = changelog_window_keys(keys, np.concatenate(starts))
        if compacted:
            last = sorted({key: row for row, key in enumerate(keys)}.values())
            if len(last) < len(keys):
                keys = [keys[row] for row in last]
                values = [values[row] for row in last]
                timestamps = timestamps[last]
        return ChangelogBatch(store=self._store, keys=keys, values=values, timestamps=timestamps)
