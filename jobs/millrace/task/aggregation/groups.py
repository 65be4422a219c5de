"""The rows of a batch that belong to the same aggregate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.task.columns import IntArray


@dataclass(frozen=True)
class Groups:
    """A division of rows into groups, numbered in the order in which they first appear.

    Args:
        ids: for each row the number of its group.
        first_rows: for each group its first row.
        last_rows: for each group its last row.
    """

    ids: IntArray
    first_rows: IntArray
    last_rows: IntArray

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.first_rows)


def group_codes(keys: pa.Array) -> IntArray:
    """Returns a code for each row; rows have equal codes where their keys (binary, without nulls) are equal."""
    codes: IntArray = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def group(codes: IntArray) -> Groups:
    """Returns the groups of rows with equal codes."""
    ids: IntArray = pa.array(codes).dictionary_encode().indices.to_numpy().astype(np.int64)
    count = int(ids.max()) + 1 if len(ids) else 0
    rows = np.arange(len(ids), dtype=np.int64)
    last_rows = np.empty(count, dtype=np.int64)
    last_rows[ids] = rows
    first_rows = np.empty(count, dtype=np.int64)
    first_rows[ids[::-1]] = rows[::-1]
    return Groups(ids, first_rows, last_rows)
