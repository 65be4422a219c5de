"""One Avro schema's values to bytes and back, by fastavro."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError, validate

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes.avro_arrow import arrow_type_of

AvroSchema = str | Mapping[str, Any] | Sequence[Any]
"""JSON text, the name of a primitive type, or what such JSON reads as."""


def schema_text(schema: AvroSchema) -> str:
    """The schema as compact JSON text.

    Raises:
        ConfigurationError: it is not JSON.
    """
    if isinstance(schema, str):
        if not schema.lstrip().startswith(("{", "[", '"')):
            return json.dumps(schema)
        try:
            schema = json.loads(schema)
        except ValueError as error:
            raise ConfigurationError(
                f"The Avro schema is not JSON: {error}.", remedy="pass JSON text or a dict"
            ) from error
    try:
        return json.dumps(schema, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The Avro schema is not JSON: {error}.", remedy="pass JSON text or a dict") from error


class AvroCodec:
    """Writes and reads bare Avro, without a container or a header.

    Args:
        text: the schema, JSON.
        references: schemas whose names it uses, each after those that it uses itself.

    Raises:
        ConfigurationError: it is no Avro schema.
    """

    def __init__(self, text: str, references: Iterable[str] = ()) -> None:
        named: dict[str, Any] = {}
        try:
            for reference in references:
                parse_schema(json.loads(reference), named_schemas=named)
            self.schema: Any = parse_schema(json.loads(text), named_schemas=named)
        except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigurationError(
                f"The Avro schema {_shortened(text)} is not valid: {type(error).__name__}: {error}.",
                remedy="correct the schema; https://avro.apache.org/docs/ says what it may have",
            ) from error

    @cached_property
    def arrow_type(self) -> pa.DataType | None:
        """See :func:`arrow_type_of`."""
        return arrow_type_of(self.schema)

    @cached_property
    def name(self) -> str | None:
        """Full name of a record, enum or fixed; ``None`` of other types."""
        return self.schema.get("name") if isinstance(self.schema, Mapping) else None

    def encode(self, value: Any, *, checked: bool = False, before: bytes = b"") -> bytes:
        """The bytes of one value after those of ``before``.

        Args:
            value: the value.
            checked: whether its numbers are known to be of the schema's types and ranges, which fastavro's writer
                takes for granted (it cuts a float to an integer).
            before: what the result begins with.

        Raises:
            SerializationError: it does not fit the schema.
        """
        buffer = BytesIO()
        buffer.write(before)
        try:
            if not checked:
                validate(value, self.schema, strict=False)
            schemaless_writer(buffer, self.schema, value, strict_allow_default=True)
        except ValidationError as error:
            raise _unfit("; ".join(map(str, error.errors)).replace("\n", " ")) from error
        except Exception as error:
            raise _unfit(f"{type(error).__name__}: {error}") from error
        return buffer.getvalue()

    def decode(self, data: bytes, start: int, reader: AvroCodec) -> Any:
        """The value that this schema wrote in ``data`` from ``start`` on, as ``reader``'s schema sees it.

        Raises:
            SerializationError: the bytes are malformed, or the schemas do not fit.
        """
        buffer = BytesIO(data)
        buffer.seek(start)
        try:
            value = schemaless_reader(buffer, self.schema, None if reader is self else reader.schema)
        except SchemaResolutionError as error:
            raise SerializationError(
                f"What the writer's Avro schema {self.name or ''} wrote cannot be read with the reader's: {error}.",
                remedy="give the reader's schema a default for fields that the writer's has not, or a wider type",
            ) from error
        except Exception as error:
            raise _malformed(data, f"{type(error).__name__}: {error}") from error
        if buffer.tell() != len(data):
            raise _malformed(data, f"the value ends after {buffer.tell()} of them")
        return value


def _unfit(reason: str) -> SerializationError:
    return SerializationError(
        f"The value does not fit the Avro schema: {reason}.", remedy="correct the value or the schema"
    )


def _malformed(data: bytes, reason: str) -> SerializationError:
    return SerializationError(
        f"The {len(data)} bytes are not Avro of the writer's schema: {reason}.",
        remedy="name the schema that they were written with, correct the producer, or let the deserialization handler "
        "continue",
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."
