"""The metadata that is committed beside an offset, in the format of Kafka Streams."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.errors import StateError

MAX_METADATA_BYTES = 4096 - 1
"""Longest text that a broker takes unless its ``offset.metadata.max.bytes`` says otherwise: 4,096 bytes, the zero byte
included that confluent-kafka sends after it."""

UNKNOWN_TIME = -1
_WITHOUT_VALUES = 1
_WITH_VALUES = 2
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_HEAD = struct.Struct(">bq")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(frozen=True)
class CommitMetadata:
    """The metadata that a task writes beside a committed offset: its partition time, and named numbers.

    Encoded it is base64 of: one byte 2, the partition time (8 bytes), then, only where there are values, their count
    (4 bytes) and for each the length of its name (4 bytes), the name in UTF-8 and the number (8 bytes), all big-endian.
    That is version 2 of ``TopicPartitionMetadata`` (with ``ProcessorMetadata``) in Kafka Streams. Names are written in
    sorted order.

    What a Java application has committed is read here. The other way round confluent-kafka sends a zero byte after the
    text, for which Kafka Streams takes it as unknown: an application that goes back to Java has its offsets, and no
    partition times before its next records.

    Args:
        partition_time: highest timestamp seen in the partition, milliseconds; -1 where none is known.
        values: numbers by name, each within 64 bits.
    """

    partition_time: int = UNKNOWN_TIME
    values: Mapping[str, int] = field(default_factory=dict)

    def encode(self) -> str:
        """Returns the text to commit.

        Raises:
            StateError: it is longer than :data:`MAX_METADATA_BYTES`.
        """
        parts = [_HEAD.pack(_WITH_VALUES, self.partition_time)]
        if self.values:
            parts.append(_INT.pack(len(self.values)))
            for name in sorted(self.values):
                encoded = name.encode()
                parts += (_INT.pack(len(encoded)), encoded, _LONG.pack(self.values[name]))
        text = base64.b64encode(b"".join(parts)).decode("ascii")
        if len(text) > MAX_METADATA_BYTES:
            raise StateError(
                f"The commit metadata has {len(text)} bytes for {len(self.values)} values; a broker takes "
                f"{MAX_METADATA_BYTES}.",
                remedy="give stores and operators of this sub-topology shorter names, or split it with a repartition",
            )
        return text

    @classmethod
    def decode(cls, text: str | None) -> CommitMetadata | None:
        """Returns the metadata that :meth:`encode` or Kafka Streams wrote.

        What follows it is left aside: confluent-kafka shows a text that a Java application has committed without its
        end, and with it what happens to follow in memory.

        It is ``None`` for anything else (empty, foreign, cut short before its values).
        """
        found = _BASE64.match(text or "")
        assert found is not None, "it matches an empty text, too"
        data = base64.b64decode(found[0])
        if len(data) < _HEAD.size:
            return None
        version, partition_time = _HEAD.unpack_from(data)
        if version not in {_WITHOUT_VALUES, _WITH_VALUES}:
            return None
        return cls(partition_time, _values(data[_HEAD.size :]) if version == _WITH_VALUES else {})


def _values(data: bytes) -> dict[str, int]:
    """Returns the values; none where bytes that are none follow the partition time."""
    values: dict[str, int] = {}
    try:
        (count,) = _INT.unpack_from(data)
        at = _INT.size
        for _ in range(count):
            (length,) = _INT.unpack_from(data, at)
            at += _INT.size
            if not 0 <= length <= len(data) - at:
                return {}
            name = data[at : at + length].decode()
            at += length
            (values[name],) = _LONG.unpack_from(data, at)
            at += _LONG.size
    except (struct.error, UnicodeDecodeError):
        return {}
    return values
