"""The hashes of primary rows and the bytes of foreign keys, by which a foreign-key join compares rows."""

from __future__ import annotations

from millrace.errors import SerializationError
from millrace.kafka.murmur3 import hash128
from millrace.serdes import Serde
from millrace.task.columns import Column
from millrace.task.serialization import to_bytes_list


def row_hashes(values: Column, serde: Serde, node: str) -> list[bytes | None]:
    """Returns the hash of each row's value, ``None`` where there is no row.

    Raises:
        SerializationError: a value is not of the serde's type.
    """
    try:
        written = to_bytes_list(values, serde)
    except SerializationError as error:
        raise SerializationError(
            f"Node {node} cannot hash a value of the table with {type(serde).__name__}: {error.message}",
            remedy="give the table that has the foreign key a value serde (Consumed, Materialized); without one values "
            "are taken for bytes",
        ) from error
    return [None if value is None else hash128(value) for value in written]


def foreign_key_bytes(keys: Column, serde: Serde, node: str) -> list[bytes | None]:
    """Returns the foreign keys as bytes, in the form of the foreign table's keys.

    Raises:
        SerializationError: one is not of the serde's type.
    """
    try:
        return to_bytes_list(keys, serde)
    except SerializationError as error:
        raise SerializationError(
            f"Node {node} cannot write a foreign key with {type(serde).__name__}: {error.message}",
            remedy="let the extractor return what the keys of the other table are, and give that table a key serde",
        ) from error
