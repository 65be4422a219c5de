"""The conversion of columns to bytes and back, in the serde's columnar form where serde and column have one."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from millrace.errors import ConfigurationError, SerializationError, StateError
from millrace.serdes import (
    BytesSerde,
    FunctionSerde,
    JsonSerde,
    Serde,
    SessionWindowedSerde,
    TimeWindowedSerde,
    serialize_sessions,
)
from millrace.task.columns import Column, WindowedColumn


def or_default(serde: Serde | None) -> Serde:
    """Returns the serde or, where an application configures none, the one that leaves bytes unchanged."""
    return BytesSerde() if serde is None else serde


def read_stored(serde: Serde, data: bytes, *, store: str) -> Any:
    """Returns the value of a store's bytes; if they cannot be read, the state is damaged, not the record.

    Raises:
        StateError: the bytes are not what the serde writes.
    """
    try:
        return serde.deserialize(data)
    except SerializationError as error:
        raise StateError(
            f"Store {store} holds {len(data)} bytes that {type(serde).__name__} cannot read: {error.message}",
            remedy="use the serde that the store was written with; or give the store another name, or reset the "
            "application, and it starts empty",
        ) from error


def is_of_user(serde: Serde) -> bool:
    """Returns whether a serde is the user's own; Millrace's serdes can read whatever they write."""
    return isinstance(serde, FunctionSerde) or not type(serde).__module__.startswith("millrace.")


def to_bytes_array(column: Column, serde: Serde) -> pa.Array:
    """Returns the column as a binary array.

    Raises:
        SerializationError: a value is not of the serde's type.
    """
    if isinstance(column, WindowedColumn):
        return pa.array(_windowed_to_bytes(column, serde), type=pa.binary())
    if column.is_arrow:
        if serde.arrow_type is not None:
            return serde.serialize_column(column.arrow)
        if type(serde) is JsonSerde and pa.types.is_struct(column.arrow.type):
            typed = _json_of(column.arrow.type)
            if typed is not None:
                return typed.serialize_column(column.arrow)
    return pa.array([None if value is None else serde.serialize(value) for value in column.objects], type=pa.binary())


@lru_cache(maxsize=128)
def _json_of(kind: pa.StructType) -> JsonSerde | None:
    """Returns a JSON serde for columns of this type; ``None`` where JSON cannot write them as columns (e.g. dates)."""
    try:
        return JsonSerde(schema=pa.schema(list(kind)))
    except ConfigurationError:
        return None


def to_bytes_list(column: Column, serde: Serde) -> list[bytes | None]:
    """Returns the column as a list of bytes."""
    if isinstance(column, WindowedColumn):
        return _windowed_to_bytes(column, serde)
    if column.is_arrow:
        encoded: list[bytes | None] = to_bytes_array(column, serde).to_pylist()
        return encoded
    serialize = serde.serialize
    return [None if value is None else serialize(value) for value in column.objects]


def _windowed_to_bytes(column: WindowedColumn, serde: Serde) -> list[bytes | None]:
    if not isinstance(serde, TimeWindowedSerde | SessionWindowedSerde):
        if is_of_user(serde):
            return [serde.serialize(key) for key in column.objects]
        raise SerializationError(
            f"A windowed key cannot be written with {type(serde).__name__}.",
            remedy="give the topic a TimeWindowedSerde, a SessionWindowedSerde or a serde of your own for Windowed "
            "keys, or map the key to a plain one first",
        )
    inner = [key for key in to_bytes_list(column.inner, serde.inner) if key is not None]
    if isinstance(serde, SessionWindowedSerde):
        return [*serialize_sessions(inner, column.starts, column.ends)]
    encoded: list[bytes | None] = list(serde.serialize_windowed(inner, column.starts))
    return encoded


def from_bytes(values: list[bytes | None] | pa.Array, serde: Serde) -> Column:
    """Returns stored bytes as a column.

    Raises:
        SerializationError: the bytes are not what the serde writes.
    """
    if serde.arrow_type is not None:
        data = values if isinstance(values, pa.Array) else pa.array(values, type=pa.binary())
        return Column(arrow=serde.deserialize_column(data))
    listed: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    deserialize = serde.deserialize
    return Column(objects=[None if value is None else deserialize(value) for value in listed])
