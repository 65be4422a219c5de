"""The codec of one Avro schema: fastavro reads what needs no decision, everything else is decided here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any

import pyarrow as pa
from fastavro import schemaless_reader, schemaless_writer

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes.avro_arrow import arrow_type_of
from millrace.serdes.avro_defaults import check_defaults
from millrace.serdes.avro_raw import raw_schema
from millrace.serdes.avro_resolution import Convert, UnresolvableError, resolution
from millrace.serdes.avro_schema import AvroType, Mode, SchemaError, parsed
from millrace.serdes.avro_writing import Write, writer_of

AvroSchema = str | Mapping[str, Any] | Sequence[Any]
"""JSON text, the name of a primitive type, or what such JSON reads as."""


def schema_text(schema: AvroSchema) -> str:
    """Returns the schema as compact JSON text.

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
        strict: whether defaults, names and logical types are checked. Reading uses no default of the writer's
            schema, so one that is wrong is no reason to refuse the records.

    Raises:
        ConfigurationError: it is no Avro schema.
    """

    def __init__(self, text: str, references: Iterable[str] = (), *, strict: bool = True) -> None:
        try:
            self.type: AvroType = parsed(text, references, strict=strict)
            if strict:
                check_defaults(self.type)
        except (SchemaError, RecursionError) as error:
            raise ConfigurationError(
                f"The Avro schema {_shortened(text)} is not valid: {error}.",
                remedy="correct the schema; https://avro.apache.org/docs/ says what it may have",
            ) from error
        self._is_record = self.type.kind == "record"
        self._conversions: dict[tuple[AvroCodec, Mode], Convert | None] = {}

    @cached_property
    def arrow_type(self) -> pa.DataType | None:
        """See :func:`arrow_type_of`."""
        return arrow_type_of(self.type)

    @property
    def name(self) -> str | None:
        """Full name of a record, enum or fixed; ``None`` of other types."""
        return self.type.name or None

    def encode(self, value: Any, *, before: bytes = b"") -> bytes:
        """Returns the bytes of one value after those of ``before``.

        Raises:
            SerializationError: it does not fit the schema, or does not say which branch of a union it is.
        """
        buffer = bytearray(before)
        try:
            self._write(buffer, value)
        except ValueError as error:
            raise _unfit(f"it{error}") from error
        except RecursionError as error:
            raise _unfit("it is nested too deeply") from error
        return bytes(buffer)

    def encode_checked(self, value: Any, *, before: bytes = b"") -> bytes:
        """Works like :meth:`encode`, of a value of :attr:`arrow_type` with numbers in place of dates and times.

        Raises:
            SerializationError: it does not fit the schema.
        """
        buffer = BytesIO()
        buffer.write(before)
        try:
            schemaless_writer(buffer, self._raw_to_write, value if self._is_record else {"v": value})
        except Exception as error:
            raise _unfit(f"{type(error).__name__}: {error}") from error
        return buffer.getvalue()

    def decode(self, data: bytes, start: int, reader: AvroCodec, mode: Mode = "objects") -> Any:
        """Returns the value that this schema wrote in ``data`` from ``start`` on, as ``reader``'s schema sees it.

        Args:
            data: the bytes.
            start: where the value begins.
            reader: the schema to read it as.
            mode: what the value is for. In columns dates and timestamps are numbers.

        Raises:
            SerializationError: the bytes are malformed, or the schemas do not fit.
        """
        buffer = BytesIO(data)
        if start:
            buffer.seek(start)
        try:
            value: Any = schemaless_reader(buffer, self._raw_to_read, None)
        except Exception as error:
            raise _malformed(data, f"{type(error).__name__}: {error}") from error
        if buffer.tell() != len(data):
            raise _malformed(data, f"the value ends after {buffer.tell()} of them")
        if not self._is_record:
            value = value["v"]
        try:
            try:
                convert = self._conversions[reader, mode]
            except KeyError:
                convert = self._conversions[reader, mode] = resolution(self.type, reader.type, mode)
            return value if convert is None else convert(value)
        except UnresolvableError as error:
            raise SerializationError(
                f"What the writer's Avro schema {self.name or ''} wrote cannot be read with the reader's: {error}.",
                remedy="give the reader's schema a default for fields that the writer's has not, or a wider type",
            ) from error
        except Exception as error:
            raise _malformed(data, f"{type(error).__name__}: {error}") from error

    @cached_property
    def _raw_to_read(self) -> dict[str, Any]:
        return raw_schema(self.type, reading=True)

    @cached_property
    def _raw_to_write(self) -> dict[str, Any]:
        return raw_schema(self.type, reading=False)

    @cached_property
    def _write(self) -> Write:
        return writer_of(self.type)


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
