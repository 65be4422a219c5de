"""A suppression buffer as lookups see it within a batch: each record the buffer as of its position in the order."""

from __future__ import annotations

import numpy as np

from millrace.state import BufferedChange, SuppressionBuffer
from millrace.task.columns import IntArray
from millrace.task.table_view import last_changes_before


class BufferView:
    """The buffer as of the last commit, and the changes of a batch with their positions in the order.

    Args:
        buffer: the buffer.
    """

    def __init__(self, buffer: SuppressionBuffer) -> None:
        self._buffer = buffer
        self._keys: list[bytes] = []
        self._changes: list[BufferedChange | None] = []
        self._rows: list[int] = []
        self._ordinals: list[int] = []
        self._order: tuple[IntArray, ...] = ()

    def put(self, key: bytes, change: BufferedChange | None, row: int, ordinal: int) -> None:
        """Records a change of the buffer: what it contains for a key from here on.

        Args:
            key: the key.
            change: the buffered change, ``None`` where it was emitted.
            row: row of the record that did it.
            ordinal: the number of this change among those of the record.
        """
        self._keys.append(key)
        self._changes.append(change)
        self._rows.append(row)
        self._ordinals.append(ordinal)

    def end(self, order: tuple[IntArray, ...]) -> None:
        """Ends the batch for this node, whose records have these order columns."""
        rows = np.array(self._rows, dtype=np.int64)
        self._order = (*(column[rows] for column in order), np.array(self._ordinals, dtype=np.int64))

    def clear(self) -> None:
        """Discards the batch's changes: the batch was committed, or it failed."""
        self._keys, self._changes, self._rows, self._ordinals, self._order = [], [], [], [], ()

    def lookup(self, keys: list[bytes], order: tuple[IntArray, ...]) -> list[BufferedChange | None]:
        """Returns the buffered change of each key, as of the key's position in the order."""
        last = last_changes_before(self._keys, self._order, keys, order).tolist()
        return [
            self._buffer.get_committed(key) if change < 0 else self._changes[change]
            for key, change in zip(keys, last, strict=True)
        ]
