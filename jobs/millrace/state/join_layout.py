"""Binary layout of the records that have no partner yet in a left or outer stream-stream join.

A key is the 8-byte timestamp, a byte for the side (1 left, 0 right) and the key's bytes, so that the order of the bytes
is the order of the results: by timestamp, right before left, by key. A value is a list, since several records of a key
may have one timestamp: a byte (1: lengths follow), the 4-byte number of entries, and for each its 4-byte length, again
the side's byte and the value's bytes. As in Kafka Streams (``TimestampedKeyAndJoinSide``, ``LeftOrRightValue`` and
``ListSerializer``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_KEY = struct.Struct(">qB")
_HEAD = struct.Struct(">bi")
_LENGTH = struct.Struct(">i")
_LENGTHS_FOLLOW = 1


def outer_join_key(timestamp: int, *, left: bool, key: bytes) -> bytes:
    """Returns the key of the records of ``key`` at ``timestamp`` (milliseconds) on one side."""
    return _KEY.pack(timestamp, left) + key


def read_outer_join_key(data: bytes) -> tuple[int, bool, bytes]:
    """Returns the timestamp, whether the record is on the left side, and the bytes of its key."""
    timestamp, left = _KEY.unpack_from(data)
    return timestamp, bool(left), data[_KEY.size :]


def outer_join_values(values: Sequence[bytes], *, left: bool) -> bytes:
    """Returns the value for the records of one key, timestamp and side, in their order."""
    side = bytes([left])
    return _HEAD.pack(_LENGTHS_FOLLOW, len(values)) + b"".join(
        [_LENGTH.pack(len(value) + 1) + side + value for value in values]
    )


def read_outer_join_values(data: bytes) -> list[bytes]:
    """Returns the values that :func:`outer_join_values` was called with, without the side."""
    _, count = _HEAD.unpack_from(data)
    values = []
    offset = _HEAD.size
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        values.append(data[offset + 1 : offset + length])
        offset += length
    return values
