"""The Arrow types of Avro schemas, where a column gives back exactly the values that Avro has."""

from __future__ import annotations

import pyarrow as pa

from millrace.serdes.avro_schema import AvroType
from millrace.serdes.avro_unions import is_simple

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    # Numbers, as single values are: ``datetime`` has no nanoseconds.
    "timestamp-nanos": pa.int64(),
    "local-timestamp-nanos": pa.int64(),
}


def arrow_type_of(kind: AvroType) -> pa.DataType | None:
    """Returns the Arrow type of a type's values, or ``None`` where Arrow would change them.

    Maps, unions of several types, recursive records and the logical types beside dates and timestamps have none; nor
    has anything that contains them. Every field is nullable: whether null is allowed is Avro's to say.
    """
    return _type_of(kind, {})


def _type_of(kind: AvroType, named: dict[str, pa.DataType | None]) -> pa.DataType | None:
    if kind.logical is not None:
        return _LOGICAL.get(kind.logical)
    if kind.kind == "union":
        others = [branch for branch in kind.branches if branch.kind != "null"]
        return _type_of(others[0], named) if len(others) == 1 and is_simple(kind) else None
    if kind.kind == "array":
        items = _type_of(kind.item, named)
        return None if items is None else pa.list_(items)
    if kind.kind != "record":
        return _PRIMITIVES.get(kind.kind)
    if kind.name not in named:
        # Until its own fields are known the name stands for nothing: a recursive record has no type.
        named[kind.name] = None
        named[kind.name] = _struct_of(kind, named)
    return named[kind.name]


def _struct_of(record: AvroType, named: dict[str, pa.DataType | None]) -> pa.DataType | None:
    fields = [(field.name, _type_of(field.type, named)) for field in record.fields]
    # A struct without fields has no column that knows its length in every Arrow function.
    if not fields or any(kind is None for _, kind in fields):
        return None
    return pa.struct(fields)


def as_numbers(column: pa.Array) -> pa.Array:
    """Returns a column whose dates and timestamps, which ``datetime`` may not hold, are replaced by their numbers."""
    wanted = _numbers(column.type)
    return column if wanted.equals(column.type) else column.view(wanted)


def _numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_numbers(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_numbers(field.type)) for field in kind])
    return kind
