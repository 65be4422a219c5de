"""The records of a left or outer stream-stream join that have no partner yet."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np

from millrace.state import KeyValueStore
from millrace.state.join_layout import outer_join_key, outer_join_values, read_outer_join_key, read_outer_join_values

_TIME = struct.Struct(">q")


@dataclass(frozen=True)
class ClosedRecords:
    """The result of a search for buffered records whose window has closed.

    Args:
        keys: keys (of the store) of the records whose window has closed, in the order of their results.
        next_time: timestamp of the record up to which no search is needed; ``None``: no record is left.
    """

    keys: list[bytes]
    next_time: int | None


class NonJoinedRecords:
    """The non-joined records by timestamp, side and key. Changes are kept in memory until :meth:`flush`.

    Kafka Streams scans its store for those whose window has closed; here the keys of the store are in memory, in
    order, by side, so that closed ones are found by a binary search.
    """

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store
        self._present: set[bytes] = set()
        self._sides: dict[bool, list[bytes]] = {True: [], False: []}
        self._changed: dict[bytes, list[bytes]] = {}
        self._log: list[tuple[bytes, bytes | None, int]] = []
        for key, _, _ in store.all():
            self._present.add(key)
            self._sides[read_outer_join_key(key)[1]].append(key)

    def add(self, timestamp: int, key: bytes, value: bytes, *, left: bool, now: int) -> None:
        """Buffers a record. ``now`` is the timestamp of the changelog record, milliseconds."""
        store_key = outer_join_key(timestamp, left=left, key=key)
        values = [*self.values(store_key), value] if store_key in self._present else [value]
        if len(values) == 1:
            self._present.add(store_key)
            insort(self._sides[left], store_key)
        self._changed[store_key] = values
        self._log.append((store_key, outer_join_values(values, left=left), now))

    def remove(self, timestamp: int, key: bytes, *, left: bool, now: int) -> None:
        """Removes the records of a key and timestamp, for which a partner was found; does nothing if there are none."""
        store_key = outer_join_key(timestamp, left=left, key=key)
        if store_key in self._present:
            self.drop(store_key, left=left, now=now)

    def drop(self, store_key: bytes, *, left: bool, now: int) -> None:
        """Removes the records under a key of the store."""
        self._present.remove(store_key)
        keys = self._sides[left]
        del keys[bisect_left(keys, store_key)]
        self._changed.pop(store_key, None)
        self._log.append((store_key, None, now))

    def values(self, store_key: bytes) -> list[bytes]:
        """Returns the values under a key of the store, in the order in which they were added."""
        changed = self._changed.get(store_key)
        if changed is not None:
            return changed
        found = self._store.get(store_key)
        return [] if found is None else read_outer_join_values(found[0])

    def closed(self, left_limit: int, right_limit: int) -> ClosedRecords:
        """Returns the records whose window has closed.

        Args:
            left_limit: left records with a smaller timestamp have closed, milliseconds; the same for ``right_limit``.
        """
        lefts, rights = self._sides[True], self._sides[False]
        first_left = bisect_left(lefts, _TIME.pack(max(left_limit, 0)))
        first_right = bisect_left(rights, _TIME.pack(max(right_limit, 0)))
        keys = sorted(lefts[:first_left] + rights[:first_right])
        # Kafka Streams' scan ends at the entry behind the first open ones of both sides, and remembers its timestamp.
        if first_left < len(lefts) and first_right < len(rights):
            last_open = max(lefts[first_left], rights[first_right])
            behind = [side[index] for side in (lefts, rights) if (index := bisect_right(side, last_open)) < len(side)]
            repeated = not behind or len(self.values(last_open)) > 1
            end = last_open if repeated else min(behind)
        else:
            end = max(lefts[-1:] + rights[-1:], default=b"")
        return ClosedRecords(keys, _TIME.unpack_from(end)[0] if end else None)

    def flush(self) -> None:
        """Writes the changes to the store."""
        log, self._log = self._log, []
        self._changed = {}
        if log:
            self._store.put_many(
                [store_key for store_key, _, _ in log],
                [value for _, value, _ in log],
                np.array([now for _, _, now in log], dtype=np.int64),
            )
