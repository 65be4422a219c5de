"""Keys of windowed aggregations and the serde that writes them to topics."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes.base import Serde
from millrace.serdes.checks import check_serde

_START = struct.Struct(">q")
_LONGEST = 2**63 - 1


class Windowed(NamedTuple):
    """A key and the window it was aggregated in.

    Args:
        key: the key before windowing.
        start: first millisecond of the window since the epoch.
        end: end of the window, milliseconds; exclusive for time windows.
    """

    key: Any
    start: int
    end: int


def serialize_windowed(key_bytes: Sequence[bytes], starts: np.ndarray[Any, Any]) -> list[bytes]:
    """Returns the topic keys of many windows at once: each key's bytes and the 8-byte big-endian start.

    Args:
        key_bytes: n serialized keys.
        starts: n window starts, milliseconds, int64.
    """
    tails = np.ascontiguousarray(starts, dtype=">i8").tobytes()
    return [key + tails[8 * row : 8 * row + 8] for row, key in enumerate(key_bytes)]


def deserialize_windowed(data: Sequence[bytes]) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    """Returns the inverse of :func:`serialize_windowed`: the keys' bytes and the starts (int64, milliseconds).

    Raises:
        SerializationError: one is shorter than a window start.
    """
    shortest = min(map(len, data), default=8)
    if shortest < 8:
        raise SerializationError(f"A windowed key has 8 bytes at least, not {shortest}.")
    starts = np.frombuffer(b"".join([key[-8:] for key in data]), dtype=">i8").astype(np.int64)
    return [key[:-8] for key in data], starts


@dataclass(frozen=True)
class TimeWindowedSerde:
    """Keys of tumbling and hopping windows as Kafka Streams writes them to topics: key bytes, 8-byte big-endian start.

    The end is not written: it follows from the size of the windows. Values are :class:`Windowed`; they have no Arrow
    type, so tasks use ``serialize_windowed`` and ``deserialize_windowed`` for many keys.

    Args:
        inner: serde of the key before windowing.
        window_size_ms: size of the windows, milliseconds, above 0.

    Source: ``org.apache.kafka.streams.kstream.TimeWindowedSerializer`` and ``TimeWindowedDeserializer``.
    """

    inner: Serde
    window_size_ms: int

    def __post_init__(self) -> None:
        check_serde(self.inner, what="TimeWindowedSerde: inner")
        if isinstance(self.window_size_ms, bool) or not isinstance(self.window_size_ms, int):
            raise ConfigurationError(f"The size of windows is whole milliseconds, not {self.window_size_ms!r}.")
        if self.window_size_ms <= 0:
            raise ConfigurationError(f"The size of windows is above 0 ms, not {self.window_size_ms}.")

    @property
    def arrow_type(self) -> None:
        """``None``: windowed keys work per value or by the bulk methods."""
        return None

    def end_of(self, start: int) -> int:
        """Returns the end of the window that begins at ``start``.

        Windows that would end after the last millisecond end there.
        """
        return min(start + self.window_size_ms, _LONGEST)

    def serialize(self, value: Any) -> bytes:
        """Returns the bytes of one windowed key.

        Raises:
            SerializationError: it is not a :class:`Windowed`, its window has another size, or the inner serde refuses.
        """
        if not isinstance(value, Windowed):
            raise SerializationError(f"A Windowed key is expected, not {value!r}.")
        if not 0 <= value.start <= _LONGEST or value.end != self.end_of(value.start):
            raise SerializationError(
                f"The window [{value.start}, {value.end}) does not have {self.window_size_ms} ms, or starts below 0.",
                remedy="give TimeWindowedSerde the size of the windows",
            )
        return self.inner.serialize(value.key) + _START.pack(value.start)

    def deserialize(self, data: bytes) -> Windowed:
        """Returns the windowed key in ``data``.

        Raises:
            SerializationError: it is too short, its start is negative, or the inner serde refuses.
        """
        if len(data) < 8:
            raise SerializationError(f"A windowed key has 8 bytes at least, not {len(data)}.")
        (start,) = _START.unpack(data[-8:])
        if start < 0:
            raise SerializationError(f"A window does not start at {start} ms, before the epoch.")
        return Windowed(self.inner.deserialize(data[:-8]), start, self.end_of(start))

    def serialize_windowed(self, key_bytes: Sequence[bytes], starts: np.ndarray[Any, Any]) -> list[bytes]:
        """Works like :func:`serialize_windowed`."""
        return serialize_windowed(key_bytes, starts)

    def deserialize_windowed(self, data: Sequence[bytes]) -> tuple[list[bytes], np.ndarray[Any, Any]]:
        """Works like :func:`deserialize_windowed`."""
        return deserialize_windowed(data)

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Refuses the call: windowed keys have no Arrow type.

        Raises:
            SerializationError: always; they have no Arrow type.
        """
        raise SerializationError(f"Windowed keys have no column of {values.type}.", remedy="use serialize_windowed")

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Refuses the call: windowed keys have no Arrow type.

        Raises:
            SerializationError: always; they have no Arrow type.
        """
        raise SerializationError(f"Windowed keys in {data.type} have no column.", remedy="use deserialize_windowed")
