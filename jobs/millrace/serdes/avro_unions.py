"""The branches of Avro unions that the Python type of a value alone decides."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

from millrace.serdes.avro_logical import kind_of, unit_of
from millrace.serdes.avro_schema import AvroType

# What values of each kind are read as, and what else is written to it.
_TYPES: dict[str, tuple[tuple[type, ...], tuple[type, ...]]] = {
    "null": ((type(None),), ()),
    "boolean": ((bool,), ()),
    "int": ((int,), ()),
    "long": ((int,), ()),
    "float": ((float,), (int,)),
    "double": ((float,), (int,)),
    "string": ((str,), ()),
    "enum": ((str,), ()),
    "bytes": ((bytes,), ()),
    "fixed": ((bytes,), ()),
    "array": ((list,), (tuple,)),
    "map": ((dict,), ()),
    "record": ((dict,), ()),
}
_LOGICAL_TYPES: dict[str, tuple[tuple[type, ...], tuple[type, ...]]] = {
    "date": ((date,), (datetime, int, str)),
    "time": ((time,), (int,)),
    "timestamp": ((datetime,), (int,)),
    "local-timestamp": ((datetime,), (int,)),
    "decimal": ((Decimal,), (bytes,)),
    "uuid": ((UUID, str), ()),
}


def _types_of(branch: AvroType) -> tuple[tuple[type, ...], tuple[type, ...]]:
    logical = branch.logical
    if logical is None:
        return _TYPES.get(branch.kind, ((), ()))
    if unit_of(logical) == "ns":
        return (int,), (datetime,)
    return _LOGICAL_TYPES[kind_of(logical) or logical]


def undecided(union: AvroType) -> frozenset[int]:
    """Returns the branches whose values could have been read from another branch too, going by their Python types."""
    exact = [set(_types_of(branch)[0]) for branch in union.branches]
    # A union in a union: its values may be of any type.
    anything = any(branch.kind == "union" for branch in union.branches)
    return frozenset(
        index
        for index, own in enumerate(exact)
        if anything or any(own & other for second, other in enumerate(exact) if second != index)
    )


def decided_types(union: AvroType) -> dict[type, int]:
    """Returns the Python types that only one branch takes, with that branch."""
    takers: dict[type, list[int]] = {}
    for index, branch in enumerate(union.branches):
        for each in _all_types(branch):
            takers.setdefault(each, []).append(index)
    if any(branch.kind == "union" for branch in union.branches):
        return {}
    # A pair of a name and a value says its branch itself, so tuples are never decided by their type.
    return {each: indices[0] for each, indices in takers.items() if len(indices) == 1 and each is not tuple}


def _all_types(branch: AvroType) -> Iterable[type]:
    exact, loose = _types_of(branch)
    return (*exact, *loose)


def is_simple(union: AvroType) -> bool:
    """Returns whether the union is null, one type, or these two: then every value says its branch."""
    others = [branch for branch in union.branches if branch.kind != "null"]
    return len(others) <= 1 and len(union.branches) - len(others) <= 1 and all(b.kind != "union" for b in others)
