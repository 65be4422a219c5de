"""Defaults of a reader's fields, as Avro's specification reads their JSON."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from millrace.avro_branches import with_branch
from millrace.serdes.avro_logical import from_raw
from millrace.serdes.avro_schema import MISSING, AvroType, Mode, SchemaError, labels_of
from millrace.serdes.avro_unions import undecided

_FLOAT = struct.Struct("<f")
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_RANGES = {"int": 2**31, "long": 2**63}


def check_defaults(kind: AvroType) -> None:
    """Checks all defaults inside a reader's schema.

    Raises:
        SchemaError: one is not of its field's type.
    """
    seen: set[int] = set()

    def check(each: AvroType) -> None:
        if id(each) in seen:
            return
        seen.add(id(each))
        for field in each.fields:
            if field.default is not MISSING:
                try:
                    default_maker(field.type, field.default, "objects")
                except SchemaError as error:
                    raise SchemaError(f"the default of {each.name}.{field.name} {error}") from None
            check(field.type)
        for inner in (each.items, *each.branches):
            if inner is not None:
                check(inner)

    check(kind)


def default_maker(kind: AvroType, default: Any, mode: Mode) -> Callable[[], Any]:
    """Returns a function that gives a field's default; a new object at each call where it can be changed.

    Args:
        kind: the field's type.
        default: its default, as JSON reads it.
        mode: what for.

    Raises:
        SchemaError: it is not of the type.
    """
    try:
        value = _value(kind, default, mode)
    except RecursionError:
        raise SchemaError("contains itself") from None
    if isinstance(value, dict | list):
        return lambda: _value(kind, default, mode)
    return lambda: value


def _value(kind: AvroType, default: Any, mode: Mode) -> Any:
    if kind.kind == "union":
        return _of_first_fitting(kind, default, mode)
    raw = _raw(kind, default, mode)
    convert = from_raw(kind) if mode == "objects" else None
    return raw if convert is None else convert(raw)


def _of_first_fitting(union: AvroType, default: Any, mode: Mode) -> Any:
    # Until Avro 1.11 a default is of the first branch, since 1.12 of the first that it fits.
    problems = []
    for index, branch in enumerate(union.branches):
        try:
            value = _value(branch, default, mode)
        except SchemaError as error:
            problems.append(str(error))
            continue
        return with_branch(value, labels_of(union)[index]) if index in undecided(union) else value
    raise SchemaError("; ".join(problems))


def _raw(kind: AvroType, default: Any, mode: Mode) -> Any:  # noqa: PLR0911 - one for each kind of type
    match kind.kind:
        case "null" if default is None:
            return None
        case "boolean" if isinstance(default, bool):
            return default
        case "int" | "long" if isinstance(default, int) and not isinstance(default, bool):
            limit = _RANGES[kind.kind]
            if -limit <= default < limit:
                return default
        case "float" | "double":
            return _floating(kind.kind, default)
        case "string" if isinstance(default, str):
            return default
        case "enum" if default in kind.symbols:
            return default
        case "bytes" | "fixed" if isinstance(default, str):
            return _bytes(kind, default)
        case "array" if isinstance(default, list):
            return [_value(kind.item, item, mode) for item in default]
        case "map" if isinstance(default, dict):
            return {key: _value(kind.item, item, mode) for key, item in default.items()}
        case "record" if isinstance(default, dict):
            return _record(kind, default, mode)
        case _:
            pass
    raise SchemaError(f"is {default!r}, not of the type {kind.label}")


def _floating(kind: str, default: Any) -> float:
    number = default if isinstance(default, int | float) and not isinstance(default, bool) else None
    if default in _NOT_FINITE:
        number = float(default)
    if number is None:
        raise SchemaError(f"is {default!r}, not of the type {kind}")
    try:
        return float(number) if kind == "double" else float(_FLOAT.unpack(_FLOAT.pack(number))[0])
    except OverflowError:
        raise SchemaError(f"is {default!r}, beyond the type {kind}") from None


def _bytes(kind: AvroType, default: str) -> bytes:
    try:
        data = default.encode("latin-1")
    except UnicodeEncodeError:
        raise SchemaError(f"is {default!r}, whose characters are not all of U+0000 to U+00FF, one a byte") from None
    if kind.kind == "fixed" and len(data) != kind.size:
        raise SchemaError(f"has {len(data)} bytes, not the {kind.size} of {kind.name}")
    return data


def _record(kind: AvroType, default: dict[str, Any], mode: Mode) -> dict[str, Any]:
    unknown = sorted(set(default) - {field.name for field in kind.fields})
    if unknown:
        raise SchemaError(f"has {', '.join(unknown)}, which {kind.name} has not")
    values = {}
    for field in kind.fields:
        own = default.get(field.name, field.default)
        if own is MISSING:
            raise SchemaError(f"lacks {field.name} of {kind.name}, which has no default")
        values[field.name] = _value(field.type, own, mode)
    return values
