"""The least-recently-used map: a key-value store in memory with a maximum number of keys."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from millrace.state.bytes_store import MemoryBytesStore
from millrace.state.changelog import Changelog
from millrace.state.contents import StoreRecord
from millrace.state.key_value import LayeredKeyValueStore
from millrace.state.layout import Int64Array, Packed, pack_values, unpack_value, unpack_values


class LruKeyValueStore(LayeredKeyValueStore):
    """Keys in the order of their last use, a read or a write; a new key beyond the capacity evicts the oldest.

    An evicted key is deleted in the changelog too, so that a restored map holds the same keys. Source:
    ``MemoryNavigableLRUCache``. Which keys are there depends on each single read and write, so tasks with such a store
    take their records one by one (``task.walking``).

    Args:
        name: name of the store.
        capacity: most keys.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
    """

    def __init__(self, name: str, *, capacity: int, changelog: Changelog | None) -> None:
        super().__init__(name, MemoryBytesStore(), changelog=changelog, read_cache_bytes=0)
        self._capacity = capacity
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self._before: OrderedDict[bytes, bytes] | None = None
        self._has_writes = False

    @property
    def has_uncommitted_writes(self) -> bool:
        """Whether there is something to commit."""
        return self._has_writes

    def put_many(self, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array) -> None:
        """Writes values with their timestamps, one after the other; ``None`` deletes."""
        self._remember()
        self._has_writes = True
        self._metrics.puts += len(keys)
        packed = pack_values(values, timestamps)
        for row, key in enumerate(keys):
            evicted = self._put(key, packed[row])
            if self._changelog is not None:
                stamp = timestamps[row : row + 1]
                if evicted is not None:
                    self._changelog.append([evicted], [None], stamp)
                self._changelog.append([key], [values[row]], stamp)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields the entries of a range by key bytes, both ends included; that does not count as a use."""
        for key in sorted(self._entries):
            if (from_key is None or key >= from_key) and (to_key is None or key <= to_key):
                yield key, *unpack_value(self._entries[key])

    def approximate_num_entries(self) -> int:
        """Returns the number of keys."""
        return len(self._entries)

    def size(self) -> tuple[int, int]:
        """Returns the number of entries, and the bytes of their keys and values."""
        return len(self._entries), sum(map(len, self._entries)) + sum(map(len, self._entries.values()))

    def get_many(self, keys: list[bytes]) -> tuple[list[bytes | None], Int64Array]:
        """Returns the values and timestamps of ``keys``, in their order."""
        return unpack_values(self._read(keys))

    def stage(self, batch: Any) -> None:
        """Does nothing: the map is in memory."""

    def committed(self) -> None:
        """Makes the writes committed data, after the commit has succeeded."""
        self._before, self._has_writes = None, False

    def commit_failed(self) -> None:
        """Does nothing: the rollback restores the last commit."""

    def rollback(self) -> None:
        """Returns to the last commit, also in the order of use."""
        if self._before is not None:
            self._entries, self._before = self._before, None
        self._has_writes = False
        if self._changelog is not None:
            self._changelog.clear()

    def stage_restored(self, batch: Any, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array) -> int:  # noqa: ARG002
        """Applies changelog records; the changelog has the deletions of evicted keys already."""
        for key, packed in zip(keys, pack_values(values, timestamps), strict=True):
            self._put(key, packed)
        return len(keys)

    def records(self) -> Iterator[StoreRecord]:
        """Yields all committed entries, in the order of their last use."""
        for key, packed in (self._entries if self._before is None else self._before).items():
            yield key, *unpack_value(packed)

    def _read(self, keys: list[bytes]) -> list[Packed]:
        self._remember()
        self._metrics.gets += len(keys)
        found: list[Packed] = []
        for key in keys:
            packed = self._entries.get(key)
            if packed is not None:
                self._entries.move_to_end(key)
            found.append(packed)
        return found

    def _put(self, key: bytes, packed: Packed) -> bytes | None:
        """Writes one key; returns the key that it evicted."""
        if packed is None:
            self._entries.pop(key, None)
            return None
        self._entries[key] = packed
        self._entries.move_to_end(key)
        return self._entries.popitem(last=False)[0] if len(self._entries) > self._capacity else None

    def _remember(self) -> None:
        if self._before is None:
            self._before = self._entries.copy()
