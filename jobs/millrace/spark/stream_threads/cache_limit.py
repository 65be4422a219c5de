"""The limit of a batch's rows by which its merged updates fit into the task's share of the record cache.

A batch is processed and committed as one, and what it merges is known only afterwards. So the size of the cache limits
rows, by the bytes a row that the last batches merged. Where rows go on to merge as they did, this converges from both
sides: more rows merge more of their updates, so a larger batch takes no more bytes a row than a smaller one did.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

FIRST_BYTES_PER_ROW = 1_024
"""What a row is taken to merge before a batch has shown it."""

BATCHES = 8
"""How many of the last batches are asked."""


@dataclass(frozen=True)
class _Batch:
    rows: int
    merged_bytes: int


class CacheLimit:
    """The limit of the rows that a batch of a task takes, over all of its partitions.

    Args:
        share_bytes: what the updates that a batch merges may take, keys and values.
    """

    def __init__(self, share_bytes: int) -> None:
        self.share_bytes = share_bytes
        self._last: deque[_Batch] = deque(maxlen=BATCHES)

    @property
    def rows(self) -> int:
        """The most rows of the next batch, at least one.

        As many as fit into the share at the most bytes a row of the last batches, but no more than twice the largest of
        these: what more rows would do, none of them has shown. The first batch takes a row for each
        :data:`FIRST_BYTES_PER_ROW` of the share, and so many are taken in any case where no batch contradicts.
        """
        first = max(1, self.share_bytes // FIRST_BYTES_PER_ROW)
        largest = max((batch.rows for batch in self._last), default=0)
        fitting = [
            batch.rows * self.share_bytes // batch.merged_bytes for batch in self._last if batch.merged_bytes > 0
        ]
        return max(1, min([max(first, 2 * largest), *fitting]))

    def observe(self, rows: int, merged_bytes: int) -> None:
        """Records that a batch of ``rows`` had updates of ``merged_bytes`` after merging."""
        if rows > 0:
            self._last.append(_Batch(rows, merged_bytes))
