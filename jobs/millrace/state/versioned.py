"""The versioned key-value store (KIP-889): every key with its history, back to a time before stream time.

As Kafka Streams' ``RocksDBVersionedStore``: a put whose timestamp is older than the history retention is not kept (its
changelog record is written all the same), and the newest version of a key never expires. Unlike there, the stream time
of the store survives restarts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog
from millrace.state.contents import StoreRecord
from millrace.state.layout import Int64Array, Packed, unpack_value, unpack_values
from millrace.state.merge import merge_overlay
from millrace.state.read_cache import ReadCache
from millrace.state.segmented import SegmentedStore
from millrace.state.versioned_layout import (
    HistorySegments,
    history_prefix,
    key_of_history_row,
    key_of_latest_row,
    latest_row,
    latest_rows,
    packed_latest,
    read_history_row,
    rows_of,
    segment_rows,
    time_rows,
)
from millrace.state.versions import VersionedRecord, Versions
from millrace.topology.state_stores import NOT_PUT

_NOTHING_LOADED = 2**62


class _Entry:
    """The loaded versions of a key: the newest value, and the history back to a segment.

    Args:
        key: the key.
        latest: the newest value as the database has it.
    """

    def __init__(self, key: bytes, latest: Packed) -> None:
        self.key = key
        self.loaded_from = _NOTHING_LOADED
        self.versions = Versions()
        if latest is not None:
            value, timestamp = unpack_value(latest)
            self.versions = Versions([timestamp], [value])
        self.committed = self.versions.copy()

    def copy(self) -> _Entry:
        """Returns an independent copy."""
        copied = _Entry(self.key, None)
        copied.loaded_from = self.loaded_from
        copied.versions, copied.committed = self.versions.copy(), self.committed.copy()
        return copied

    def add_older(self, older: list[tuple[int, bytes | None]], segment: int) -> None:
        """Adds versions that end before all loaded ones, back to ``segment``, in the order of their ends."""
        self.loaded_from = segment
        for versions in (self.versions, self.committed):
            known = {time for time, value in older if value is not None}.union(versions.times)
            newest = versions.times[-1] if versions.times and versions.values[-1] is not None else None
            if any(value is None and time == newest for time, value in older):
                versions.ends_tombstone = True
            # A tombstone of the same timestamp as a value is one that the value has replaced.
            added = [(time, value) for time, value in older if value is not None or time not in known]
            versions.times[:0] = [time for time, _ in added]
            versions.values[:0] = [value for _, value in added]


class VersionedKeyValueStore(SegmentedStore[HistorySegments]):
    """Versions by key in layers: an overlay of changed keys, a cache of newest values, bytes store. Not thread-safe.

    Lists and arrays that are passed in are kept by reference until the next drain and commit: do not change them.

    Args:
        name: name of the store.
        committed: the bytes store.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
        segments: history retention and segments, as the database has them.
        read_cache_bytes: memory of the cache.
    """

    def __init__(
        self,
        name: str,
        committed: BytesStore,
        *,
        changelog: Changelog | None,
        segments: HistorySegments,
        read_cache_bytes: int,
    ) -> None:
        super().__init__(name, committed, changelog, segments)
        self._cache = ReadCache(budget_bytes=read_cache_bytes, complete=committed.is_empty())
        self._overlay: dict[bytes, _Entry] = {}

    @property
    def observed_stream_time(self) -> int:
        """Largest timestamp that was ever put, milliseconds; -1 before the first. Survives restarts."""
        return self._segments.observed_stream_time

    @property
    def history_retention_ms(self) -> int:
        """The history retention, milliseconds: how far behind stream time a version may be put or read."""
        return self._segments.retention_ms

    @property
    def has_uncommitted_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._overlay) or self._segments != self._committed_segments

    # ---- reading

    def get(self, key: bytes, as_of: int | None = None) -> VersionedRecord | None:
        """Returns the newest version of a key, or the one that is valid at ``as_of``, milliseconds.

        ``None`` where the key has no value then, or ``as_of`` is further back than the history retention and the newest
        version is younger.
        """
        self._metrics.gets += 1
        entry = self._entry(key)
        return entry.versions.latest() if as_of is None else self._as_of(entry, as_of, self.observed_stream_time)

    def latest_many(self, keys: Sequence[bytes]) -> tuple[list[bytes | None], Int64Array]:
        """Returns the newest values and their timestamps (-1 without a value) of ``keys``, in their order."""
        self._metrics.gets += len(keys)
        changed = [self._overlay.get(key) for key in keys]
        committed = iter(self._read_latest([key for key, entry in zip(keys, changed, strict=True) if entry is None]))
        return unpack_values([next(committed) if entry is None else packed_latest(entry.versions) for entry in changed])

    def get_many_at(
        self, keys: Sequence[bytes], times: Sequence[int] | None, observed: Sequence[int]
    ) -> list[VersionedRecord | None]:
        """Returns the version of each key at a time, for the stream time of each in ``observed``, milliseconds.

        Args:
            keys: the keys.
            times: a time for each key, milliseconds; ``None`` takes the newest versions.
            observed: stream time for each key.
        """
        self._metrics.gets += len(keys)
        absent = [key for key in dict.fromkeys(keys) if key not in self._overlay]
        entries = {key: _Entry(key, packed) for key, packed in zip(absent, self._read_latest(absent), strict=True)}
        found = [self._overlay.get(key) or entries[key] for key in keys]
        if times is None:
            return [entry.versions.latest() for entry in found]
        return [self._as_of(entry, time, seen) for entry, time, seen in zip(found, times, observed, strict=True)]

    def versions(self, key: bytes, from_time: int, to_time: int) -> list[VersionedRecord]:
        """Returns the versions of a key valid at some time within the bounds (milliseconds, both inclusive), by time.

        What is further back than the history retention is left out, unless the newest version is.
        """
        self._metrics.gets += 1
        entry = self._entry(key)
        oldest = self.observed_stream_time - self.history_retention_ms
        if to_time < oldest:
            latest = entry.versions.latest()
            return [] if latest is None or latest.timestamp > to_time else [latest]
        from_time = max(from_time, oldest)
        self._load(entry, self._segments.segment_of(max(from_time, 0)))
        return entry.versions.between(from_time, to_time)

    def all(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields (key, newest value, timestamp) of every key that has one, in the order of the key bytes."""
        written: dict[bytes, Packed] = {
            latest_row(key): packed_latest(entry.versions) for key, entry in self._overlay.items()
        }
        for row, packed in merge_overlay(self._committed.scan(*latest_rows()), written):
            yield key_of_latest_row(row), *unpack_value(packed)

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of versions; uncommitted keys count as new ones."""
        return self._committed.size()[0] + len(self._overlay)

    # ---- writing

    def put_many(self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Int64Array) -> Int64Array:
        """Puts versions, one after the other; ``None`` deletes from its timestamp on.

        Returns:
            for each the timestamp of the next version of its key; ``VALID_TO_UNDEFINED`` where it is the newest one,
            ``NOT_PUT`` where it is older than the history retention and was dropped.
        """
        self._metrics.puts += len(keys)
        if self._changelog is not None:
            # As in Kafka Streams the changelog has what is dropped as well.
            self._changelog.append(keys, values, timestamps)
        codes = self._apply(keys, values, timestamps)
        self._metrics.expired += int((codes == NOT_PUT).sum())
        return codes

    def are_newest(self, keys: Sequence[bytes], timestamps: Sequence[int]) -> bool:
        """Returns whether a put of each key at its timestamp (milliseconds) would become the key's newest version."""
        absent = [key for key in dict.fromkeys(keys) if key not in self._overlay]
        entries = {key: _Entry(key, packed) for key, packed in zip(absent, self._read_latest(absent), strict=True)}
        for key, timestamp in zip(keys, timestamps, strict=True):
            entry = self._overlay.get(key) or entries[key]
            if not entry.versions.times:
                self._load(entry, self._segments.segment_of(timestamp))
            if entry.versions.times and entry.versions.times[-1] > timestamp:
                return False
        return True

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord | None:
        """Deletes a key from ``timestamp`` on (milliseconds); returns the version that was valid there.

        ``None`` also where the timestamp is older than the history retention, so that nothing was deleted.
        """
        before = None if self._segments.is_expired(timestamp) else self.get(key, timestamp)
        self.put_many([key], [None], np.array([timestamp], dtype=np.int64))
        return before

    def snapshot(self, keys: Sequence[bytes]) -> VersionedSnapshot:
        """Returns the current state of the store, for keys that are about to be changed.

        It is valid until the next commit or rollback.
        """
        changed = {key: entry.copy() for key in keys if (entry := self._overlay.get(key)) is not None}
        return VersionedSnapshot(self, changed, self._segments)

    # ---- commit and restoration

    def records(self) -> Iterator[StoreRecord]:
        """Returns every unexpired committed version, by timestamp, so that none is too old when it is put again.

        All of them are in memory for that.
        """
        found = [
            (key_of_latest_row(row), *unpack_value(packed)) for row, packed in self._committed.scan(*latest_rows())
        ]
        versions: list[StoreRecord] = [*found]
        for row, content in self._committed.scan(segment_rows(self._committed_segments.first_live, 0)[0]):
            timestamp, value = read_history_row(row, content)
            versions.append((key_of_history_row(row), value, timestamp))
        # A tombstone of the timestamp of a value was put before it.
        versions.sort(key=lambda version: (version[2], version[1] is not None))
        return iter(versions)

    def stage(self, batch: Any) -> bytes | None:
        """Adds the overlay and the deletion of expired segments to a commit; returns the metadata if it changed."""
        if self._segments.first_live > self._segments.first_kept:
            self._committed.stage_delete_range(
                batch, *segment_rows(self._segments.first_kept, self._segments.first_live)
            )
        changes: dict[bytes, Packed] = {}
        for key, entry in self._overlay.items():
            before = rows_of(key, entry.committed, self._segments)
            after = rows_of(key, entry.versions, self._segments)
            changes.update(dict.fromkeys(before.keys() - after.keys()))
            changes.update((row, content) for row, content in after.items() if before.get(row) != content)
        if changes:
            rows = sorted(changes)
            self._committed.stage(batch, rows, list(map(changes.__getitem__, rows)))
        return self._metadata()

    def committed(self) -> None:
        """Makes the overlay committed data, after the commit has succeeded."""
        self._committed.apply_staged()
        self._settle()
        if self._overlay:
            self._cache.merge({key: packed_latest(entry.versions) for key, entry in self._overlay.items()})
            self._overlay = {}

    def rollback(self) -> None:
        """Discards the uncommitted writes."""
        super().rollback()
        self._overlay = {}

    def stage_restored(
        self, batch: Any, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array
    ) -> tuple[int, bytes | None]:
        """Adds changelog records to a commit, in their order and without logging.

        Returns:
            how many were taken (what came too late when it was put is skipped again), and metadata to keep if it
            changed.
        """
        codes = self._apply(keys, values, timestamps)
        return int((codes != NOT_PUT).sum()), self.stage(batch)

    # ---- the history of a key

    def _apply(self, keys: Sequence[bytes], values: Sequence[bytes | None], timestamps: Int64Array) -> Int64Array:
        unknown = [key for key in dict.fromkeys(keys) if key not in self._overlay]
        read = dict(zip(unknown, self._read_latest(unknown), strict=True))
        codes: list[int] = []
        segments = self._segments
        for key, value, timestamp in zip(keys, values, timestamps.tolist(), strict=True):
            if segments.is_expired(timestamp):
                codes.append(NOT_PUT)
                continue
            segments = self._segments = segments.after(timestamp)
            entry = self._overlay.get(key)
            if entry is None:
                entry = self._overlay[key] = _Entry(key, read[key])
            codes.append(self._put(entry, value, timestamp))
        return np.array(codes, dtype=np.int64)

    def _put(self, entry: _Entry, value: bytes | None, timestamp: int) -> int:
        times = entry.versions.times
        # Ahead of all that is known nothing else matters, unless a tombstone takes the place of a value.
        if not times or timestamp < times[-1] or (timestamp == times[-1] and value is None):
            self._load(entry, self._segments.segment_of(timestamp))
        return entry.versions.put(value, timestamp)

    def _as_of(self, entry: _Entry, time: int, observed_stream_time: int) -> VersionedRecord | None:
        latest = entry.versions.latest()
        if latest is not None and latest.timestamp <= time:
            return latest
        if time < observed_stream_time - self._segments.retention_ms:
            return None
        self._load(entry, self._segments.segment_of(max(time, 0)))
        return entry.versions.as_of(time)

    def _entry(self, key: bytes) -> _Entry:
        changed = self._overlay.get(key)
        return changed if changed is not None else _Entry(key, self._read_latest([key])[0])

    def _load(self, entry: _Entry, segment: int) -> None:
        """Loads the history of an entry, back to a segment."""
        first = max(segment, self._committed_segments.first_live)
        newest = self._committed_segments.segment_of(max(self._committed_segments.observed_stream_time, 0))
        if first >= entry.loaded_from:
            return
        older: list[tuple[int, bytes | None]] = []
        for number in range(first, min(newest + 1, entry.loaded_from)):
            self._metrics.database_reads += 1
            scanned = self._committed.scan(*time_rows(history_prefix(number, entry.key)))
            older += [read_history_row(row, content) for row, content in scanned]
        entry.add_older(older, first)

    def _read_latest(self, keys: Sequence[bytes]) -> list[Packed]:
        """Returns the newest committed local values: from the cache, else the bytes store."""
        young, old = self._cache.generations()
        found: dict[bytes, Packed] = {}
        missing: list[bytes] = []
        for key in keys:
            if key in young:
                found[key] = young[key]
            elif key in old:
                found[key] = old[key]
            else:
                missing.append(key)
        if missing and not self._cache.complete:
            self._metrics.database_reads += len(missing)
            read = self._committed.get_many([latest_row(key) for key in missing])
            found.update(zip(missing, read, strict=True))
            self._cache.add(missing, read)
        return [found.get(key) for key in keys]


