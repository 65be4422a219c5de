"""Schemas as fastavro reads and writes them without a decision of its own.

fastavro gets no logical types (it cannot hold every value), no defaults, no names (whose form it checks), and no union
that it would have to choose a branch of: each branch of such a union becomes a record with one field, whose name is the
branch's number. A record's bytes are those of its fields, so the bytes are the same.
"""

from __future__ import annotations

from typing import Any

from millrace.serdes.avro_schema import AvroType
from millrace.serdes.avro_unions import is_simple

MALFORMED = object()
"""What stands for a symbol or a branch that the schema does not have."""

_NEGATIVE_INDEXES = 64
"""fastavro takes a negative index for one from the end; those of one byte find :data:`MALFORMED` there."""


def raw_schema(kind: AvroType, *, reading: bool) -> dict[str, Any]:
    """Returns a record with the one field ``v`` of ``kind``, or ``kind`` itself if it is a record.

    Args:
        kind: the type.
        reading: whether it is to be read with; else to be written with.
    """
    built = _Raw(reading).of(kind)
    if kind.kind != "record":
        built = {"type": "record", "name": "Value", "fields": [{"name": "v", "type": built}]}
    assert isinstance(built, dict)
    # Without these fastavro parses the schema at each call.
    built["__fastavro_parsed"] = True
    built["__named_schemas"] = {}
    return built


class _Raw:
    def __init__(self, reading: bool) -> None:
        self._reading = reading
        self._known: dict[int, dict[str, Any]] = {}

    def of(self, kind: AvroType) -> Any:
        if kind.kind == "union":
            return self._union(kind)
        if kind.kind in ("array", "map"):
            return {"type": kind.kind, "items" if kind.kind == "array" else "values": self.of(kind.item)}
        if not kind.name:
            return kind.kind
        known = self._known.get(id(kind))
        if known is None:
            known = self._known[id(kind)] = {"type": kind.kind, "name": f"N{len(self._known)}"}
            if kind.kind == "record":
                known["fields"] = [{"name": field.name, "type": self.of(field.type)} for field in kind.fields]
            elif kind.kind == "enum":
                known["symbols"] = [*kind.symbols, *self._padding()]
            else:
                known["size"] = kind.size
        return known

    def _union(self, union: AvroType) -> list[Any]:
        branches = [self.of(branch) for branch in union.branches]
        if is_simple(union):
            # Without padding, which costs fastavro as much as reading the value.
            return branches
        numbered = [
            {"type": "record", "name": f"B{index}", "fields": [{"name": index, "type": branch}]}
            for index, branch in enumerate(branches)
        ]
        # The name of no type: reading one fails.
        return [*numbered, *("malformed" for _ in self._padding())]

    def _padding(self) -> list[Any]:
        return [MALFORMED] * _NEGATIVE_INDEXES if self._reading else []
