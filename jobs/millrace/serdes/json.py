"""The serde of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import SerializationError
from millrace.json_numbers import dumps, has_inexact, loads, loads_exactly
from millrace.serdes.columns import as_binary, conformed
from millrace.serdes.json_columns import decode_objects, encode_column
from millrace.serdes.json_types import Converter, checked_type, converter, has_doubles


@dataclass(frozen=True)
class JsonSerde:
    """JSON in UTF-8: with a schema, objects as typed columns; without one, any JSON value as Python objects.

    A schema's fields are ``bool``, ``int32``, ``int64``, ``float64``, ``string``, and ``list`` and ``struct`` of these.
    Dates, decimals and binary have no exact form in JSON: carry them as strings or integers and convert in the
    topology.

    Reading with a schema: a value must be one JSON object; fields that the schema does not have are ignored, missing
    ones and ``null`` are null, of a field that comes twice the last one counts; an integer is taken for a double, but
    nothing else is converted (``1.0`` is not an int64, ``"1"`` is not a number). Writing: compact, in the schema's
    order, null fields included; a field that the schema does not have and a number that is not finite are errors. A
    column gives byte for byte what its single values give.

    No number becomes another one. Without a schema integers have up to 308 digits, and a decimal that is no double's
    shortest form is a ``float`` that keeps its digits (up to 17 of them) or a ``Decimal``; both are written as they
    were read.
    With a schema such a number is an error in a field of doubles, unless ``round_doubles``: use that for producers that
    write doubles with more digits than they need (``%.17g``, Java before 19).

    Columns are read faster than single values, and to the same result. Fastest is what one producer writes: objects
    with the same keys in the same order, without arrays, escapes, exponents and numbers of more than 15 digits; next
    what Arrow's parser is certain to read as orjson does. Anything else in a column has it read value by value.

    Args:
        schema: types of the fields; ``None`` leaves values untyped and without an Arrow type.
        round_doubles: whether fields of doubles read a number that a double does not hold as the nearest one.

    Raises:
        ConfigurationError: the schema has a type that JSON does not carry.
    """

    schema: pa.Schema | None = None
    round_doubles: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.schema is not None:
            object.__setattr__(self, "schema", pa.schema(list(checked_type(pa.struct(list(self.schema)), ""))))

    def __reduce__(self) -> tuple[object, ...]:
        # What is derived from the schema holds functions, which do not pickle.
        return (partial(JsonSerde, round_doubles=self.round_doubles), (self.schema,))

    @cached_property
    def arrow_type(self) -> pa.DataType | None:
        """A struct of the schema's fields, or ``None`` without a schema."""
        return None if self.schema is None else pa.struct(list(self.schema))

    @cached_property
    def _to_write(self) -> Converter:
        return converter(self.arrow_type, "refuse")

    @cached_property
    def _to_read(self) -> Converter:
        return converter(self.arrow_type, "ignore", round_doubles=self.round_doubles)

    @cached_property
    def _checks_numbers(self) -> bool:
        # Without a field of doubles every number that matters is an integer, which is exact or refused.
        return not self.round_doubles and self.arrow_type is not None and has_doubles(self.arrow_type)

    def serialize(self, value: Any) -> bytes:
        """Returns one value as compact JSON.

        Raises:
            SerializationError: JSON or the schema does not have such a value.
        """
        try:
            if self.schema is None:
                return dumps(value)
            if value is None:
                raise ValueError(" is None, not an object")
            return orjson.dumps(self._to_write(value))
        except (ValueError, TypeError) as error:
            raise SerializationError(
                f"The value is not JSON of this schema: it{_reason(error)}.", remedy="correct the value or the schema"
            ) from error

    def deserialize(self, data: bytes) -> Any:
        """Returns the value in ``data``: with a schema a dict with exactly its fields.

        Raises:
            SerializationError: it is not JSON, or does not fit the schema.
        """
        try:
            if self.schema is None:
                return loads(data)
            value = orjson.loads(data)
            if self._checks_numbers and has_inexact(data):
                value = loads_exactly(data)
            if value is None:
                raise ValueError(" is null, not an object")
            return self._to_read(value)
        except ValueError as error:
            raise SerializationError(
                f"The {len(data)} bytes are not JSON of this schema: the value{_reason(error)}.",
                remedy="correct the producer, or let the deserialization handler continue",
            ) from error

    def serialize_column(self, values: pa.Array) -> pa.Array:
        """Returns each row of a struct array as compact JSON, built in columns.

        Raises:
            SerializationError: the rows do not fit the schema, a number is not finite, or there is no schema.
        """
        rows = conformed(values, self._columns_type())
        text = encode_column(rows).cast(pa.binary())
        if not rows.null_count:
            return text
        return pc.if_else(rows.is_valid(), text, pa.scalar(None, pa.binary()))

    def deserialize_column(self, data: pa.Array) -> pa.Array:
        """Returns the rows of a binary array of JSON objects.

        Raises:
            SerializationError: at least one value is malformed or does not fit the schema, or there is no schema.
        """
        wanted = self._columns_type()
        column = as_binary(data)
        present = column.drop_null() if column.null_count else column
        if not len(present):
            return pa.nulls(len(column), wanted)
        rows = decode_objects(present, wanted, round_doubles=self.round_doubles)
        if rows is None:
            rows = pa.array([self.deserialize(value) for value in present.to_pylist()], type=wanted)
        if not column.null_count:
            return rows
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        return rows.take(pa.array(np.cumsum(valid) - 1, mask=~valid))

    def _columns_type(self) -> pa.DataType:
        wanted = self.arrow_type
        if wanted is None:
            raise SerializationError(
                "JSON without a schema has no columns.", remedy="give JsonSerde a schema, or work value by value"
            )
        return wanted


def _reason(error: Exception) -> str:
    # The converter's messages go on after the path to the field; orjson's stand alone.
    text = str(error)
    return text if text.startswith((" ", ".", "[")) else f": {text}"
