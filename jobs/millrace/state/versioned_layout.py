"""The layout of a versioned store in the local database: the newest values by key, and the history by segment.

A newest value is a row of a 0 byte and the key, whose content is that of a key-value store. Every other version is a
row of a 1 byte, the 8-byte number of a segment, the 4-byte length of the key, the key and the 8-byte timestamp; its
content is the 8-byte timestamp of the next version and the value. A version belongs to the segment in which it ends, so
that a segment is dropped as a whole once nothing of it can be asked for. A tombstone is a row with one byte of content
in the segment of its own timestamp, also one that the newest value has replaced and ends. Only the changelog has the
layout of Kafka Streams; locally that one keeps all versions of a key and segment in one row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from millrace.state.layout import SEGMENT_BYTES, Packed, big_endian
from millrace.state.segments import Segments
from millrace.state.versions import Versions

_LATEST = b"\0"
_HISTORY = b"\1"
_TOMBSTONE = b"\0"
_LENGTH = struct.Struct(">I")
_TIME = struct.Struct(">q")


@dataclass(frozen=True, kw_only=True)
class HistorySegments(Segments):
    """The stream time and live segments of a versioned store; ``retention_ms`` is its history retention.

    Args:
        segment_interval_ms: length of a segment.
    """

    segment_interval_ms: int

    def is_expired(self, timestamp: int) -> bool:
        """Returns whether a version of this timestamp is too old to be put, as a query of this time is too old."""
        return timestamp < self.observed_stream_time - self.retention_ms


def latest_row(key: bytes) -> bytes:
    """Returns the row of the newest value of ``key``."""
    return _LATEST + key


def latest_rows() -> tuple[bytes, bytes]:
    """Returns the first row of all newest values, and the first row after them."""
    return _LATEST, _HISTORY


def key_of_latest_row(row: bytes) -> bytes:
    """Returns the key of a newest value."""
    return row[len(_LATEST) :]


def segment_rows(segment: int, before: int) -> tuple[bytes, bytes]:
    """Returns the first row of a range of segments, and the first row after it."""
    return _HISTORY + big_endian(segment), _HISTORY + big_endian(before)


def history_prefix(segment: int, key: bytes) -> bytes:
    """Returns the prefix of a key's rows in a segment."""
    return _HISTORY + big_endian(segment) + _LENGTH.pack(len(key)) + key


def time_rows(prefix: bytes) -> tuple[bytes, bytes]:
    """Returns the range of the rows with a history prefix: the first row, and the first one after them."""
    return prefix, prefix + b"\xff" * (_TIME.size + 1)


def key_of_history_row(row: bytes) -> bytes:
    """Returns the key of a version in the history."""
    return row[len(_HISTORY) + SEGMENT_BYTES + _LENGTH.size : -_TIME.size]


def read_history_row(row: bytes, content: bytes) -> tuple[int, bytes | None]:
    """Returns the timestamp and value of a version in the history."""
    timestamp: int = _TIME.unpack(row[-_TIME.size :])[0]
    return timestamp, None if content == _TOMBSTONE else content[_TIME.size :]


def packed_latest(versions: Versions) -> Packed:
    """Returns the content of the row of a key's newest value; ``None`` if it has none."""
    if not versions.times or (value := versions.values[-1]) is None:
        return None
    return _TIME.pack(versions.times[-1]) + value


def rows_of(key: bytes, versions: Versions, segments: HistorySegments) -> dict[bytes, bytes]:
    """Returns all rows of the versions of a key, without those of expired segments."""
    rows: dict[bytes, bytes] = {}
    first_live = segments.first_live
    last = len(versions.times) - 1
    for index, (timestamp, value) in enumerate(zip(versions.times, versions.values, strict=True)):
        if index == last and value is not None:
            rows[latest_row(key)] = _TIME.pack(timestamp) + value
            if not versions.ends_tombstone:
                continue
        is_tombstone = value is None or index == last
        ends_at = timestamp if is_tombstone else versions.times[index + 1]
        segment = segments.segment_of(ends_at)
        if segment >= first_live:
            content = _TOMBSTONE if value is None or is_tombstone else _TIME.pack(ends_at) + value
            rows[history_prefix(segment, key) + _TIME.pack(timestamp)] = content
    return rows
