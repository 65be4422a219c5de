"""JSON in columns: a binary array to a struct array, and back by joins of text columns.

Objects that are written alike are read by :mod:`millrace.serdes.json_shapes`, all others by Arrow's parser. That is
more lenient than JSON and than orjson, which reads single values: it takes NaN, several objects in one value, bytes
that are not UTF-8, and numbers beyond a double. So :func:`decode_objects` proves first that the two agree on this
column, and returns nothing where it cannot; the caller then reads value by value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from millrace.errors import SerializationError
from millrace.json_numbers import column_has_inexact
from millrace.serdes.columns import bytes_and_offsets
from millrace.serdes.json_shapes import read_alike
from millrace.serdes.json_types import converter

_BLOCK_BYTES = 1 << 20
_SAFE_DEPTH = 1_000
"""orjson refuses more than 1,024 levels; Arrow's parser recurses without a limit in fields that it ignores."""

# A number of fewer digits needs an exponent of three digits to leave the range of a double.
_SAFE_DIGITS = 200
_SUSPECT = r"NaN|Inf|[eE]\+?[0-9]{3}"
_NON_FINITE = r"[:\[, -](NaN|Inf)|[:\[, ]-?[0-9][0-9.]*[eE]\+?[0-9]{3}"
_INTEGER_MINUS_ZERO = r"-0[,}\] ]"


def decode_objects(  # noqa: PLR0911 - one for each reason to read single values
    values: pa.Array, wanted: pa.StructType, *, round_doubles: bool = False
) -> pa.StructArray | None:
    """Returns the rows of a column of JSON objects, or ``None`` where it is not certain to equal single decoding.

    Args:
        values: binary array without nulls, not empty.
        wanted: type of the rows, as :func:`millrace.serdes.json_types.checked_type` gives it.
        round_doubles: whether a number that a double does not hold is read as the nearest one.
    """
    alike = read_alike(values, wanted)
    if alike is not None:
        return alike
    longest = _longest_plain_object(values)
    if longest is None:
        return None
    # A value begins with "{" and ends with "}"; inside a string a newline is an error, and after "}" an object cannot
    # go on with "{". So no object spans two values, and n objects in n values are one in each.
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")
    try:
        text = joined.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    table = _parsed(joined, wanted, longest, "error")
    if table is None and _ignorable(values, text, longest):
        # The usual reason is a field outside the schema; what the parser skips has been looked at as text.
        table = _parsed(joined, wanted, longest, "ignore")
    if table is None or table.num_rows != len(values):
        return None
    columns = [table.column(field.name).combine_chunks() for field in wanted]
    arrays = [pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    rows = pa.StructArray.from_arrays(arrays, fields=list(wanted))
    if not _all_finite(rows):
        return None
    # "-0" is the integer 0 to orjson and the double -0.0 to Arrow; "-0.0" is the same to both.
    if _has_negative_zero(rows) and pc.match_substring_regex(text, _INTEGER_MINUS_ZERO)[0].as_py():
        return None
    if not round_doubles and column_has_inexact(bytes_and_offsets(joined)[0], _double_values(rows)):
        return None
    return rows


def _longest_plain_object(values: pa.Array) -> int | None:
    """Returns the length of the longest value if all are ``{...}`` without control characters, else ``None``."""
    spanned, offsets = bytes_and_offsets(values)
    lengths = np.diff(offsets)
    if lengths.min() < 2 or spanned.min() < 0x20:
        return None
    if not (spanned[offsets[:-1]] == ord("{")).all() or not (spanned[offsets[1:] - 1] == ord("}")).all():
        return None
    return int(lengths.max())


def _parsed(joined: pa.Array, wanted: pa.StructType, longest: int, unexpected: str) -> pa.Table | None:
    spanned, _ = bytes_and_offsets(joined)
    try:
        return pyarrow.json.read_json(
            pa.BufferReader(pa.py_buffer(spanned)),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, longest + 2)),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(list(wanted)), unexpected_field_behavior=unexpected
            ),
        )
    except pa.ArrowInvalid:
        return None


