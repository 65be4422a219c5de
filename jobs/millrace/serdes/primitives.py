"""Serdes of bytes and of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millrace.errors import SerializationError
from millrace.serdes.columns import as_binary, conformed


@dataclass(frozen=True)
class BytesSerde:
    """Bytes as they are. Source: ``org.apache.kafka.common.serialization.ByteArraySerializer``."""

    @property
    def arrow_type(self) -> pa.DataType:
        """``pa.binary()``."""
        return pa.binary()

    def serialize(self, value: Any) -> bytes:
        """Returns ``value`` itself; ``bytearray`` and ``memoryview`` are copied.

        Raises:
            SerializationError: the value is not bytes.
        """
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise SerializationError(f"Bytes are expected, not {value!r}.", remedy="choose the serde of the value's type")

    def deserialize(self, data: bytes) -> bytes:
        """Returns ``data`` itself."""
        return data

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns ``values`` as a binary array.

        Raises:
            SerializationError: the values are not bytes.
        """
        return conformed(values, pa.binary())

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Returns ``data`` itself."""
        return as_binary(data)


@dataclass(frozen=True)
class StringSerde:
    """Text in UTF-8.

    Bytes that are not UTF-8 are an error here, where Kafka Streams puts U+FFFD in their place: a key that is changed in
    silence would go to another partition when it is written again.

    Source: ``org.apache.kafka.common.serialization.StringDeserializer``.
    """

    @property
    def arrow_type(self) -> pa.DataType:
        """``pa.string()``."""
        return pa.string()

    def serialize(self, value: Any) -> bytes:
        """Returns the UTF-8 bytes of a string.

        Raises:
            SerializationError: the value is not a string, or has surrogates without a partner.
        """
        if not isinstance(value, str):
            raise SerializationError(
                f"A string is expected, not {value!r}.", remedy="choose the serde of the value's type"
            )
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise SerializationError(f"The string {value!r} has no UTF-8 form: {error.reason}.") from error

    def deserialize(self, data: bytes) -> str:
        """Returns the text in ``data``.

        Raises:
            SerializationError: the bytes are not UTF-8.
        """
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise SerializationError(
                f"The {len(data)} bytes are not UTF-8: {error.reason} at byte {error.start}."
            ) from error

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns the UTF-8 bytes of a string array, without a copy.

        Raises:
            SerializationError: the values are not strings.
        """
        return conformed(values, pa.string()).cast(pa.binary())

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Returns a string array over the same bytes.

        Raises:
            SerializationError: at least one value is not UTF-8.
        """
        try:
            return as_binary(data).cast(pa.string())
        except pa.ArrowException as error:
            raise SerializationError(f"The column has values that are not UTF-8: {error}.") from error
