"""Arrow columns that serdes share: the bytes of a column, and casts that refuse what the per-value form refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import SerializationError


def as_binary(data: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Returns ``data`` as one ``pa.binary()`` array.

    Raises:
        SerializationError: it is not a column of bytes.
    """
    column = data.combine_chunks() if isinstance(data, pa.ChunkedArray) else data
    if column.type.equals(pa.binary()):
        return column
    kinds = pa.types
    if kinds.is_large_binary(column.type) or kinds.is_fixed_size_binary(column.type) or kinds.is_null(column.type):
        return column.cast(pa.binary())
    raise SerializationError(f"A column of bytes is expected, not one of {column.type}.")


def bytes_and_offsets(data: pa.Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns the bytes (uint8, no copy) that a non-empty binary or string array spans, and its n + 1 offsets."""
    _, offsets_buffer, bytes_buffer = data.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[data.offset : data.offset + len(data) + 1]
    if bytes_buffer is None:
        return np.empty(0, dtype=np.uint8), offsets - offsets[0]
    spanned = np.frombuffer(bytes_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return spanned, offsets - offsets[0]


def fixed_width_binary(cells: np.ndarray[Any, Any], valid: pa.Array | None) -> pa.Array:
    """Returns a binary array whose values are the bytes of ``cells``, each ``cells.itemsize`` long.

    Args:
        cells: one-dimensional, already in the byte order that is to be written.
        valid: boolean array, false where the result is null; ``None`` where nothing is.
    """
    width = cells.itemsize
    count = len(cells)
    if count * width > np.iinfo(np.int32).max:
        raise SerializationError(f"A column of {count} values of {width} bytes is larger than a binary column can be.")
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    bitmap = None if valid is None else valid.buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(cells))
    return pa.Array.from_buffers(pa.binary(), count, [bitmap, pa.py_buffer(offsets), data])


def conformed(values: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array:
    """Returns ``values`` as an array of ``wanted``, where that changes no value and no kind of value.

    Integers widen or narrow, integers become floating, strings and bytes change their offsets' width; fields of a
    struct go by name and missing ones are null. A boolean is never a number and a number never a string.

    Raises:
        SerializationError: the kinds differ, a value does not fit, or a struct has a field that ``wanted`` has not.
    """
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type.equals(wanted):
        return column
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        return _conformed_struct(column, wanted)
    if not (pa.types.is_null(column.type) or _same_kind(column.type, wanted)):
        raise SerializationError(f"A column of {wanted} is expected, not one of {column.type}.")
    try:
        return column.cast(wanted)
    except pa.ArrowException as error:
        raise SerializationError(f"A column of {column.type} does not fit into {wanted}: {error}.") from error


def _conformed_struct(column: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    present = [field.name for field in column.type]
    known = [field.name for field in wanted]
    unknown = sorted(set(present) - set(known))
    if unknown:
        raise SerializationError(f"The fields {unknown} are not in the schema, which has {known}.")
    if len(set(present)) != len(present):
        raise SerializationError(f"A struct has a field twice: {present}.")
    children = dict(zip(present, column.flatten(), strict=True))
    arrays = [
        conformed(children[field.name], field.type) if field.name in children else pa.nulls(len(column), field.type)
        for field in wanted
    ]
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=mask)


def _same_kind(have: pa.DataType, wanted: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_integer(wanted):
        return bool(kinds.is_integer(have))
    if kinds.is_floating(wanted):
        return bool(kinds.is_integer(have) or kinds.is_floating(have))
    if kinds.is_string(wanted):
        return bool(kinds.is_large_string(have) or kinds.is_string_view(have))
    if kinds.is_binary(wanted):
        return bool(kinds.is_large_binary(have) or kinds.is_fixed_size_binary(have) or kinds.is_binary_view(have))
    if kinds.is_list(wanted):
        return (kinds.is_list(have) or kinds.is_large_list(have)) and (
            have.value_type.equals(wanted.value_type) or _same_kind(have.value_type, wanted.value_type)
        )
    return False
