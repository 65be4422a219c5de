"""Binary layout of the records that wait in a stream-table join with grace.

A key is a 0 byte, the 8-byte timestamp, the key's bytes and a 4-byte sequence number, so that the order of the bytes is
the order of release. A value is the record's context (8-byte timestamp, 8-byte offset, topic, 4-byte partition, number
of headers and the headers), two absent values and the value's bytes, each behind its 4-byte length (-1: absent), and 8
zero bytes. As in Kafka Streams (``TimeFirstWindowKeySchema``, ``ProcessorRecordContext`` and ``BufferValue``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

_KEY_HEAD = struct.Struct(">bq")
_SEQUENCE = struct.Struct(">i")
_CONTEXT_HEAD = struct.Struct(">qq")
_LENGTH = struct.Struct(">i")
_ABSENT = _LENGTH.pack(-1)
_TIME_OF_BUFFER = bytes(8)


class BufferedRecord(NamedTuple):
    """A record that waits.

    Args:
        timestamp: milliseconds.
        place: topic, partition and offset that it came from.
        headers: (name, value) pairs.
        value: value bytes.
    """

    timestamp: int
    place: tuple[str, int, int]
    headers: Sequence[tuple[str, bytes | None]]
    value: bytes


def buffer_key(timestamp: int, key: bytes, sequence: int) -> bytes:
    """The key of a record of ``key`` at ``timestamp`` (milliseconds)."""
    return _KEY_HEAD.pack(0, timestamp) + key + _SEQUENCE.pack(sequence)


def read_buffer_key(data: bytes) -> tuple[int, bytes, int]:
    """Timestamp, the record's key and sequence number."""
    timestamp = _KEY_HEAD.unpack_from(data)[1]
    return timestamp, data[_KEY_HEAD.size : -_SEQUENCE.size], _SEQUENCE.unpack(data[-_SEQUENCE.size :])[0]


def buffer_value(record: BufferedRecord) -> bytes:
    """The value of a record."""
    topic, partition, offset = record.place
    parts = [
        _CONTEXT_HEAD.pack(record.timestamp, offset),
        _sized(topic.encode()),
        _LENGTH.pack(partition),
        _LENGTH.pack(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += [_sized(name.encode()), _sized(value)]
    return b"".join([*parts, _ABSENT, _ABSENT, _sized(record.value), _TIME_OF_BUFFER])


def read_buffer_value(data: bytes) -> BufferedRecord:
    """The inverse of :func:`buffer_value`."""
    timestamp, offset = _CONTEXT_HEAD.unpack_from(data)
    reader = _Reader(data, _CONTEXT_HEAD.size)
    topic = (reader.sized() or b"").decode()
    partition = reader.number()
    headers = [((reader.sized() or b"").decode(), reader.sized()) for _ in range(reader.number())]
    reader.sized()
    reader.sized()
    return BufferedRecord(timestamp, (topic, partition, offset), headers, reader.sized() or b"")


def _sized(data: bytes | None) -> bytes:
    return _ABSENT if data is None else _LENGTH.pack(len(data)) + data


class _Reader:
    """Reads one thing after the other."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self._place = place

    def number(self) -> int:
        """A 4-byte number."""
        number: int = _LENGTH.unpack_from(self._data, self._place)[0]
        self._place += _LENGTH.size
        return number

    def sized(self) -> bytes | None:
        """Bytes behind their length; a negative length is that of nothing."""
        length = self.number()
        if length < 0:
            return None
        self._place += length
        return self._data[self._place - length : self._place]
