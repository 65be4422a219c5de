"""The window store: an overlay of uncommitted writes and a cache per window start, over committed bytes by segment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, Final

import numpy as np

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog
from millrace.state.layout import (
    SEGMENT_BYTES,
    WINDOW_SUFFIX_BYTES,
    Int64Array,
    Packed,
    big_endian,
    distinct_starts,
    local_window_keys,
    pack_values,
    packed_bytes,
    prefixed_window_keys,
    unpack_value,
    unpack_values,
    window_start,
    window_starts,
    window_suffix,
)
from millrace.state.merge import merge_overlay
from millrace.state.segmented import SegmentedStore
from millrace.state.segments import Segments
from millrace.state.window_cache import WindowCache

_MISSING: Final[Any] = object()
_NOTHING: Final[dict[bytes, Packed]] = {}
_MAX_START: Final = 2**63 - 1
_NO_ROWS: Final[Int64Array] = np.empty(0, dtype=np.int64)


class LayeredWindowStore(SegmentedStore[Segments]):
    """A :class:`~millrace.state.stores.WindowStore` in layers: overlay, window cache, bytes store.

    A window that starts after the newest committed start is answered from the overlay alone.

    Args:
        name: name of the store.
        committed: the bytes store, with local window keys.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
        segments: retention, and the newest start as the database has it.
        read_cache_bytes: memory of the window cache.
    """

    def __init__(
        self,
        name: str,
        committed: BytesStore,
        *,
        changelog: Changelog | None,
        segments: Segments,
        read_cache_bytes: int,
    ) -> None:
        super().__init__(name, committed, changelog, segments)
        self._cache = WindowCache(budget_bytes=read_cache_bytes)
        self._overlay: dict[int, dict[bytes, Packed]] = {}

    @property
    def observed_stream_time(self) -> int:
        """Newest window start that was ever written, milliseconds; -1 before the first."""
        return self._segments.observed_stream_time

    @property
    def segments(self) -> Segments:
        """The retention and live segments, uncommitted writes included."""
        return self._segments

    @property
    def has_uncommitted_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._overlay) or self._segments != self._committed_segments

    def fetch_many(self, keys: list[bytes], starts: Int64Array) -> tuple[list[bytes | None], Int64Array]:
        """Returns the values and timestamps of (key, start) pairs."""
        return unpack_values(self._read(keys, starts))

    def peek_many(self, keys: list[bytes], starts: Int64Array) -> tuple[list[bytes | None], Int64Array]:
        """Returns the same as :meth:`fetch_many`, also for windows that have expired since the last commit."""
        return unpack_values(self._read(keys, starts, also_expired=True))

    def keys_from(self, first_start: int) -> Iterator[tuple[bytes, int]]:
        """Yields (key, start) of the windows that start at or after ``first_start``; expired ones while stored."""
        for key, start, _, _ in self._between(max(first_start, 0), self._segments.observed_stream_time):
            yield key, start

    def put_many(
        self, keys: list[bytes], starts: Int64Array, values: list[bytes | None], timestamps: Int64Array
    ) -> Int64Array:
        """Writes values of (key, start) pairs in this order; ``None`` deletes. Returns the indices of expired ones."""
        self._metrics.puts += len(keys)
        expired = _NO_ROWS
        if not keys:
            return expired
        live = self._segments.live_rows(starts)
        self._segments = self._segments.after(int(starts.max()))
        if live is not None:
            expired = np.flatnonzero(~live).astype(np.int64)
            self._metrics.expired += len(expired)
            rows = np.flatnonzero(live).tolist()
            keys, values = [keys[row] for row in rows], [values[row] for row in rows]
            starts, timestamps = starts[live], timestamps[live]
            if not keys:
                return expired
        packed = pack_values(values, timestamps)
        distinct, inverse = distinct_starts(starts)
        tables = [self._overlay.setdefault(start, {}) for start in distinct]
        before = sum(map(len, tables))
        if len(tables) == 1:
            tables[0].update(zip(keys, packed, strict=True))
        else:
            for index, key, value in zip(inverse, keys, packed, strict=True):
                tables[index][key] = value
        if self._changelog is not None:
            new_keys = sum(map(len, tables)) - before
            self._changelog.append(keys, values, timestamps, starts=starts, new_keys=new_keys)
        return expired

    def fetch(self, key: bytes, from_start: int, to_start: int) -> Iterator[tuple[int, bytes, int]]:
        """Yields (start, value, timestamp) of the windows of one key, by start, both ends included."""
        first = max(from_start, self._segments.first_readable_start, 0)
        last = min(to_start, self._segments.observed_stream_time)
        if last < first:
            return
        for segment in range(self._segments.segment_of(first), self._segments.segment_of(last) + 1):
            prefix = big_endian(segment) + key
            length = len(prefix) + WINDOW_SUFFIX_BYTES
            begin, end = prefix + window_suffix(first), prefix + window_suffix(last) + b"\0"
            written = {
                local[0]: table[key]
                for start, table in self._overlay.items()
                if first <= start <= last and self._segments.segment_of(start) == segment and key in table
                for local in (local_window_keys([key], start, segment),)
            }
            for local_key, packed in merge_overlay(self._committed.scan(begin, end), written):
                # Longer keys that begin with this one lie between its windows.
                if len(local_key) == length:
                    yield window_start(local_key), *unpack_value(packed)

    def fetch_all(self, from_start: int, to_start: int) -> Iterator[tuple[bytes, int, bytes, int]]:
        """Yields (key, start, value, timestamp) of the windows that start in the range, by segment, key and start."""
        first = max(from_start, self._segments.first_readable_start, 0)
        return self._between(first, min(to_start, self._segments.observed_stream_time))

    def _between(self, first: int, last: int) -> Iterator[tuple[bytes, int, bytes, int]]:
        if last < first:
            return
        written: dict[bytes, Packed] = {}
        for start, table in self._overlay.items():
            if first <= start <= last:
                written.update(
                    zip(
                        local_window_keys(list(table), start, self._segments.segment_of(start)),
                        table.values(),
                        strict=True,
                    )
                )
        begin = big_endian(self._segments.segment_of(first))
        end = big_endian(self._segments.segment_of(last) + 1)
        for local_key, packed in merge_overlay(self._committed.scan(begin, end), written):
            start = window_start(local_key)
            if first <= start <= last:
                yield local_key[SEGMENT_BYTES:-WINDOW_SUFFIX_BYTES], start, *unpack_value(packed)

    def all(self) -> Iterator[tuple[bytes, int, bytes, int]]:
        """Yields (key, start, value, timestamp) of all unexpired windows, by segment, key and start."""
        return self.fetch_all(0, _MAX_START)

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of (key, start) pairs; uncommitted writes count as new ones."""
        return self._committed.size()[0] + sum(map(len, self._overlay.values()))

    def uncommitted_bytes(self) -> int:
        """Returns the bytes of the overlay's keys, without their windows, and values."""
        return sum(map(packed_bytes, self._overlay.values()))

    def stage(self, batch: Any) -> bytes | None:
        """Adds the overlay and the deletion of expired segments to a commit; returns the metadata if it changed."""
        expired = self._segments.expired_range()
        if expired is not None:
            self._committed.stage_delete_range(batch, *expired)
        first_live = self._segments.first_live
        for start in sorted(self._overlay):
            segment = self._segments.segment_of(start)
            if segment >= first_live:
                table = self._overlay[start]
                # In key order RocksDB's write buffer takes them in half of the time, which pays for the sort.
                keys = sorted(table)
                values = list(map(table.__getitem__, keys))
                self._committed.stage(batch, local_window_keys(keys, start, segment), values)
        return self._metadata()

    def committed(self) -> None:
        """Makes the overlay committed data, after the commit has succeeded."""
        self._committed.apply_staged()
        newest_before = self._committed_segments.observed_stream_time
        self._settle()
        for start, table in self._overlay.items():
            self._cache.merge(start, table, complete=start > newest_before)
        self._overlay = {}
        self._cache.expire(self._segments.first_readable_start)
        self._cache.shrink()

    def rollback(self) -> None:
        """Discards the uncommitted writes."""
        super().rollback()
        self._overlay = {}

    def stage_restored(
        self, batch: Any, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array
    ) -> tuple[int, bytes | None]:
        """Adds changelog records to a commit, without overlay and logging.

        Returns:
            how many were taken (records of expired windows are skipped), and metadata to keep if it changed.
        """
        starts = window_starts(keys)
        # As in Kafka Streams the whole batch moves stream time before its records are judged.
        self._segments = self._segments.after(int(starts.max()))
        live = starts // self._segments.interval_ms >= self._segments.first_live
        if not live.all():
            rows = np.flatnonzero(live).tolist()
            keys, values = [keys[row] for row in rows], [values[row] for row in rows]
            starts, timestamps = starts[live], timestamps[live]
        local_keys = prefixed_window_keys(keys, starts, self._segments.segment_of)
        latest = dict(zip(local_keys, pack_values(values, timestamps), strict=True))
        ordered = sorted(latest)
        self._committed.stage(batch, ordered, list(map(latest.__getitem__, ordered)))
        self._cache.clear()
        return len(keys), self.stage(batch)

    def _read(self, keys: list[bytes], starts: Int64Array, *, also_expired: bool = False) -> list[Packed]:
        """Returns local values: from the overlay, else the cache, else the bytes store."""
        self._metrics.gets += len(keys)
        distinct, inverse = distinct_starts(starts)
        lookups = [self._lookup(start, also_expired=also_expired) for start in distinct]
        if len(lookups) == 1:
            first, default = lookups[0][0], lookups[0][2]
            found: list[Packed] = list(map(first.get, keys, repeat(default)))
        else:
            gets = [first.get for first, _, _ in lookups]
            defaults = [default for _, _, default in lookups]
            found = [gets[index](key, defaults[index]) for index, key in zip(inverse, keys, strict=True)]
        if all(default is None for _, _, default in lookups):
            return found
        missing = [row for row, value in enumerate(found) if value is _MISSING]
        unread: dict[int, list[int]] = {}
        for row in missing:
            start, second = distinct[inverse[row]], lookups[inverse[row]][1]
            value = second.get(keys[row], _MISSING)
            if value is not _MISSING:
                found[row] = value
            elif self._cache.is_complete(start):
                found[row] = None
            else:
                unread.setdefault(start, []).append(row)
        for start, rows in unread.items():
            absent = [keys[row] for row in rows]
            values = self._read_committed(absent, start)
            for row, value in zip(rows, values, strict=True):
                found[row] = value
        if unread:
            self._cache.shrink()
        return found

    def _lookup(self, start: int, *, also_expired: bool) -> tuple[dict[bytes, Packed], dict[bytes, Packed], Any]:
        """Returns the tables to read a window's keys from, first and second, and what a miss in the first one means."""
        if start < self._segments.first_readable_start and not also_expired:
            return _NOTHING, _NOTHING, None
        written = self._overlay.get(start)
        if start > self._committed_segments.observed_stream_time:
            return written or _NOTHING, _NOTHING, None
        known = self._cache.window(start)
        if not written:
            return known or _NOTHING, _NOTHING, None if self._cache.is_complete(start) else _MISSING
        return written, known or _NOTHING, _MISSING

    def _read_committed(self, keys: list[bytes], start: int) -> list[Packed]:
        self._metrics.database_reads += len(keys)
        values = self._committed.get_many(local_window_keys(keys, start, self._segments.segment_of(start)))
        self._cache.add(start, keys, values)
        return values
