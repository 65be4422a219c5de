"""The session store: the sorted sessions of recently used keys, over committed bytes by the segment of their end."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog, ChangelogBatch
from millrace.state.layout import (
    SEGMENT_BYTES,
    Int64Array,
    Packed,
    big_endian,
    pack_values,
    packed_bytes,
    unpack_value,
)
from millrace.state.merge import merge_overlay
from millrace.state.read_cache import ENTRY_OVERHEAD_BYTES
from millrace.state.segmented import SegmentedStore
from millrace.state.segments import Segments
from millrace.state.stores import Session

SESSION_SUFFIX_BYTES: Final = 16
_MAX_TIME: Final = 2**63 - 1

T = TypeVar("T")
_SortKey = tuple[int, int]
"""End and start of a session: the order of the sessions of a key."""


def session_key(key: bytes, start: int, end: int) -> bytes:
    """Returns a session's key in a changelog: key bytes, 8-byte end, 8-byte start (Kafka's ``SessionKeySchema``)."""
    return key + big_endian(end) + big_endian(start)


def session_bounds(key: bytes) -> tuple[int, int]:
    """Returns the start and end of a session, milliseconds, from its key."""
    return int.from_bytes(key[-8:], "big", signed=True), int.from_bytes(key[-16:-8], "big", signed=True)


class _Sessions:
    """All sessions of one key, uncommitted ones included, in order."""

    __slots__ = ("packed", "sorted_keys")

    def __init__(self) -> None:
        self.sorted_keys: list[_SortKey] = []
        self.packed: dict[_SortKey, bytes] = {}

    def put(self, key: _SortKey, packed: bytes) -> bool:
        """Adds or replaces a session; returns whether it is a new one."""
        is_new = key not in self.packed
        if is_new:
            insort(self.sorted_keys, key)
        self.packed[key] = packed
        return is_new

    def remove(self, key: _SortKey) -> bool:
        """Removes a session; returns whether there was one."""
        if self.packed.pop(key, None) is None:
            return False
        del self.sorted_keys[bisect_left(self.sorted_keys, key)]
        return True


class _Pending(Generic[T]):
    """Writes of which only the last of each session counts; a session that was added and removed leaves nothing."""

    def __init__(self) -> None:
        self.writes: dict[bytes, T] = {}
        self._born: set[bytes] = set()

    def put(self, key: bytes, value: T, *, is_new: bool) -> None:
        """Adds a write; ``is_new`` if the session did not exist just before."""
        if is_new and key not in self.writes:
            self._born.add(key)
        self.writes.pop(key, None)
        self.writes[key] = value

    def remove(self, key: bytes, removal: T) -> None:
        """Adds a removal as ``removal``, or drops a session that was added since the last :meth:`take`."""
        self.writes.pop(key, None)
        if key in self._born:
            self._born.discard(key)
        else:
            self.writes[key] = removal

    def take(self) -> dict[bytes, T]:
        """Returns the writes, in the order of each session's last one, and clears them."""
        writes, self.writes, self._born = self.writes, {}, set()
        return writes


