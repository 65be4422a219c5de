"""The buffer of one side of a stream-stream join: a window store in which every write adds an entry.

Window keys end in a sequence number where other window stores have 0, here and in the changelog, as in Kafka Streams'
``RocksDBWindowStore`` with ``retainDuplicates``. Unlike there the number survives restarts and restoration, so that no
later write replaces an earlier one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from millrace.state.bytes_store import BytesStore
from millrace.state.changelog import Changelog
from millrace.state.contents import StoreRecord
from millrace.state.layered import LayeredStore
from millrace.state.layout import (
    SEGMENT_BYTES,
    WINDOW_SUFFIX_BYTES,
    Int64Array,
    Packed,
    big_endian,
    pack_values,
    prefixed_window_keys,
    unpack_value,
    window_start,
    window_starts,
)
from millrace.state.merge import merge_overlay
from millrace.state.segments import Segments

SEQUENCE_MASK = 0x7FFFFFFF
_SEQUENCE = struct.Struct(">i")
_SUFFIX = struct.Struct(">qi")


@dataclass
class JoinEntries:
    """Entries of one key in the order in which a join processes them: by timestamp, then by their writes.

    Args:
        times: timestamps, milliseconds, ascending.
        values: value bytes.
    """

    times: list[int] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)


class JoinWindowStore(LayeredStore):
    """Values by key and timestamp; a key may have several at a timestamp. Not thread-safe.

    Lists and arrays that are passed in are kept by reference until the next drain and commit: do not change them.

    Args:
        name: name of the store.
        committed: the bytes store, with local window keys.
        changelog: what the writes are remembered in, ``None`` where the store is not logged.
        segments: the store's retention.
        metadata: what :meth:`stage` returned for the last commit.
    """

    def __init__(
        self,
        name: str,
        committed: BytesStore,
        *,
        changelog: Changelog | None,
        segments: Segments,
        metadata: bytes | None,
    ) -> None:
        super().__init__(name, committed, changelog)
        self._sequence = 0
        if metadata is not None:
            self._sequence = _SEQUENCE.unpack(metadata[-_SEQUENCE.size :])[0]
            segments = segments.restored(metadata[: -_SEQUENCE.size])
        self._segments = segments
        self._committed_as = (segments, self._sequence)
        self._overlay: dict[bytes, list[tuple[bytes, bytes]]] = {}
        self._committed_expired = 0
        self._is_empty = committed.is_empty()

    @property
    def observed_stream_time(self) -> int:
        """Largest timestamp of the written values, milliseconds; -1 before the first. Survives restarts."""
        return self._segments.observed_stream_time

    @property
    def observes_tombstones(self) -> bool:
        """Whether a write without a value advances the observed stream time: in memory, as in Kafka Streams."""
        return self._segments.exact

    @property
    def retention_ms(self) -> int:
        """The retention in milliseconds: an entry can be joined while its timestamp is above stream time minus this."""
        return self._segments.retention_ms

    @property
    def has_uncommitted_writes(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._overlay) or (self._segments, self._sequence) != self._committed_as

    def fetch_many(self, keys: Sequence[bytes], from_time: int, to_time: int) -> list[JoinEntries]:
        """Returns the entries of each key with a timestamp in ``[from_time, to_time]``, without expired ones."""
        self._metrics.gets += len(keys)
        first = max(from_time, self._segments.first_readable_start, 0)
        last = min(to_time, self._segments.observed_stream_time)
        if last < first or (self._is_empty and not self._overlay):
            return [JoinEntries() for _ in keys]
        segments = range(self._segments.segment_of(first), self._segments.segment_of(last) + 1)
        return [self._fetch(key, first, last, segments) for key in keys]

    def put_many(self, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array) -> Int64Array:
        """Writes entries, in their order.

        A value of ``None`` is no entry: as in Kafka Streams it is a tombstone in the changelog, and nothing here but
        where :attr:`observes_tombstones` says so.

        Returns:
            the indices of those that fell into expired segments and are not kept (the changelog has them, as in Kafka
            Streams).
        """
        none = np.empty(0, dtype=np.int64)
        if not keys:
            return none
        self._metrics.puts += len(keys)
        first, self._sequence = self._sequence + 1, (self._sequence + len(keys)) & SEQUENCE_MASK
        suffixes = [_SUFFIX.pack(time, (first + row) & SEQUENCE_MASK) for row, time in enumerate(timestamps.tolist())]
        if self._changelog is not None:
            window_keys = [key + suffix for key, suffix in zip(keys, suffixes, strict=True)]
            self._changelog.append(window_keys, values, timestamps, new_keys=len(keys))
        rows = np.flatnonzero(self._observed(values))
        if not len(rows):
            return none
        live = self._segments.live_rows(timestamps[rows])
        self._segments = self._segments.after(int(timestamps[rows].max()))
        kept = rows if live is None else rows[live]
        stamped = pack_values([values[row] for row in kept.tolist()], timestamps[kept])
        for row, value in zip(kept.tolist(), stamped, strict=True):
            if value is not None:
                self._overlay.setdefault(keys[row], []).append((suffixes[row], value))
        expired = none if live is None else rows[~live]
        self._metrics.expired += len(expired)
        return expired

    def all(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields (window key as in the changelog, value, timestamp) of all unexpired entries, by segment and key."""
        written: dict[bytes, Packed] = {
            self._prefix(suffix) + key + suffix: value
            for key, entries in self._overlay.items()
            for suffix, value in entries
        }
        begin = big_endian(max(self._segments.first_live, 0))
        for local_key, packed in merge_overlay(self._committed.scan(begin), written):
            start = window_start(local_key)
            if start >= self._segments.first_readable_start:
                yield local_key[SEGMENT_BYTES:], *unpack_value(packed)

    def records(self) -> Iterator[StoreRecord]:
        """Yields all committed, unexpired records, and a last tombstone from which the sequence number is restored."""
        segments, sequence = self._committed_as
        for local_key, packed in self._committed.scan(big_endian(segments.first_live)):
            yield local_key[SEGMENT_BYTES:], *unpack_value(packed)
        if sequence:
            time = max(segments.observed_stream_time, 0)
            yield _SUFFIX.pack(time, sequence), None, time

    def approximate_num_entries(self) -> int:
        """Returns the approximate number of entries."""
        return self._committed.size()[0] + sum(map(len, self._overlay.values()))

    def stage(self, batch: Any) -> bytes | None:
        """Adds the overlay and the deletion of expired segments to a commit; returns the metadata if it changed."""
        expired = self._segments.expired_range()
        if expired is not None:
            self._committed.stage_delete_range(batch, *expired)
        first_live = big_endian(self._segments.first_live)
        writes = [
            (prefix + key + suffix, value)
            for key, entries in self._overlay.items()
            for suffix, value in entries
            if (prefix := self._prefix(suffix)) >= first_live
        ]
        if writes:
            # In key order RocksDB's write buffer takes them in half of the time.
            writes.sort()
            self._committed.stage(batch, [key for key, _ in writes], [value for _, value in writes])
        after = (self._segments.without_expired(), self._sequence)
        return after[0].to_bytes() + _SEQUENCE.pack(after[1]) if after != self._committed_as else None

    def committed(self) -> None:
        """Makes the overlay committed data, after the commit has succeeded."""
        self._committed.apply_staged()
        self._segments = self._segments.without_expired()
        self._committed_as = (self._segments, self._sequence)
        self._committed_expired = self._metrics.expired
        self._is_empty = self._is_empty and not self._overlay
        self._overlay = {}

    def rollback(self) -> None:
        """Discards the uncommitted writes."""
        self._overlay = {}
        self._segments, self._sequence = self._committed_as
        self._metrics.expired = self._committed_expired
        if self._changelog is not None:
            self._changelog.clear()

    def stage_restored(
        self, batch: Any, keys: list[bytes], values: list[bytes | None], timestamps: Int64Array
    ) -> tuple[int, bytes | None]:
        """Adds changelog records to a commit, without overlay and logging.

        Returns:
            how many were taken (records of expired segments are skipped), and metadata to keep if it changed.
        """
        starts = window_starts(keys)
        self._sequence = _SEQUENCE.unpack(keys[-1][-_SEQUENCE.size :])[0]
        entries = np.fromiter((value is not None for value in values), dtype=bool, count=len(values))
        observed = self._observed(values)
        if observed.any():
            self._segments = self._segments.after(int(starts[observed].max()))
        taken = entries & (starts // self._segments.interval_ms >= self._segments.first_live)
        rows = np.flatnonzero(taken).tolist()
        local_keys = prefixed_window_keys([keys[row] for row in rows], starts[taken], self._segments.segment_of)
        packed = pack_values([values[row] for row in rows], timestamps[taken])
        latest = dict(zip(local_keys, packed, strict=True))
        ordered = sorted(latest)
        self._committed.stage(batch, ordered, list(map(latest.__getitem__, ordered)))
        self._is_empty = self._is_empty and not ordered
        return len(rows), self.stage(batch)

    def _observed(self, values: Sequence[bytes | None]) -> npt.NDArray[np.bool_]:
        """Returns which of the writes advance the observed stream time."""
        every = self.observes_tombstones
        return np.fromiter((every or value is not None for value in values), dtype=bool, count=len(values))

    def _fetch(self, key: bytes, first: int, last: int, segments: range) -> JoinEntries:
        found: list[tuple[bytes, bytes]] = []
        if not self._is_empty:
            begin, end = _SUFFIX.pack(first, 0), _SUFFIX.pack(last, SEQUENCE_MASK) + b"\0"
            for segment in segments:
                prefix = big_endian(segment) + key
                length = len(prefix) + WINDOW_SUFFIX_BYTES
                self._metrics.database_reads += 1
                # Longer keys that begin with this one lie between its entries.
                found += [
                    (local_key[-WINDOW_SUFFIX_BYTES:], packed)
                    for local_key, packed in self._committed.scan(prefix + begin, prefix + end)
                    if len(local_key) == length
                ]
        written = self._overlay.get(key)
        if written is not None:
            found += [entry for entry in written if first <= _SUFFIX.unpack(entry[0])[0] <= last]
            found.sort()
        return JoinEntries(
            [_SUFFIX.unpack(suffix)[0] for suffix, _ in found], [unpack_value(packed)[0] for _, packed in found]
        )

    def _prefix(self, suffix: bytes) -> bytes:
        return big_endian(self._segments.segment_of(_SUFFIX.unpack(suffix)[0]))