def _ignorable(values: pa.Array, text: pa.Array, longest: int) -> bool:
    """Returns whether what the parser skips cannot be something that only orjson refuses."""
    if pc.match_substring_regex(text, _SUSPECT)[0].as_py() and pc.match_substring_regex(text, _NON_FINITE)[0].as_py():
        return False
    if longest <= _SAFE_DIGITS:
        return True
    long_values = values.filter(pc.greater(pc.binary_length(values), _SAFE_DIGITS)).cast(pa.string())
    if pc.any(pc.match_substring_regex(long_values, f"[0-9]{{{_SAFE_DIGITS}}}")).as_py():
        return False
    if longest <= _SAFE_DEPTH:
        return True
    levels = pc.add(pc.count_substring(long_values, "["), pc.count_substring(long_values, "{"))
    return bool(pc.max(levels).as_py() <= _SAFE_DEPTH)


def _doubles(column: pa.Array) -> list[pa.Array]:
    """Returns the double columns inside ``column``."""
    if pa.types.is_floating(column.type):
        return [column]
    if pa.types.is_struct(column.type):
        return [leaf for child in column.flatten() for leaf in _doubles(child)]
    if pa.types.is_list(column.type):
        return _doubles(column.flatten())
    return []


def _double_values(column: pa.Array) -> list[Any]:
    return [pc.fill_null(leaf, 1.0).to_numpy(zero_copy_only=False) for leaf in _doubles(column)]


def _all_finite(column: pa.Array) -> bool:
    return all(pc.all(pc.is_finite(leaf)).as_py() is not False for leaf in _doubles(column))


def _has_negative_zero(column: pa.Array) -> bool:
    return any(np.signbit(numbers[numbers == 0.0]).any() for numbers in _double_values(column))


def encode_column(column: pa.Array) -> pa.Array:
    """Returns each value of ``column`` as compact JSON text, as orjson writes it; nulls are the text ``null``.

    Args:
        column: of a type that :func:`millrace.serdes.json_types.checked_type` takes.

    Returns:
        A string array without nulls.

    Raises:
        SerializationError: a double is not finite.
    """
    kinds = pa.types
    if kinds.is_struct(column.type):
        text = _struct_text(column)
    elif kinds.is_integer(column.type) or kinds.is_boolean(column.type):
        text = column.cast(pa.string())
    elif kinds.is_floating(column.type):
        text = _double_text(column)
    elif kinds.is_string(column.type):
        text = _string_text(column)
    else:
        return _text_by_value(column)
    if not column.null_count:
        return text
    return pc.if_else(column.is_valid(), text, "null")


def _struct_text(column: pa.StructArray) -> pa.Array:
    pieces: list[Any] = []
    opening = "{"
    for field, child in zip(column.type, column.flatten(), strict=True):
        pieces += [pa.scalar(f"{opening}{orjson.dumps(field.name).decode()}:"), encode_column(child)]
        opening = ","
    return pc.binary_join_element_wise(*pieces, pa.scalar("}"), "")


def _double_text(column: pa.Array) -> pa.Array:
    if not _all_finite(column):
        raise SerializationError(
            "A column has numbers that are not finite, which JSON cannot write.", remedy="filter or replace them"
        )
    if not len(column):
        return pa.array([], pa.string())
    numbers = np.ascontiguousarray(pc.fill_null(column, 0.0).to_numpy())
    listed = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode()
    return pc.split_pattern(pa.array([listed]), ",").flatten()


def _string_text(column: pa.Array) -> pa.Array:
    if len(column):
        spanned, _ = bytes_and_offsets(column)
        if len(spanned) and (spanned.min() < 0x20 or (spanned == ord('"')).any() or (spanned == ord("\\")).any()):
            return _text_by_value(column)
    return pc.binary_join_element_wise(pa.scalar('"'), column, pa.scalar('"'), "")


def _text_by_value(column: pa.Array) -> pa.Array:
    convert = converter(column.type, "refuse")
    try:
        return pa.array([orjson.dumps(convert(value)).decode() for value in column.to_pylist()], pa.string())
    except ValueError as error:
        raise SerializationError(f"A value{error}.") from error
