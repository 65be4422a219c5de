"""From Avro schemas to Arrow types, where a column gives back exactly the values that Avro has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
}
_BY_NAME: dict[str, pa.DataType] = {"enum": pa.string(), "fixed": pa.binary()}


def arrow_type_of(schema: Any) -> pa.DataType | None:
    """The Arrow type of a schema's values, or ``None`` where Arrow would change them.

    Maps, unions of several types, recursive records and the logical types beside dates and timestamps have none; nor
    has anything that contains them. Every field is nullable: whether null is allowed is Avro's to say.

    Args:
        schema: a schema as ``fastavro.parse_schema`` returns it, with full names.
    """
    return _type_of(schema, {})


def _type_of(schema: Any, named: dict[str, pa.DataType | None]) -> pa.DataType | None:
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or named.get(schema)
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        return _type_of(others[0], named) if len(others) == 1 else None
    kind = schema["type"]
    if "logicalType" in schema:
        return _LOGICAL.get((kind, schema["logicalType"])) if isinstance(kind, str) else None
    if kind == "array":
        items = _type_of(schema["items"], named)
        return None if items is None else pa.list_(items)
    if "name" not in schema:
        return None if kind == "map" else _type_of(kind, named)
    # Until its own fields are known the name stands for nothing: a recursive record has no type.
    named[schema["name"]] = None
    named[schema["name"]] = _struct_of(schema, named) if kind == "record" else _BY_NAME.get(kind)
    return named[schema["name"]]


def _struct_of(record: Mapping[str, Any], named: dict[str, pa.DataType | None]) -> pa.DataType | None:
    fields = [(field["name"], _type_of(field["type"], named)) for field in record["fields"]]
    # A struct without fields has no column that knows its length in every Arrow function.
    if not fields or any(kind is None for _, kind in fields):
        return None
    return pa.struct(fields)
