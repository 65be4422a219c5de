"""A table as lookups see it within a batch: each record the table as of the record's position in the order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.state import KeyValueStore
from millrace.state.layout import NO_TIMESTAMP
from millrace.task.columns import IntArray
from millrace.task.records import concat_orders, sorted_rows

_NONE = np.zeros(0, dtype=np.int64)


class TableView:
    """The state of a table's store before the batch, and the batch's changes with their positions in the order.

    A batch is processed node by node, so by the time a join runs, the table's writer has seen all its updates. The
    view keeps the updates apart from the store until the batch is through, so that a record finds the last update
    before itself, as it would record by record.
    """

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store
        self._keys: list[bytes] = []
        self._values: list[bytes | None] = []
        self._timestamps: IntArray = _NONE
        self._order: tuple[IntArray, ...] = ()

    def set_changes(
        self, keys: list[bytes], values: list[bytes | None], timestamps: IntArray, order: tuple[IntArray, ...]
    ) -> None:
        """Sets the batch's updates of the table, in their order."""
        self._keys, self._values, self._timestamps, self._order = keys, values, timestamps, order

    def clear(self) -> None:
        """Discards the changes, once they are in the store."""
        self._keys, self._values, self._timestamps, self._order = [], [], _NONE, ()

    def lookup(
        self, keys: list[bytes], order: tuple[IntArray, ...], as_of: IntArray | None = None
    ) -> tuple[list[bytes | None], IntArray]:
        """Returns the table's value for each key, as of the key's position in the order.

        Args:
            keys: key bytes, one per record.
            order: the order columns of the records.
            as_of: must be ``None``: the store has no history.

        Returns:
            Value bytes, ``None`` where the table has no such key then, and their timestamps in milliseconds, -1 there.
        """
        assert as_of is None
        if not keys:
            return [], _NONE
        found: list[bytes | None] = [None] * len(keys)
        change_of = last_changes_before(self._keys, self._order, keys, order)
        unchanged: dict[bytes, list[int]] = {}
        for row, (key, change) in enumerate(zip(keys, change_of.tolist(), strict=True)):
            if change >= 0:
                found[row] = self._values[change]
            else:
                unchanged.setdefault(key, []).append(row)
        timestamps = np.full(len(keys), NO_TIMESTAMP, dtype=np.int64)
        changed = change_of >= 0
        if changed.any():
            timestamps[changed] = self._timestamps[change_of[changed]]
            deleted = [row for row in np.flatnonzero(changed).tolist() if found[row] is None]
            timestamps[deleted] = NO_TIMESTAMP
        distinct = list(unchanged)
        values, stored_timestamps = self._store.get_many(distinct)
        for key, value, timestamp in zip(distinct, values, stored_timestamps.tolist(), strict=True):
            for row in unchanged[key]:
                found[row] = value
                timestamps[row] = timestamp
        return found, timestamps


def last_changes_before(
    changed: list[bytes], change_order: tuple[IntArray, ...], keys: list[bytes], order: tuple[IntArray, ...]
) -> IntArray:
    """Returns for each key the index of its last change before the key's position, -1 where there is none.

    Args:
        changed: keys of the changes, in their order.
        change_order: order columns of the changes.
        keys: the keys that are looked up.
        order: the order columns of the lookups.
    """
    changes = len(changed)
    if changes == 0:
        return np.full(len(keys), -1, dtype=np.int64)
    codes = pa.array(changed + keys, type=pa.binary()).dictionary_encode().indices.to_numpy().astype(np.int64)
    ranks = joint_ranks(change_order, order)
    # One number that sorts by key first and by rank second.
    sort_keys = codes * (len(ranks) + 1) + ranks
    sorted_changes = np.argsort(sort_keys[:changes], kind="stable")
    slots = np.searchsorted(sort_keys[:changes][sorted_changes], sort_keys[changes:]) - 1
    candidates = sorted_changes[np.maximum(slots, 0)]
    same_key = (slots >= 0) & (codes[:changes][candidates] == codes[changes:])
    return np.where(same_key, candidates, -1).astype(np.int64)


def joint_ranks(first: tuple[IntArray, ...], second: tuple[IntArray, ...]) -> IntArray:
    """Returns the ranks of two sets of positions in their common order."""
    in_order = sorted_rows(concat_orders([first, second]))
    ranks = np.empty(len(in_order), dtype=np.int64)
    ranks[in_order] = np.arange(len(in_order), dtype=np.int64)
    return ranks