class LayeredSessionStore(SegmentedStore[Segments]):
    """A :class:`~millrace.state.stores.SessionStore` in layers: sessions of recently used keys, overlay, bytes store.

    A session that is made and merged into another one between two commits reaches neither the database nor, where the
    store is cached, the changelog.

    Args:
        name: name of the store.
        committed: the bytes store; its keys are the segment's number and the session key.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
        cached: whether only the last write of each session is drained.
        segments: retention, and the newest end as the database has it.
        read_cache_bytes: memory for keys' sessions that are kept after a commit.
    """

    def __init__(
        self,
        name: str,
        committed: BytesStore,
        *,
        changelog: Changelog | None,
        cached: bool,
        segments: Segments,
        read_cache_bytes: int,
    ) -> None:
        super().__init__(name, committed, changelog, segments)
        self._cached = cached
        self._budget = read_cache_bytes
        self._known: dict[bytes, _Sessions] = {}
        # Whether a key that is not in _known has no session.
        self._is_complete = committed.is_empty()
        self._used_bytes = 0
        self._overlay: _Pending[Packed] = _Pending()
        self._unlogged: _Pending[tuple[bytes | None, int]] = _Pending()
        self._written_keys: set[bytes] = set()

    @property
    def observed_stream_time(self) -> int:
        """Newest end of a session that was ever written, milliseconds; -1 before the first."""
        return self._segments.observed_stream_time

    @property
    def has_uncommitted_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._written_keys) or self._segments != self._committed_segments

    def find_sessions(self, key: bytes, earliest_end: int, latest_start: int) -> list[Session]:
        """Returns the key's sessions that end at or after ``earliest_end`` and start at or before ``latest_start``."""
        self._metrics.gets += 1
        sessions = self._sessions(key)
        first = max(earliest_end, self._segments.first_readable_start)
        sorted_keys = sessions.sorted_keys
        return [
            Session(start, end, *unpack_value(sessions.packed[end, start]))
            for end, start in sorted_keys[bisect_left(sorted_keys, (first, -1)) :]
            if start <= latest_start
        ]

    def fetch_session(self, key: bytes, start: int, end: int) -> tuple[bytes, int] | None:
        """Returns the value and timestamp of one session."""
        self._metrics.gets += 1
        if end < self._segments.first_readable_start:
            return None
        packed = self._sessions(key).packed.get((end, start))
        return None if packed is None else unpack_value(packed)

    def put_many(
        self,
        keys: Sequence[bytes],
        starts: Sequence[int],
        ends: Sequence[int],
        values: Sequence[bytes | None],
        timestamps: Int64Array,
    ) -> Int64Array:
        """Writes sessions, in this order; ``None`` removes one. Returns the indices of those in expired segments."""
        self._metrics.puts += len(keys)
        interval, retention = self._segments.interval_ms, self._segments.retention_ms
        observed, first_live = self._segments.observed_stream_time, self._segments.first_live
        stamps: list[int] = timestamps.tolist()
        packed_values = pack_values(values, timestamps)
        expired: list[int] = []
        for row, (key, start, end, packed) in enumerate(zip(keys, starts, ends, packed_values, strict=True)):
            if end > observed:
                observed = end
                first_live = max(end - retention, 0) // interval
            segment = end // interval
            if segment < first_live:
                expired.append(row)
                continue
            changelog_key = session_key(key, start, end)
            is_new = self._write(key, (end, start), big_endian(segment) + changelog_key, packed)
            if self._changelog is None:
                continue
            if not self._cached:
                self._changelog.append([changelog_key], [values[row]], timestamps[row : row + 1])
            elif packed is None:
                self._unlogged.remove(changelog_key, (None, stamps[row]))
            else:
                self._unlogged.put(changelog_key, (values[row], stamps[row]), is_new=is_new)
        self._segments = self._segments.after(observed)
        self._metrics.expired += len(expired)
        return np.array(expired, dtype=np.int64)

    def peek(self, key: bytes, start: int, end: int) -> bytes | None:
        """Returns the value of a session, even if it has expired since the last commit."""
        self._metrics.gets += 1
        local = big_endian(self._segments.segment_of(end)) + session_key(key, start, end)
        packed = self._overlay.writes[local] if local in self._overlay.writes else self._committed.get(local)
        return None if packed is None else unpack_value(packed)[0]

    def keys_from(self, earliest_end: int) -> Iterator[tuple[bytes, int, int]]:
        """Yields (key, start, end) of the sessions that end at or after ``earliest_end``; expired ones while stored."""
        for key, session in self._ended_between(max(earliest_end, 0), self._segments.observed_stream_time):
            yield key, session.start, session.end

    def find_ended(self, earliest_end: int, latest_end: int) -> Iterator[tuple[bytes, Session]]:
        """Yields (key, session) of every key's sessions that end in the range, by segment, key, end and start."""
        first = max(earliest_end, self._segments.first_readable_start, 0)
        return self._ended_between(first, min(latest_end, self._segments.observed_stream_time))

    def _ended_between(self, first: int, last: int) -> Iterator[tuple[bytes, Session]]:
        if last < first:
            return
        begin = big_endian(self._segments.segment_of(first))
        end = big_endian(self._segments.segment_of(last) + 1)
        written = {local: packed for local, packed in self._overlay.writes.items() if begin <= local < end}
        for local, packed in merge_overlay(self._committed.scan(begin, end), written):
            session_start, session_end = session_bounds(local)
            if first <= session_end <= last:
                yield (
                    local[SEGMENT_BYTES:-SESSION_SUFFIX_BYTES],
                    Session(session_start, session_end, *unpack_value(packed)),
                )

    def all(self) -> Iterator[tuple[bytes, Session]]:
        """Yields (key, session) of all unexpired sessions, by segment, key, end and start."""
        return self.find_ended(0, _MAX_TIME)

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of sessions; uncommitted writes count as new ones."""
        return self._committed.size()[0] + len(self._overlay.writes)

    def drain_changelog(self) -> ChangelogBatch | None:
        """Returns the writes since the last drain."""
        if self._changelog is None or not self._cached:
            return super().drain_changelog()
        writes = self._unlogged.take()
        if not writes:
            return None
        return ChangelogBatch(
            store=self._name,
            keys=list(writes),
            values=[value for value, _ in writes.values()],
            timestamps=np.array([timestamp for _, timestamp in writes.values()], dtype=np.int64),
        )

    @property
    def has_undrained_writes(self) -> bool:
        """Whether there are writes to drain."""
        return bool(self._unlogged.writes) or super().has_undrained_writes

    def uncommitted_bytes(self) -> int:
        """Returns the bytes of the overlay's keys, with their sessions, and values."""
        return packed_bytes(self._overlay.writes)

    def stage(self, batch: Any) -> bytes | None:
        """Adds the overlay and the deletion of expired segments to a commit; returns the metadata if it changed."""
        expired = self._segments.expired_range()
        if expired is not None:
            self._committed.stage_delete_range(batch, *expired)
        first_live = big_endian(self._segments.first_live)
        keys = sorted(key for key in self._overlay.writes if key[:SEGMENT_BYTES] >= first_live)
        if keys:
            self._committed.stage(batch, keys, list(map(self._overlay.writes.__getitem__, keys)))
        return self._metadata()

    def committed(self) -> None:
        """Makes the overlay committed data, after the commit has succeeded."""
        self._committed.apply_staged()
        moved = self._segments.first_live > self._committed_segments.first_live
        self._settle()
        self._overlay.take()
        self._written_keys = set()
        if moved:
            self._discard_expired()
        if self._used_bytes > self._budget:
            self._shrink()

    def rollback(self) -> None:
        """Discards the uncommitted writes."""
        super().rollback()
        self._overlay.take()
        self._unlogged.take()
        for key in self._written_keys:
            self._discard(key)
        self._is_complete = self._is_complete and not self._written_keys
        self._written_keys = set()

    def stage_restored(
        self, batch: Any, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array
    ) -> tuple[int, bytes | None]:
        """Adds changelog records to a commit, without overlay and logging.

        Returns:
            how many were taken (records of expired sessions are skipped), and metadata to keep if it changed.
        """
        ends = [session_bounds(key)[1] for key in keys]
        # As in Kafka Streams the whole batch moves stream time before its records are judged.
        self._segments = self._segments.after(max(ends))
        segments = [self._segments.segment_of(end) for end in ends]
        latest = {
            big_endian(segment) + key: packed
            for key, segment, packed in zip(keys, segments, pack_values(values, timestamps), strict=True)
            if segment >= self._segments.first_live
        }
        ordered = sorted(latest)
        self._committed.stage(batch, ordered, list(map(latest.__getitem__, ordered)))
        self._known.clear()
        self._used_bytes, self._is_complete = 0, False
        return sum(segment >= self._segments.first_live for segment in segments), self.stage(batch)

    def _write(self, key: bytes, sort_key: _SortKey, local: bytes, packed: Packed) -> bool:
        """Changes one session; returns whether it is a new one."""
        sessions = self._sessions(key)
        self._written_keys.add(key)
        if packed is None:
            if sessions.remove(sort_key):
                self._used_bytes -= _entry_bytes(local)
            self._overlay.remove(local, None)
            return False
        is_new = sessions.put(sort_key, packed)
        if is_new:
            self._used_bytes += _entry_bytes(local)
        self._overlay.put(local, packed, is_new=is_new)
        return is_new

    def _sessions(self, key: bytes) -> _Sessions:
        """Returns the sessions of a key, read from the database if they are not in memory."""
        known = self._known.get(key)
        if known is not None:
            return known
        known = self._known[key] = _Sessions()
        if not self._is_complete:
            self._metrics.database_reads += 1
            for local, packed in self._scan(key):
                start, end = session_bounds(local)
                known.put((end, start), packed)
                self._used_bytes += _entry_bytes(local)
        return known

    def _scan(self, key: bytes) -> Iterator[tuple[bytes, bytes]]:
        segments = self._committed_segments
        first = max(segments.first_readable_start, 0)
        length = SEGMENT_BYTES + len(key) + SESSION_SUFFIX_BYTES
        for segment in range(
            segments.segment_of(first), segments.segment_of(max(segments.observed_stream_time, 0)) + 1
        ):
            prefix = big_endian(segment) + key
            before = prefix + big_endian(_MAX_TIME) + big_endian(_MAX_TIME) + b"\0"
            for local, packed in self._committed.scan(prefix + big_endian(first), before):
                # Longer keys that begin with this one lie between its sessions.
                if len(local) == length:
                    yield local, packed

    def _discard(self, key: bytes) -> None:
        sessions = self._known.pop(key, None)
        if sessions is not None:
            self._used_bytes -= len(sessions.sorted_keys) * _entry_bytes(key, SEGMENT_BYTES + SESSION_SUFFIX_BYTES)

    def _discard_expired(self) -> None:
        """Discards sessions from memory that have expired for readers, and keys without sessions."""
        first = self._segments.first_readable_start
        for key, sessions in list(self._known.items()):
            expired = sessions.sorted_keys[: bisect_left(sessions.sorted_keys, (first, -1))]
            for sort_key in expired:
                sessions.remove(sort_key)
            self._used_bytes -= len(expired) * _entry_bytes(key, SEGMENT_BYTES + SESSION_SUFFIX_BYTES)
            if not sessions.sorted_keys:
                del self._known[key]

    def _shrink(self) -> None:
        """Discards the keys that were read first, until half of the memory is free."""
        for key in list(self._known):
            if self._used_bytes <= self._budget // 2:
                return
            self._discard(key)
            self._is_complete = False


def _entry_bytes(key: bytes, more: int = 0) -> int:
    return ENTRY_OVERHEAD_BYTES + len(key) + more
