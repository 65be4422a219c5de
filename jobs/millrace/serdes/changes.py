"""Changes of a table as Kafka Streams writes them to the repartition topic of a grouped table.

A change has an old value, a new one, or both (KIP-904), and its last byte says which. The format is that of
``org.apache.kafka.streams.kstream.internals.ChangedSerializer``: readers also know forms with a flag for whether the
change is the latest of its key (of versioned tables), which no process writes yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from millrace.errors import SerializationError
from millrace.serdes.base import Serde
from millrace.serdes.primitives import BytesSerde

_OLD, _NEW, _BOTH = 0, 1, 2
_WITH_LATEST_FLAG = 3
"""What the three kinds have added to them where a flag byte stands before the kind."""
_LONGEST_VARINT = 5


class Change(NamedTuple):
    """An update of a table's row.

    Args:
        new: the value after it, ``None`` where the row is deleted.
        old: the value before it, ``None`` where there was no row.
    """

    new: Any
    old: Any


def join_change(new: bytes | None, old: bytes | None) -> bytes:
    """Returns the bytes of a change.

    Raises:
        SerializationError: there is neither a new nor an old value.
    """
    if new is None:
        if old is None:
            raise SerializationError("A change without a new and an old value cannot be written.")
        return old + bytes((_OLD,))
    if old is None:
        return new + bytes((_NEW,))
    return _varint(len(new)) + new + old + bytes((_BOTH,))


def split_change(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Returns the inverse of :func:`join_change`: the bytes of the new and of the old value.

    Raises:
        SerializationError: the bytes are not a change.
    """
    if not data or data[-1] >= 2 * _WITH_LATEST_FLAG:
        raise SerializationError(f"The kind of a change is 0 to 5, not {data[-1] if data else 'missing'}.")
    flagged, kind = divmod(data[-1], _WITH_LATEST_FLAG)
    body = data[: len(data) - 1 - flagged]
    if kind == _OLD:
        return None, body
    if kind == _NEW:
        return body, None
    length, start = _read_varint(body)
    if start + length > len(body):
        raise SerializationError(f"A change's new value should have {length} bytes, but {len(body) - start} are left.")
    return body[start : start + length], body[start + length :]


def _varint(length: int) -> bytes:
    """A length as Kafka writes it: zig-zag, seven bits a byte, the lowest first."""
    remaining = length << 1
    encoded = bytearray()
    while remaining > 0x7F:
        encoded.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    encoded.append(remaining)
    return bytes(encoded)


def _read_varint(data: bytes) -> tuple[int, int]:
    """A length at the start of ``data``, and where it ends."""
    value = 0
    for index, byte in enumerate(data[:_LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            # An odd number is a negative length.
            if value & 1:
                break
            return value >> 1, index + 1
    raise SerializationError("The length of a change's new value cannot be read.")


@dataclass(frozen=True)
class ChangeSerde:
    """Changes of a table; values are :class:`Change`.

    Tasks keep new and old values in columns of their own and use :func:`join_change` and :func:`split_change`.

    Args:
        inner: serde of the table's values; ``None`` takes the configuration's default.
    """

    inner: Serde | None

    @property
    def arrow_type(self) -> pa.DataType | None:
        """``None``: changes have no Arrow type."""
        return None

    def serialize(self, value: Change) -> bytes:
        """Returns the bytes of one change."""
        inner = self.inner or BytesSerde()
        return join_change(*(None if part is None else inner.serialize(part) for part in value))

    def deserialize(self, data: bytes) -> Change:
        """Returns the change in ``data``."""
        inner = self.inner or BytesSerde()
        return Change(*(None if part is None else inner.deserialize(part) for part in split_change(data)))

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Refuses the call: changes have no Arrow type."""
        raise SerializationError(f"Changes have no column of {values.type}.", remedy="use join_change")

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Refuses the call: changes have no Arrow type."""
        raise SerializationError(f"Changes in {data.type} have no column.", remedy="use split_change")
