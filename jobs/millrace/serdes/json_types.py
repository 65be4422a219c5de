"""The types a JSON schema may use, and the check of one value against them."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from millrace.errors import ConfigurationError
from millrace.json_numbers import WrittenFloat, is_kept_as_double

Converter = Callable[[Any], Any]
UnknownFields = Literal["ignore", "refuse"]


def checked_type(wanted: pa.DataType, path: str) -> pa.DataType:
    """Returns ``wanted`` with every field nullable and without metadata, if JSON can carry it.

    Raises:
        ConfigurationError: a type JSON has no exact form for, a field that may not be null, a name used twice, or a
            struct without fields.
    """
    kinds = pa.types
    if any(known.equals(wanted) for known in (pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string())):
        return wanted
    if kinds.is_list(wanted):
        return pa.list_(pa.field("item", checked_type(wanted.value_type, f"{path}[]")))
    if kinds.is_struct(wanted):
        return pa.struct([_checked_field(field, f"{path}.{field.name}") for field in _distinct(list(wanted), path)])
    raise ConfigurationError(
        f"The JSON schema's field {path} is a {wanted}, which JSON does not carry exactly.",
        remedy="use bool, int32, int64, double, string, list or struct, and convert in the topology",
    )


def has_doubles(wanted: pa.DataType) -> bool:
    """Returns whether a double stands anywhere in a type."""
    if pa.types.is_floating(wanted):
        return True
    return any(has_doubles(wanted.field(place).type) for place in range(wanted.num_fields))


def _checked_field(field: pa.Field, path: str) -> pa.Field:
    if not field.nullable:
        raise ConfigurationError(
            f"The JSON schema's field {path} is not nullable, but a JSON object may lack it.",
            remedy="make it nullable and filter in the topology",
        )
    return pa.field(field.name, checked_type(field.type, path))


def _distinct(fields: list[pa.Field], path: str) -> list[pa.Field]:
    names = [field.name for field in fields]
    if not names:
        raise ConfigurationError(f"The JSON schema's struct {path or 'at the top'} has no field.")
    if len(set(names)) != len(names):
        raise ConfigurationError(f"The JSON schema's struct {path or 'at the top'} has a name twice: {names}.")
    return fields


# Values go into messages, and so into logs and dead-letter record headers: only their beginnings.
_shown = reprlib.repr


@lru_cache(maxsize=512)
def converter(wanted: pa.DataType, unknown: UnknownFields, *, round_doubles: bool = False) -> Converter:
    """Returns a function that takes a Python value (or ``None``) to the one an Arrow array of ``wanted`` holds.

    It raises ``ValueError``, with the path to the field, for a value of another kind or out of range, for non-finite
    numbers and, where ``unknown`` is ``"refuse"``, for fields that a struct does not have. A number that a double does
    not hold is one, too, unless ``round_doubles``.
    """
    kinds = pa.types
    if kinds.is_boolean(wanted):
        return _boolean
    if kinds.is_integer(wanted):
        return _integer(wanted)
    if kinds.is_floating(wanted):
        return _double(round_doubles=round_doubles)
    if kinds.is_string(wanted):
        return _string
    if kinds.is_list(wanted):
        return _list(converter(wanted.value_type, unknown, round_doubles=round_doubles))
    return _struct(wanted, unknown, round_doubles)


def _boolean(value: Any) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise ValueError(f" is {_shown(value)}, not a boolean")


def _string(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f" is {_shown(value)}, not a string")


def _integer(wanted: pa.DataType) -> Converter:
    highest = 2 ** (wanted.bit_width - 1) - 1
    lowest = -highest - 1

    def convert(value: Any) -> Any:
        if value is None:
            return None
        number = int(value) if isinstance(value, np.integer) else value
        if isinstance(number, bool) or not isinstance(number, int) or not lowest <= number <= highest:
            raise ValueError(f" is {_shown(value)}, not an {wanted}")
        return number

    return convert


def _double(*, round_doubles: bool) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, float | np.floating):
            number = float(value)
            if not round_doubles and isinstance(value, WrittenFloat):
                raise ValueError(f" is {value}, which a double does not hold exactly")
            if not math.isfinite(number):
                raise ValueError(f" is {_shown(value)}, which JSON cannot write")
            return number
        if isinstance(value, Decimal):
            raise ValueError(f" is {_shown(str(value))}, which a double does not hold exactly")
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise ValueError(f" is {_shown(value)}, not a number")
        number = float(value)
        if not round_doubles and not is_kept_as_double(int(value)):
            raise ValueError(f" is {_shown(value)}, which a double does not hold exactly")
        return number

    return convert


def _list(element: Converter) -> Converter:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise ValueError(f" is {_shown(value)}, not a list")
        converted: list[Any] = []
        try:
            for item in value:
                converted.append(element(item))  # noqa: PERF401 - its length is the place of the error
        except ValueError as error:
            raise ValueError(f"[{len(converted)}]{error}") from error
        return converted

    return convert


def _struct(wanted: pa.StructType, unknown: UnknownFields, round_doubles: bool) -> Converter:
    fields = [(field.name, converter(field.type, unknown, round_doubles=round_doubles)) for field in wanted]
    known = {name for name, _ in fields}

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ValueError(f" is {_shown(value)}, not an object")
        if unknown == "refuse" and not known.issuperset(value):
            raise ValueError(f" has the fields {sorted(map(str, set(value) - known))}, which the schema has not")
        name = ""
        try:
            converted = {}
            for name, field in fields:
                converted[name] = field(value.get(name))
        except ValueError as error:
            raise ValueError(f".{name}{error}") from error
        return converted

    return convert
