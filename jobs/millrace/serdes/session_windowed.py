"""The serde that writes keys of session windows to topics."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.errors import SerializationError
from millrace.serdes.base import Serde
from millrace.serdes.checks import check_serde
from millrace.serdes.windowed import Windowed

_BOUNDS = struct.Struct(">qq")
SESSION_BOUNDS_BYTES = _BOUNDS.size


def serialize_sessions(
    key_bytes: Sequence[bytes], starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]
) -> list[bytes]:
    """Returns the topic keys of many sessions: each key's bytes, the 8-byte big-endian end and the 8-byte start.

    Args:
        key_bytes: n serialized keys.
        starts: timestamps of the sessions' first records, milliseconds, int64.
        ends: timestamps of their last ones.
    """
    bounds = np.column_stack((ends, starts)).astype(">i8").tobytes()
    return [key + bounds[16 * row : 16 * row + 16] for row, key in enumerate(key_bytes)]


@dataclass(frozen=True)
class SessionWindowedSerde:
    """Keys of session windows as Kafka Streams writes them to topics: key bytes, 8-byte end, 8-byte start.

    Values are :class:`~millrace.serdes.Windowed`, whose end is inclusive here: start and end are the timestamps of the
    session's first and last record. They have no Arrow type, so tasks use ``serialize_sessions`` for many keys.

    Args:
        inner: serde of the key before windowing.

    Source: ``org.apache.kafka.streams.kstream.SessionWindowedSerializer``, ``SessionKeySchema``.
    """

    inner: Serde

    def __post_init__(self) -> None:
        check_serde(self.inner, what="SessionWindowedSerde: inner")

    @property
    def arrow_type(self) -> None:
        """``None``: windowed keys work per value or by the bulk functions."""
        return None

    def serialize(self, value: Any) -> bytes:
        """Returns the bytes of one windowed key.

        Raises:
            SerializationError: it is not a :class:`Windowed`, its bounds are no session, or the inner serde refuses.
        """
        if not isinstance(value, Windowed):
            raise SerializationError(f"A Windowed key is expected, not {value!r}.")
        if not 0 <= value.start <= value.end < 2**63:
            raise SerializationError(f"[{value.start}, {value.end}] is not a session.")
        return self.inner.serialize(value.key) + _BOUNDS.pack(value.end, value.start)

    def deserialize(self, data: bytes) -> Windowed:
        """Returns the windowed key in ``data``.

        Raises:
            SerializationError: it is too short, its bounds are no session, or the inner serde refuses.
        """
        if len(data) < SESSION_BOUNDS_BYTES:
            raise SerializationError(f"A session's key has {SESSION_BOUNDS_BYTES} bytes at least, not {len(data)}.")
        end, start = _BOUNDS.unpack(data[-SESSION_BOUNDS_BYTES:])
        if not 0 <= start <= end:
            raise SerializationError(f"[{start}, {end}] is not a session.")
        return Windowed(self.inner.deserialize(data[:-SESSION_BOUNDS_BYTES]), start, end)

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Refuses the call: windowed keys have no Arrow type.

        Raises:
            SerializationError: always; they have no Arrow type.
        """
        raise SerializationError(f"Windowed keys have no column of {values.type}.", remedy="use serialize_sessions")

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Refuses the call: windowed keys have no Arrow type.

        Raises:
            SerializationError: always; they have no Arrow type.
        """
        raise SerializationError(f"Windowed keys in {data.type} have no column.", remedy="use deserialize")
