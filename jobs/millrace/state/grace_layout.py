"""Binary layout of the keys of buffered records in a stream-table join with grace.

A 0 byte, the 8-byte timestamp, the key's bytes and a 4-byte sequence number, so that the order of the bytes is the
order of release. As in Kafka Streams' ``TimeFirstWindowKeySchema``. The values are those of a suppression buffer
(:mod:`millrace.state.buffer_layout`), whose only value is the new one, and whose time is 0.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct(">bq")
_SEQUENCE = struct.Struct(">i")


def grace_key(timestamp: int, key: bytes, sequence: int) -> bytes:
    """Returns the key of a record of ``key`` at ``timestamp`` (milliseconds)."""
    return _HEAD.pack(0, timestamp) + key + _SEQUENCE.pack(sequence)


def grace_timestamp(data: bytes) -> int:
    """Returns the timestamp of the record with this key, milliseconds."""
    timestamp: int = _HEAD.unpack_from(data)[1]
    return timestamp


def read_grace_key(data: bytes) -> tuple[bytes, int]:
    """Returns the record's key and the sequence number."""
    return data[_HEAD.size : -_SEQUENCE.size], _SEQUENCE.unpack(data[-_SEQUENCE.size :])[0]
