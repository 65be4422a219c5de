"""The key-value store: an overlay of uncommitted writes and a read cache over committed bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Final

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog
from millrace.state.layered import LayeredStore
from millrace.state.layout import (
    Int64Array,
    Packed,
    after_prefix,
    pack_values,
    packed_bytes,
    unpack_value,
    unpack_values,
)
from millrace.state.merge import merge_overlay
from millrace.state.read_cache import ReadCache

_MISSING: Final[Any] = object()


class LayeredKeyValueStore(LayeredStore):
    """A :class:`~millrace.state.stores.KeyValueStore` in layers: overlay, read cache, bytes store.

    Args:
        name: name of the store.
        committed: the bytes store.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
        read_cache_bytes: memory of the read cache.
    """

    def __init__(self, name: str, committed: BytesStore, *, changelog: Changelog | None, read_cache_bytes: int) -> None:
        super().__init__(name, committed, changelog)
        self._cache = ReadCache(budget_bytes=read_cache_bytes, complete=committed.is_empty())
        self._overlay: dict[bytes, Packed] = {}

    @property
    def has_uncommitted_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._overlay)

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        """Returns the value and timestamp of one key."""
        packed = self._read([key])[0]
        return None if packed is None else unpack_value(packed)

    def get_many(self, keys: list[bytes]) -> tuple[list[bytes | None], Int64Array]:
        """Returns the values and timestamps of ``keys``, in their order."""
        return unpack_values(self._read(keys))

    def put_many(self, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array) -> None:
        """Writes values with their timestamps; ``None`` deletes."""
        before = len(self._overlay)
        self._overlay.update(zip(keys, pack_values(values, timestamps), strict=True))
        self._metrics.puts += len(keys)
        if self._changelog is not None:
            self._changelog.append(keys, values, timestamps, new_keys=len(self._overlay) - before)

    def range(self, from_key: bytes | None, to_key: bytes | None) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields the entries of a range in the order of the key bytes, both ends included."""
        first = from_key or b""
        before = None if to_key is None else to_key + b"\0"
        overlay = {
            key: value for key, value in self._overlay.items() if key >= first and (before is None or key < before)
        }
        for key, packed in merge_overlay(self._committed.scan(first, before), overlay):
            yield key, *unpack_value(packed)

    def prefix_scan_many(self, prefixes: Sequence[bytes]) -> list[list[tuple[bytes, bytes, int]]]:
        """Returns the entries whose keys begin with each prefix, in the order of the key bytes."""
        written = sorted(self._overlay)
        scanned = []
        for prefix in prefixes:
            before = after_prefix(prefix)
            first = bisect_left(written, prefix)
            end = len(written) if before is None else bisect_left(written, before, first)
            overlay = {key: self._overlay[key] for key in written[first:end]}
            found = merge_overlay(self._committed.scan(prefix, before), overlay)
            scanned.append([(key, *unpack_value(packed)) for key, packed in found])
        return scanned

    def all(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Returns every entry in the order of the key bytes."""
        return self.range(None, None)

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of keys; uncommitted writes count as new ones."""
        return self._committed.size()[0] + len(self._overlay)

    def uncommitted_bytes(self) -> int:
        """Returns the bytes of the overlay's keys and values."""
        return packed_bytes(self._overlay)

    def stage(self, batch: Any) -> None:
        """Adds the overlay to a commit."""
        if self._overlay:
            # In key order RocksDB's write buffer takes them in half of the time, which pays for the sort.
            keys = sorted(self._overlay)
            self._committed.stage(batch, keys, list(map(self._overlay.__getitem__, keys)))

    def committed(self) -> None:
        """Makes the overlay committed data, after the commit has succeeded."""
        self._committed.apply_staged()
        if self._overlay:
            self._cache.merge(self._overlay)
            self._overlay = {}

    def rollback(self) -> None:
        """Discards the uncommitted writes."""
        self._overlay = {}
        if self._changelog is not None:
            self._changelog.clear()

    def stage_restored(self, batch: Any, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array) -> int:
        """Adds changelog records to a commit, without overlay and logging; returns how many were applied."""
        latest = dict(zip(keys, pack_values(values, timestamps), strict=True))
        ordered = sorted(latest)
        self._committed.stage(batch, ordered, list(map(latest.__getitem__, ordered)))
        self._cache.clear()
        return len(keys)

    def _read(self, keys: list[bytes]) -> list[Packed]:
        """Returns local values: from the overlay, else the cache, else the bytes store."""
        self._metrics.gets += len(keys)
        young, old = self._cache.generations()
        layers = [layer for layer in (self._overlay, young, old) if layer]
        if not layers:
            return [None] * len(keys) if self._cache.complete else self._read_committed(keys)
        default = None if self._cache.complete and len(layers) == 1 else _MISSING
        found: list[Packed] = list(map(layers[0].get, keys, repeat(default)))
        if default is None:
            return found
        missing = [row for row, value in enumerate(found) if value is _MISSING]
        for layer in layers[1:]:
            still = []
            for row in missing:
                value = layer.get(keys[row], _MISSING)
                if value is _MISSING:
                    still.append(row)
                else:
                    found[row] = value
            if layer is old and len(still) < len(missing):
                rows = set(missing).difference(still)
                self._cache.add([keys[row] for row in rows], [found[row] for row in rows])
            missing = still
        if missing:
            absent = [keys[row] for row in missing]
            values = [None] * len(absent) if self._cache.complete else self._read_committed(absent)
            for row, value in zip(missing, values, strict=True):
                found[row] = value
        return found

    def _read_committed(self, keys: list[bytes]) -> list[Packed]:
        self._metrics.database_reads += len(keys)
        values = self._committed.get_many(keys)
        self._cache.add(keys, values)
        return values
