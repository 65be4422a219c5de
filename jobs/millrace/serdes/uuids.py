"""The serde of UUIDs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from millrace.errors import SerializationError
from millrace.serdes.per_value import PerValueSerde


@dataclass(frozen=True)
class UUIDSerde(PerValueSerde):
    """:class:`uuid.UUID` as its text (``8-4-4-4-12`` hexadecimal digits, lower case) in UTF-8.

    Text in upper case is read too. Short groups, which Java's ``UUID.fromString`` fills up, are errors, since no
    serializer writes them: the key would go to another partition when it is written again. The values have no Arrow
    type that compares and groups as they do; use a ``StringSerde`` where the text is enough and columns matter.

    Source: ``org.apache.kafka.common.serialization.UUIDSerializer``.
    """

    def serialize(self, value: Any) -> bytes:
        """Returns the text of ``value``.

        Raises:
            SerializationError: it is not a UUID.
        """
        if not isinstance(value, UUID):
            raise SerializationError(f"A UUID is expected, not {value!r}.", remedy="pass a uuid.UUID")
        return str(value).encode()

    def deserialize(self, data: bytes) -> UUID:
        """Returns the UUID in ``data``.

        Raises:
            SerializationError: it is not the text of a UUID.
        """
        try:
            text = data.decode()
            value = UUID(text)
        except ValueError as error:
            raise _not_a_uuid(data) from error
        if str(value) != text.lower():
            raise _not_a_uuid(data)
        return value


def _not_a_uuid(data: bytes) -> SerializationError:
    return SerializationError(
        f"The {len(data)} bytes are not the text of a UUID.",
        remedy="correct the producer, or let the deserialization handler continue",
    )
