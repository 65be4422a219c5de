"""What a lookup sees of a suppression buffer within a batch: each record the buffer as it was at its own place."""

from __future__ import annotations

import numpy as np

from millrace.state import BufferedChange, SuppressionBuffer
from millrace.task.columns import IntArray
from millrace.task.table_view import last_changes_before


class BufferView:
    """The buffer as of the last commit, and what a batch did to it, with places in the order.

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
        """What waits for a key from here on.

        Args:
            key: the key.
            change: the change that waits, ``None`` where it has gone.
            row: row of the record that did it.
            ordinal: the place among the things that the record did.
        """
        self._keys.append(key)
        self._changes.append(change)
        self._rows.append(row)
        self._ordinals.append(ordinal)

    def end(self, order: tuple[IntArray, ...]) -> None:
        """The node is through with the batch, whose records have these order columns."""
        rows = np.array(self._rows, dtype=np.int64)
        self._order = (*(column[rows] for column in order), np.array(self._ordinals, dtype=np.int64))

    def clear(self) -> None:
        """Forgets the batch: it is committed, or failed."""
        self._keys, self._changes, self._rows, self._ordinals, self._order = [], [], [], [], ()

    def lookup(self, keys: list[bytes], order: tuple[IntArray, ...]) -> list[BufferedChange | None]:
        """Returns the buffered records of each key, as of the key's position in the order."""
        last = last_changes_before(self._keys, self._order, keys, order).tolist()
        return [
            self._buffer.get_committed(key) if change < 0 else self._changes[change]
            for key, change in zip(keys, last, strict=True)
        ]
