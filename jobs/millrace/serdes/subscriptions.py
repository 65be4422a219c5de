"""The messages between the two sides of a foreign-key join, in Kafka Streams' bytes (KIP-213).

The primary side subscribes each of its rows to a foreign key; the foreign side keeps the subscriptions and responds
with the foreign row, now and at each change of it. A hash of the primary row's value goes there and back, so that a
response to a value that is no longer the row's is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from millrace.errors import SerializationError
from millrace.serdes.base import Serde
from millrace.serdes.per_value import PerValueSerde
from millrace.serdes.primitives import BytesSerde

HASH_BYTES = 16
SUBSCRIPTION_VERSION = 1
RESPONSE_VERSION = 0
_NO_HASH = 0x80
_VERSION = 0x7F
_PARTITION_BYTES = 4
_LENGTH_BYTES = 4
COMBINED_KEY_BYTES = _LENGTH_BYTES
"""What a combined key has beside its two keys."""
SUBSCRIPTION_BYTES = 2 + HASH_BYTES + _PARTITION_BYTES
"""What a subscription has beside its primary key."""


class Instruction(IntEnum):
    """An instruction of a subscription: what the foreign side does with it, and when it responds at once."""

    DELETE_KEY_NO_PROPAGATE = 0
    """The row left this foreign key for another: forget it, say nothing."""
    DELETE_KEY_AND_PROPAGATE = 1
    """The row is gone, or has no foreign key any more: forget it and respond with nothing."""
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    """Respond with the foreign row, or with nothing where there is none."""
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3
    """Respond where there is a foreign row."""

    @property
    def deletes(self) -> bool:
        """Whether the subscription ends."""
        return self <= Instruction.DELETE_KEY_AND_PROPAGATE


class Subscription(NamedTuple):
    """A primary row's subscription to a foreign key.

    Args:
        hash: hash of the row's value, ``None`` where the row is deleted.
        instruction: what to do.
        primary_key: the row's key.
        primary_partition: the partition of the row, where responses go; ``None`` in version 0.
        version: of the bytes; 0 is what Kafka Streams before 3.4 wrote.
    """

    hash: bytes | None
    instruction: Instruction
    primary_key: Any
    primary_partition: int | None
    version: int = SUBSCRIPTION_VERSION


class Response(NamedTuple):
    """The foreign row for a subscription.

    Args:
        hash: that of the subscription.
        foreign_value: the foreign row's value, ``None`` where there is none.
        primary_partition: where it goes; not among the bytes.
    """

    hash: bytes | None
    foreign_value: Any
    primary_partition: int | None = None


class CombinedKey(NamedTuple):
    """The key of a subscription in its store."""

    foreign_key: Any
    primary_key: Any


@dataclass(frozen=True)
class SubscriptionSerde(PerValueSerde):
    """Subscriptions. Source: ``SubscriptionWrapperSerde`` of Kafka Streams (versions 0 and 1).

    Args:
        primary_key: serde of the primary keys; ``None`` takes the configuration's default.
    """

    primary_key: Serde | None

    def serialize(self, value: Subscription) -> bytes:
        """Returns version and a bit for a missing hash, instruction, hash, primary key, partition (version 1).

        Raises:
            SerializationError: the primary key is not of its serde's type, or the partition is missing.
        """
        key = (self.primary_key or BytesSerde()).serialize(value.primary_key)
        if value.hash is None:
            start = bytes((value.version | _NO_HASH, value.instruction))
        else:
            start = bytes((value.version, value.instruction)) + value.hash
        if value.version == 0:
            return start + key
        if value.primary_partition is None:
            raise SerializationError(f"A subscription of version {value.version} needs the partition of its row.")
        return start + key + value.primary_partition.to_bytes(_PARTITION_BYTES, "big", signed=True)

    def deserialize(self, data: bytes) -> Subscription:
        """Returns the subscription in ``data``.

        Raises:
            SerializationError: it is cut short, of a version that is not known, or has an unknown instruction.
        """
        version, row_hash, start = _head(data, "subscription", head_bytes=2)
        if version > SUBSCRIPTION_VERSION:
            raise SerializationError(
                f"A subscription of version {version} cannot be read; {SUBSCRIPTION_VERSION} is the newest known.",
                remedy="stop what writes it: another version of the application runs under this application id",
            )
        if data[1] > max(Instruction):
            raise SerializationError(f"A subscription has no instruction {data[1]}.")
        end = len(data) - (_PARTITION_BYTES if version else 0)
        if end < start:
            raise SerializationError(f"A subscription of {len(data)} bytes is cut short.")
        return Subscription(
            row_hash,
            Instruction(data[1]),
            (self.primary_key or BytesSerde()).deserialize(data[start:end]),
            int.from_bytes(data[end:], "big", signed=True) if version else None,
            version,
        )


@dataclass(frozen=True)
class ResponseSerde(PerValueSerde):
    """Responses. Source: ``SubscriptionResponseWrapperSerde`` of Kafka Streams (version 0).

    As there, a foreign value without bytes is read as no foreign row.

    Args:
        foreign_value: serde of the foreign values; ``None`` takes the configuration's default.
    """

    foreign_value: Serde | None

    def serialize(self, value: Response) -> bytes:
        """Returns version and a bit for a missing hash, hash, foreign value."""
        start = bytes((_NO_HASH,)) if value.hash is None else bytes((RESPONSE_VERSION,)) + value.hash
        if value.foreign_value is None:
            return start
        return start + (self.foreign_value or BytesSerde()).serialize(value.foreign_value)

    def deserialize(self, data: bytes) -> Response:
        """Returns the response in ``data``.

        Raises:
            SerializationError: it is cut short or of a version that is not known.
        """
        version, row_hash, start = _head(data, "response", head_bytes=1)
        if version != RESPONSE_VERSION:
            raise SerializationError(
                f"A response of version {version} cannot be read; {RESPONSE_VERSION} is the only one known.",
                remedy="stop what writes it: another version of the application runs under this application id",
            )
        foreign = data[start:]
        return Response(row_hash, (self.foreign_value or BytesSerde()).deserialize(foreign) if foreign else None)


@dataclass(frozen=True)
class CombinedKeySerde(PerValueSerde):
    """Keys of subscriptions. Source: ``CombinedKeySchema`` of Kafka Streams.

    Args:
        foreign_key: serde of the foreign keys; ``None`` takes the configuration's default.
        primary_key: the same of the primary keys.
    """

    foreign_key: Serde | None
    primary_key: Serde | None

    def serialize(self, value: CombinedKey) -> bytes:
        """Returns the length of the foreign key, foreign key, primary key."""
        foreign = (self.foreign_key or BytesSerde()).serialize(value.foreign_key)
        return combined_key_prefix(foreign) + (self.primary_key or BytesSerde()).serialize(value.primary_key)

    def deserialize(self, data: bytes) -> CombinedKey:
        """Returns the two keys in ``data``."""
        foreign, primary = split_combined_key(data)
        return CombinedKey(
            (self.foreign_key or BytesSerde()).deserialize(foreign),
            (self.primary_key or BytesSerde()).deserialize(primary),
        )


def combined_key_prefix(foreign_key: bytes) -> bytes:
    """Returns what the combined keys of a foreign key, and of no other, begin with."""
    return len(foreign_key).to_bytes(_LENGTH_BYTES, "big") + foreign_key


def split_combined_key(data: bytes) -> tuple[bytes, bytes]:
    """Returns the bytes of the foreign and of the primary key.

    Raises:
        SerializationError: the foreign key should be longer than the data.
    """
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "big")
    if len(data) < max(end, _LENGTH_BYTES):
        raise SerializationError(f"A combined key of {len(data)} bytes is cut short.")
    return data[_LENGTH_BYTES:end], data[end:]


def _head(data: bytes, what: str, *, head_bytes: int) -> tuple[int, bytes | None, int]:
    """Version, hash, and where the remaining bytes start."""
    has_hash = bool(data) and not data[0] & _NO_HASH
    start = head_bytes + (HASH_BYTES if has_hash else 0)
    if len(data) < start:
        raise SerializationError(f"A {what} of {len(data)} bytes is cut short.")
    return data[0] & _VERSION, data[head_bytes:start] if has_hash else None, start
