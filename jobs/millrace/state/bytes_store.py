"""The innermost layer of a store: committed bytes in key order, on disk or in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from millrace.state.layout import Packed


class BytesStore(Protocol):
    """Committed local keys and values. Writes are staged, and become visible together when the task commits."""

    def get(self, key: bytes) -> Packed:
        """Returns the value of ``key``."""

    def get_many(self, keys: Sequence[bytes]) -> list[Packed]:
        """Returns the values of ``keys``, in their order."""

    def scan(self, from_key: bytes, before: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Returns the entries from ``from_key`` to ``before`` (exclusive; ``None``: to the end), in key order."""

    def stage(self, batch: Any, keys: Sequence[bytes], values: Sequence[Packed]) -> None:
        """Adds writes to the commit of ``batch``; ``None`` deletes."""

    def stage_delete_range(self, batch: Any, begin: bytes, end: bytes) -> None:
        """Adds the deletion of ``[begin, end)`` to the commit."""

    def apply_staged(self) -> None:
        """Makes the staged writes visible, after the commit has succeeded."""

    def discard_staged(self) -> None:
        """Discards the staged writes, after the commit has failed."""

    def is_empty(self) -> bool:
        """Returns whether there is no committed entry."""

    def size(self) -> tuple[int, int]:
        """Returns the number of entries and their bytes, both approximate."""


class MemoryBytesStore:
    """A :class:`BytesStore` in a dictionary, which is sorted when a range is read."""

    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}
        self._sorted_keys: list[bytes] | None = None
        self._staged: list[tuple[Sequence[bytes], Sequence[Packed]]] = []
        self._staged_ranges: list[tuple[bytes, bytes]] = []

    def get(self, key: bytes) -> Packed:
        """Returns the value of ``key``."""
        return self._data.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[Packed]:
        """Returns the values of ``keys``, in their order."""
        return list(map(self._data.get, keys))

    def scan(self, from_key: bytes, before: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yields the entries of a range as they were when the scan began."""
        keys = self._keys()
        first = bisect_left(keys, from_key)
        end = len(keys) if before is None else bisect_left(keys, before)
        data = self._data
        return iter([(key, data[key]) for key in islice(keys, first, max(first, end))])

    def stage(self, batch: Any, keys: Sequence[bytes], values: Sequence[Packed]) -> None:  # noqa: ARG002
        """Stages the writes until the database's own batch was written."""
        self._staged.append((keys, values))

    def stage_delete_range(self, batch: Any, begin: bytes, end: bytes) -> None:  # noqa: ARG002
        """Stages the deletion until the database's own batch was written; deletions of ranges come before writes."""
        self._staged_ranges.append((begin, end))

    def apply_staged(self) -> None:
        """Makes the staged writes visible."""
        for begin, end in self._staged_ranges:
            for key, _ in self.scan(begin, end):
                del self._data[key]
            self._sorted_keys = None
        before = len(self._data)
        deletes = False
        for keys, values in self._staged:
            self._data.update(zip(keys, values, strict=True))  # type: ignore[arg-type]
            if not all(values):
                deletes = True
                for key, value in zip(keys, values, strict=True):
                    if value is None:
                        self._data.pop(key, None)
        if deletes or len(self._data) != before:
            self._sorted_keys = None
        self.discard_staged()

    def discard_staged(self) -> None:
        """Discards the staged writes."""
        self._staged = []
        self._staged_ranges = []

    def is_empty(self) -> bool:
        """Returns whether there is no committed entry."""
        return not self._data

    def size(self) -> tuple[int, int]:
        """Returns the number of entries, and the bytes of their keys and values."""
        return len(self._data), sum(map(len, self._data)) + sum(map(len, self._data.values()))

    def _keys(self) -> list[bytes]:
        if self._sorted_keys is None:
            self._sorted_keys = sorted(self._data)
        return self._sorted_keys
