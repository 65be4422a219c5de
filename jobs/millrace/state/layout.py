"""Binary layouts, in bulk: values with their timestamp, window keys in a changelog and in the local database.

A window key in a changelog is key bytes, 8-byte start and 4-byte sequence (0), numbers big-endian, as in Kafka
Streams' ``WindowKeySchema``. Locally the 8-byte number of the segment comes before it, so that a segment is one range.
A local value is the 8-byte timestamp and the value's bytes, as in Kafka Streams' ``ValueAndTimestampSerializer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Packed = bytes | None
"""A local value, or ``None`` for a key that is deleted or was never there."""

NO_TIMESTAMP = -1
TIMESTAMP_BYTES = 8
SEGMENT_BYTES = 8
WINDOW_SUFFIX_BYTES = 12
_SEQUENCE = bytes(4)
_NO_TIMESTAMP_BYTES = NO_TIMESTAMP.to_bytes(8, "big", signed=True)


def big_endian(number: int) -> bytes:
    """Returns ``number`` as 8 bytes, which sort as the (non-negative) numbers do."""
    return number.to_bytes(8, "big", signed=True)


def after_prefix(prefix: bytes) -> bytes | None:
    """Returns the smallest bytes above all that begin with ``prefix``; ``None`` if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


def packed_bytes(entries: Mapping[bytes, Packed]) -> int:
    """Returns the bytes of keys and local values; a deleted key counts with its key only."""
    return sum(map(len, entries)) + sum(map(len, filter(None, entries.values())))


def pack_values(values: Sequence[bytes | None], timestamps: Int64Array) -> list[Packed]:
    """Returns local values: timestamp, then value; ``None`` stays ``None``."""
    # A void view gives 8-byte objects in one call; an S view would cut trailing zero bytes.
    stamps = timestamps.astype(">i8").view("V8").tolist()
    if all(values):
        return [stamp + value for stamp, value in zip(stamps, values, strict=True)]
    return [None if value is None else stamp + value for stamp, value in zip(stamps, values, strict=True)]


def unpack_values(packed: Sequence[Packed]) -> tuple[list[bytes | None], Int64Array]:
    """Returns the values and timestamps of local values; the timestamp of ``None`` is -1."""
    # A packed value is never empty, so its truth says whether it is there.
    values = [data and data[TIMESTAMP_BYTES:] for data in packed]
    joined = b"".join([data[:TIMESTAMP_BYTES] if data else _NO_TIMESTAMP_BYTES for data in packed])
    return values, np.frombuffer(joined, ">i8").astype(np.int64)


def unpack_value(packed: bytes) -> tuple[bytes, int]:
    """Returns the value and timestamp of one local value."""
    return packed[TIMESTAMP_BYTES:], int.from_bytes(packed[:TIMESTAMP_BYTES], "big", signed=True)


def window_suffix(start: int) -> bytes:
    """Returns the suffix that follows the key in a window key."""
    return big_endian(start) + _SEQUENCE


def window_start(window_key: bytes) -> int:
    """Returns the start of the window of a window key, in milliseconds."""
    return int.from_bytes(window_key[-WINDOW_SUFFIX_BYTES:-4], "big", signed=True)


def window_starts(window_keys: Sequence[bytes]) -> Int64Array:
    """Returns the window starts of many window keys, in milliseconds."""
    joined = b"".join([key[-WINDOW_SUFFIX_BYTES:-4] for key in window_keys])
    return np.frombuffer(joined, ">i8").astype(np.int64)


def changelog_window_keys(keys: Sequence[bytes], starts: Int64Array) -> list[bytes]:
    """Returns window keys in the layout of a changelog."""
    distinct, inverse = distinct_starts(starts)
    suffixes = [window_suffix(start) for start in distinct]
    if len(suffixes) == 1:
        suffix = suffixes[0]
        return [key + suffix for key in keys]
    return [key + suffixes[index] for key, index in zip(keys, inverse, strict=True)]


def local_window_keys(keys: Sequence[bytes], start: int, segment: int) -> list[bytes]:
    """Returns the window keys of one window in the layout of the local database."""
    prefix = big_endian(segment)
    suffix = window_suffix(start)
    return [prefix + key + suffix for key in keys]


def prefixed_window_keys(
    window_keys: Sequence[bytes], starts: Int64Array, segment_of: Callable[[int], int]
) -> list[bytes]:
    """Returns local keys for the window keys of a changelog."""
    distinct, inverse = distinct_starts(starts)
    prefixes = [big_endian(segment_of(start)) for start in distinct]
    return [prefixes[index] + key for key, index in zip(window_keys, inverse, strict=True)]


def distinct_starts(starts: Int64Array) -> tuple[list[int], list[int]]:
    """Returns the distinct window starts, and for each row the index of its start."""
    if not len(starts):
        return [], []
    first = int(starts[0])
    if (starts == first).all():
        return [first], [0] * len(starts)
    distinct, inverse = np.unique(starts, return_inverse=True)
    return distinct.tolist(), inverse.tolist()
