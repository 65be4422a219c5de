"""The serde of Avro: bare, or with the ids of a schema registry."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes.avro_arrow import as_numbers
from millrace.serdes.columns import as_binary, conformed

# fastavro and the registry's client take 0.1 and 0.7 s to import: only applications that use them should wait.
if TYPE_CHECKING:
    from millrace.serdes.avro_codec import AvroCodec, AvroSchema
    from millrace.serdes.avro_schema import Mode
    from millrace.serdes.schema_registry import SchemaRegistry

_HEADER = struct.Struct(">BI")
_MAGIC = 0


def topic_subject(topic: str, *, is_key: bool = False) -> str:
    """Returns the subject of a topic's values or keys. Source: Confluent's ``TopicNameStrategy``."""
    return f"{topic}-{'key' if is_key else 'value'}"


def topic_record_subject(topic: str, record: str) -> str:
    """Returns the subject of a kind of record in a topic. Source: Confluent's ``TopicRecordNameStrategy``.

    Args:
        topic: the topic.
        record: full name of the record's schema.
    """
    return f"{topic}-{record}"


@dataclass(frozen=True)
class AvroSerde:
    """Avro: records as dicts, by one schema of the application's own.

    Without a registry the bytes are Avro alone, written with ``schema`` and read with ``writer_schema``. With one they
    are in Confluent's wire format (a byte 0, the 4-byte big-endian id of the writer's schema, Avro); each value is read
    with the schema that its id has and resolved to ``schema`` by Avro's rules. The registry is asked once for each
    schema and process, at the first value, not when the serde is made. An application's changelog and repartition
    topics use the same subject as its other topics: what reads them only needs the id.

    Where Arrow holds the schema's values exactly they have columns: records, arrays, enums, fixed, dates, timestamps
    and unions with null of these and of the primitive types. Other values are Python objects only.

    Unions: a value that another branch could have been read as, too (two records, ``int`` and ``long``, a string and an
    enum), carries its branch; it is a ``dict``, ``int`` or ``str`` to everything else, and is written to the branch
    that it was read from. What it is computed to be carries none. A plain value is written to the branch that it fits
    best; where two fit as well it is an error: pass a pair ``("name.space.Record", value)`` or ``("long", value)``.

    Dates and times: what ``datetime`` does not hold (years beyond 1 to 9999, ``24:00``) is a
    :class:`BeyondDatetime`; timestamps of nanoseconds are numbers. Decimals of any length keep their value, and their
    bytes where these are not what their number would give. A duration is its 12 bytes. A logical type that is not
    Avro's counts for nothing.

    Reading with another schema: names, aliases, defaults (of enums, too) and wider types as the specification says;
    timestamps in another unit and decimals with another scale are converted where nothing is lost. What decoding does
    not use of a writer's schema (defaults, aliases, the form of names, malformed logical types) is not looked at.

    Writing: a field that the schema does not have is an error, as is a missing one without a default, and a number of
    another kind or beyond the type's range.

    Args:
        schema: what values are written with and read as: JSON text, a dict, or the name of a primitive type.
        writer_schema: what the bytes were written with, where it differs; only without a registry.
        registry_url: address of a registry with Confluent's API (several with commas); ``None``: bare Avro.
        subject: where ``schema`` stands in the registry; default: its full name (``RecordNameStrategy``). See
            :func:`topic_subject` and :func:`topic_record_subject`.
        auto_register: whether to register ``schema`` where the subject does not have it.
        registry_settings: of confluent-kafka's ``SchemaRegistryClient``, for example ``basic.auth.user.info``.

    Raises:
        ConfigurationError: a schema is not valid, or the arguments contradict each other. A default of ``schema`` that
            is not of its field's type is not valid.

    Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
    """

    schema: AvroSchema
    writer_schema: AvroSchema | None = field(default=None, kw_only=True)
    registry_url: str | None = field(default=None, kw_only=True)
    subject: str | None = field(default=None, kw_only=True)
    auto_register: bool = field(default=True, kw_only=True)
    registry_settings: Mapping[str, Any] | tuple[tuple[str, Any], ...] = field(default=(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        from millrace.serdes.avro_codec import schema_text

        set_field = object.__setattr__
        set_field(self, "schema", schema_text(self.schema))
        if self.writer_schema is not None:
            set_field(self, "writer_schema", schema_text(self.writer_schema))
        if isinstance(self.registry_settings, Mapping):
            set_field(self, "registry_settings", tuple(sorted(self.registry_settings.items())))
        if self.registry_url is None:
            if self.subject is not None or self.registry_settings:
                raise ConfigurationError(
                    "A subject and registry_settings need a schema registry.", remedy="give registry_url, or neither"
                )
            assert self._writer is not None
            return
        self._check_for_registry()

    def _check_for_registry(self) -> None:
        if self.writer_schema is not None:
            raise ConfigurationError(
                "With a schema registry the writer's schema comes from there.", remedy="leave writer_schema out"
            )
        if self._codec.type.kind == "bytes" and self._codec.type.logical is None:
            # Confluent's serializers write them without Avro's length, and fastavro with it.
            raise ConfigurationError("Bare bytes have no Avro form in a registry's topics.", remedy="use BytesSerde")
        if self.subject is None:
            if self._codec.name is None:
                raise ConfigurationError(
                    f"The Avro schema {self.schema} has no name that could be its subject.",
                    remedy="give the subject, for example topic_subject('orders')",
                )
            object.__setattr__(self, "subject", self._codec.name)

    def __getstate__(self) -> dict[str, Any]:
        # What is derived from the fields belongs to the process: the registry's client above all.
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @property
    def arrow_type(self) -> pa.DataType | None:
        """The type of a column of values, or ``None`` where Arrow would change them."""
        return self._codec.arrow_type

    def serialize(self, value: Any) -> bytes:
        """Returns the bytes of one value.

        Raises:
            SerializationError: it does not fit the schema.
            ConfigurationError: the registry refuses the schema.
            SchemaRegistryUnavailableError: the registry does not answer.
        """
        return self._codec.encode(value, before=self._header)

    def deserialize(self, data: bytes) -> Any:
        """Returns the value in ``data``.

        Raises:
            SerializationError: the bytes are malformed, their schema's id is unknown, or their schema does not resolve
                to this serde's.
            SchemaRegistryUnavailableError: the registry does not answer. No record is to blame, so no handler skips
                it.
        """
        return self._decoded(data, "objects")

    def _decoded(self, data: bytes, mode: Mode) -> Any:
        if self.registry_url is None:
            return self._writer.decode(data, 0, self._codec, mode)
        if len(data) < _HEADER.size or data[0] != _MAGIC:
            raise SerializationError(
                f"The {len(data)} bytes do not begin with 0 and a schema's id.",
                remedy="read topics without a registry's ids with an AvroSerde without registry_url; or let the "
                "deserialization handler continue",
            )
        _, schema_id = _HEADER.unpack_from(data)
        return self._registry.codec_of(schema_id).decode(data, _HEADER.size, self._codec, mode)

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns the bytes of each value of an array.

        Raises:
            SerializationError: the values do not fit the schema, or have no Arrow type.
        """
        listed = as_numbers(conformed(values, self._columns_type())).to_pylist()
        encode, header = self._codec.encode_checked, self._header
        return pa.array([None if value is None else encode(value, before=header) for value in listed], type=pa.binary())

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Returns the values of a binary array.

        Raises:
            SerializationError: at least one value is malformed, or the values have no Arrow type.
        """
        wanted = self._columns_type()
        listed = as_binary(data).to_pylist()
        if self.registry_url is None:
            decode, own = self._writer.decode, self._codec
            values = [None if value is None else decode(value, 0, own, "columns") for value in listed]
        else:
            values = [None if value is None else self._decoded(value, "columns") for value in listed]
        try:
            return pa.array(values, type=wanted)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            raise SerializationError(f"The column has values that {wanted} does not hold: {error}.") from error

    def _columns_type(self) -> pa.DataType:
        wanted = self.arrow_type
        if wanted is None:
            raise SerializationError(
                "Values of this Avro schema have no columns.", remedy="use serialize and deserialize for each value"
            )
        return wanted

    @cached_property
    def _codec(self) -> AvroCodec:
        from millrace.serdes.avro_codec import AvroCodec

        assert isinstance(self.schema, str)
        return AvroCodec(self.schema)

    @cached_property
    def _writer(self) -> AvroCodec:
        from millrace.serdes.avro_codec import AvroCodec

        if self.writer_schema is None or self.writer_schema == self.schema:
            return self._codec
        assert isinstance(self.writer_schema, str)
        return AvroCodec(self.writer_schema, strict=False)

    @cached_property
    def _registry(self) -> SchemaRegistry:
        from millrace.serdes.schema_registry import registry_at

        assert self.registry_url is not None
        assert isinstance(self.registry_settings, tuple)
        return registry_at(self.registry_url, self.registry_settings)

    @cached_property
    def _header(self) -> bytes:
        if self.registry_url is None:
            return b""
        assert isinstance(self.schema, str)
        assert self.subject is not None
        return _HEADER.pack(_MAGIC, self._registry.id_of(self.subject, self.schema, register=self.auto_register))