class VersionedSnapshot:
    """A versioned store as it was before a batch changed it, to process the batch's changes once more.

    Args:
        store: the store.
        changed: the keys that had uncommitted changes before the batch.
        segments: segments and stream time before the batch.
    """

    def __init__(self, store: VersionedKeyValueStore, changed: dict[bytes, _Entry], segments: HistorySegments) -> None:
        self._store = store
        self._changed = changed
        self._segments = segments

    @property
    def observed_stream_time(self) -> int:
        """Stream time of the store before the batch, milliseconds; -1 before the first put."""
        return self._segments.observed_stream_time

    def replay(self, key: bytes) -> KeyReplay:
        """Returns a copy of a key's history before the batch, for puts and reads that do not change the store."""
        entry = self._changed.get(key)
        if entry is None:
            entry = _Entry(key, self._store._read_latest([key])[0])
        return KeyReplay(self._store, entry.copy())


class KeyReplay:
    """A copy of the history of one key, independent of the store."""

    def __init__(self, store: VersionedKeyValueStore, entry: _Entry) -> None:
        self._store = store
        self._entry = entry

    def put(self, value: bytes | None, timestamp: int) -> None:
        """Puts a version that the store has accepted."""
        self._store._put(self._entry, value, timestamp)

    def get(self, as_of: int | None, observed_stream_time: int) -> VersionedRecord | None:
        """Returns the newest version or the one at ``as_of``; stream time is ``observed_stream_time``, milliseconds."""
        if as_of is None:
            return self._entry.versions.latest()
        return self._store._as_of(self._entry, as_of, observed_stream_time)
