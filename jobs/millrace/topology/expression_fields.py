"""The fields that a pyarrow expression names: those of the value, and the record's own parts.

One rule: a name is a field of the value where values have one of that name. ``key``, ``value`` and ``timestamp`` name
the record's own parts where they have not. Whether they have must be known when the topology is built
(:mod:`millrace.topology.expression_checks`); the functions here say which of the two is meant, whatever values have.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import TopologyError

Path = tuple[str, ...]
"""Names of a field, from the outermost on."""


class RecordPart(StrEnum):
    """A part of a record, besides the fields of its value, that an expression sees."""

    KEY = "key"
    VALUE = "value"
    TIMESTAMP = "timestamp"


EXPLICIT: dict[str, RecordPart] = {f"record.{part}": part for part in RecordPart}
"""Names that always mean the record's own part."""

SHORT: dict[str, RecordPart] = {part.value: part for part in RecordPart}
"""Names that mean it where values have no field of that name."""


def record_key() -> pc.Expression:
    """Returns the record's key in an expression, also where values have a field ``key``.

    Example::

        readings.filter(record_key() == value_field("device"))
    """
    return pc.field(f"record.{RecordPart.KEY}")


def record_value() -> pc.Expression:
    """Returns the record's whole value in an expression, also where it has a field ``value``."""
    return pc.field(f"record.{RecordPart.VALUE}")


def record_timestamp() -> pc.Expression:
    """Returns the record's event time in an expression, milliseconds, also where values have a field ``timestamp``."""
    return pc.field(f"record.{RecordPart.TIMESTAMP}")


def value_field(name: str, *nested: str) -> pc.Expression:
    """Returns a field of the value in an expression, also where it is called ``key``, ``value`` or ``timestamp``.

    Args:
        name: the field.
        nested: names of the fields inside it, from the outermost on.
    """
    return pc.field(f"record.{RecordPart.VALUE}", name, *nested)


@dataclass(frozen=True)
class ExpressionFields:
    """The fields and parts of a record that an expression names.

    Args:
        paths: the fields, each once, in the order in which they appear.
        is_field: the whole expression is one field.
    """

    paths: tuple[Path, ...]
    is_field: bool

    @property
    def roots(self) -> dict[str, tuple[Path, ...]]:
        """The paths by their first name, without it; an empty one means the field as a whole."""
        found: dict[str, list[Path]] = {}
        for path in self.paths:
            found.setdefault(path[0], []).append(path[1:])
        return {root: tuple(paths) for root, paths in found.items()}


def fields_of(expression: pc.Expression) -> ExpressionFields:
    """Returns the fields that an expression names.

    Raises:
        TopologyError: it names a field by a number, which no process that it is sent to could read.
    """
    return _fields_of(serialized(expression))


def serialized(expression: pc.Expression) -> bytes:
    """Returns the expression as it is sent to other processes; equal for equal expressions.

    Raises:
        TopologyError: it cannot be sent.
    """
    try:
        _, (buffer,) = expression.__reduce__()
    except pa.ArrowNotImplementedError as error:
        raise TopologyError(
            f"The expression {expression} cannot be sent to the workers: {error}.",
            remedy="name fields by their names, not by numbers",
        ) from error
    return bytes(buffer)


@lru_cache(maxsize=512)
def _fields_of(expression: bytes) -> ExpressionFields:
    # pyarrow has no way to ask; it sends an expression as a schema whose metadata is a walk through its nodes.
    nodes = iter(_metadata(pa.ipc.open_file(pa.py_buffer(expression)).schema))
    paths: dict[Path, None] = {}
    first = ""
    for kind, text in nodes:
        first = first or kind
        if kind == "field_ref":
            paths[(text,)] = None
        elif kind == "nested_field_ref":
            paths[tuple(next(nodes)[1] for _ in range(int(text)))] = None
    return ExpressionFields(tuple(paths), first in {"field_ref", "nested_field_ref"})


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """The pairs of a schema's metadata in their order; ``Schema.metadata`` keeps one of each name.

    They are read through Arrow's C data interface, whose layout is fixed: ``metadata`` is the third pointer of an
    ``ArrowSchema``, and counts and lengths are 32-bit integers.
    """
    capsule = schema.__arrow_c_schema__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointers = ctypes.cast(pointer_of(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))
    at = pointers[2]
    if not at:
        return []
    count = ctypes.c_int32.from_address(at).value
    at += 4
    texts: list[str] = []
    for _ in range(2 * count):
        length = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return list(zip(texts[::2], texts[1::2], strict=True))
