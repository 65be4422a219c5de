"""The changelog layout of a suppression buffer: a change of a table, and the context of its record.

Source: ``BufferValue`` and ``ProcessorRecordContext``, version 3 of the layout of
``InMemoryTimeOrderedKeyValueChangeBuffer``. All numbers are big-endian; a length of -1 is null, and an old value of
length -2 is the same as the prior one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from millrace.errors import StateError

BUFFER_HEADERS: list[tuple[str, bytes | None]] = [("v", b"\x03")]
"""Headers of the changelog's records: the version of the layout."""

_NULL = -1
_SAME_AS_PRIOR = -2
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_PARTITION_AND_HEADERS = struct.Struct(">ii")
# Of a change: its time in the buffer. Of its record: timestamp, offset, partition.
_FIXED_BYTES = 8 + 8 + 8 + 4


@dataclass(slots=True)
class BufferedRecordContext:
    """The context of the input record that caused a change.

    Args:
        timestamp: the change's, milliseconds.
        offset: offset of the record in its partition.
        topic: the record's topic.
        partition: its partition.
        headers: the change's headers, ``None`` for none.
    """

    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: list[tuple[str, bytes | None]] | None = None

    @property
    def position(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the record."""
        return self.topic, self.partition, self.offset


@dataclass(slots=True)
class BufferedChange:
    """A buffered change of a table.

    Args:
        time: what it is ordered by, milliseconds: the time of the first change of its key that is in the buffer.
        prior: value of the table's row before the first of these changes.
        old: value before this change.
        new: value after it.
        context: the record that it came with.
        size: bytes that it counts for, its key included, as Kafka Streams counts them.
    """

    time: int
    prior: bytes | None
    old: bytes | None
    new: bytes | None
    context: BufferedRecordContext
    size: int = field(default=0)

    def sized(self, key: bytes) -> BufferedChange:
        """Sets the size that the change has under ``key``, and returns the change."""
        self.size = _FIXED_BYTES + len(key) + _text_length(self.context.topic)
        for value in (self.prior, None if self.old == self.prior else self.old, self.new):
            self.size += 0 if value is None else len(value)
        for name, value in self.context.headers or ():
            self.size += _text_length(name) + (0 if value is None else len(value))
        return self

    def to_bytes(self) -> bytes:
        """Returns the change as the value of a changelog record."""
        context = self.context
        topic = context.topic.encode()
        headers = context.headers or []
        parts = [
            _LONG.pack(context.timestamp),
            _LONG.pack(context.offset),
            _sized(topic),
            _PARTITION_AND_HEADERS.pack(context.partition, len(headers)),
        ]
        for name, value in headers:
            parts += [_sized(name.encode()), _sized(value)]
        parts.append(_sized(self.prior))
        parts.append(_INT.pack(_SAME_AS_PRIOR) if self.old is not None and self.old == self.prior else _sized(self.old))
        parts += [_sized(self.new), _LONG.pack(self.time)]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, key: bytes, data: bytes) -> BufferedChange:
        """Parses the output of :meth:`to_bytes`.

        Raises:
            StateError: the bytes are not such a value.
        """
        reader = _Reader(data)
        try:
            timestamp, offset = reader.int64(), reader.int64()
            topic = reader.sized() or b""
            partition, count = reader.int32(), reader.int32()
            headers = [((reader.sized() or b"").decode(), reader.sized()) for _ in range(count)]
            prior = reader.sized()
            old_length = reader.int32()
            old = prior if old_length == _SAME_AS_PRIOR else reader.take(old_length)
            new = reader.sized()
            context = BufferedRecordContext(timestamp, offset, topic.decode(), partition, headers or None)
            change = cls(reader.int64(), prior, old, new, context)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise StateError(
                f"An entry of a suppression buffer cannot be read, under the key {key!r}: {data[:80]!r}.",
                remedy="delete the task's state directory, so that the buffer is restored from its changelog; if that "
                "is what cannot be read, reset the application",
            ) from error
        return change.sized(key)


class _Reader:
    """A reader of consecutive numbers and values in bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    def int64(self) -> int:
        """Reads a 64-bit number."""
        self._offset += _LONG.size
        return int(_LONG.unpack_from(self._data, self._offset - _LONG.size)[0])

    def int32(self) -> int:
        """Reads a 32-bit number."""
        self._offset += _INT.size
        return int(_INT.unpack_from(self._data, self._offset - _INT.size)[0])

    def sized(self) -> bytes | None:
        """Reads a value that follows its length."""
        return self.take(self.int32())

    def take(self, length: int) -> bytes | None:
        """Reads a value of this length; ``None`` for the length of a null."""
        if length == _NULL:
            return None
        end = self._offset + length
        if length < 0 or end > len(self._data):
            raise IndexError(length)
        self._offset = end
        return self._data[end - length : end]


def _sized(value: bytes | None) -> bytes:
    return _INT.pack(_NULL) if value is None else _INT.pack(len(value)) + value


def _text_length(text: str) -> int:
    """Returns the length of a text in Java's characters (UTF-16 code units)."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be")) // 2
