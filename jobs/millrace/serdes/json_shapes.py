"""JSON objects that are written alike, read by the shapes of their column: the fast way for what one producer wrote.

Nearly all objects of a topic have the same keys in the same order with the same spaces, and differ in scalars only. So
the first object is read with care, and gives a shape: the literal text between its scalars. The kernel takes the
others by it. An object that no shape fits gives another one, up to a few; what has none, and columns of more shapes,
are left to a parser of all of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import structlog

from millrace.machine_code import MachineCodeUnavailableError
from millrace.serdes.columns import bytes_and_offsets
from millrace.serdes.json_kernel import LEAF_COLUMNS, JsonKernel, LeafKind, json_kernel

MOST_SHAPES = 8
"""Columns of more shapes are read by the general parser: each further shape is tried on every row."""
_DEEPEST = 32

_SPACE = rb"[ \t\r\n]*"
_OPEN = re.compile(rb"{" + _SPACE)
_KEY = re.compile(rb'"([^"\\\x00-\x1f]*)"' + _SPACE + b":" + _SPACE)
_SCALAR = re.compile(rb'"[^"\\\x00-\x1f]*"|-?[0-9.]+|true|false|null')
_COMMA = re.compile(_SPACE + b"," + _SPACE)
_CLOSE = re.compile(_SPACE + b"}")

_log = structlog.get_logger(__name__)
Path = tuple[str, ...]


class _NoShapeError(Exception):
    """The error of an object that cannot be read by a shape."""


@dataclass(frozen=True)
class _Shape:
    """The literals of an object, and what stands between them.

    Args:
        leaves: for each scalar in the order of the text, the literal before it and the path of its field.
        end: the literal behind the last scalar.
    """

    leaves: tuple[tuple[bytes, Path], ...]
    end: bytes


def _shape_of(text: bytes) -> _Shape:
    """Returns the shape of an object, which is JSON.

    Raises:
        _NoShapeError: it has an array, an empty object, a key twice or with escapes, or is not one object.
    """
    try:
        if not isinstance(orjson.loads(text), dict):
            raise _NoShapeError
    except orjson.JSONDecodeError as error:
        raise _NoShapeError from error
    leaves: list[tuple[bytes, Path]] = []
    literal_from = 0

    def walk(at: int, path: Path) -> int:
        nonlocal literal_from
        if len(path) > _DEEPEST:
            raise _NoShapeError
        at = _behind(_OPEN, text, at)
        keys: set[bytes] = set()
        while True:
            key = _KEY.match(text, at)
            if key is None or key[1] in keys:
                raise _NoShapeError
            keys.add(key[1])
            at = key.end()
            inner = (*path, key[1].decode())
            if text[at : at + 1] == b"{":
                at = walk(at, inner)
            else:
                scalar_end = _behind(_SCALAR, text, at)
                leaves.append((text[literal_from:at], inner))
                at = literal_from = scalar_end
            comma = _COMMA.match(text, at)
            if comma is None:
                return _behind(_CLOSE, text, at)
            at = comma.end()

    start = len(text) - len(text.lstrip(b" \t\r\n"))
    if text[walk(start, ()) :].strip(b" \t\r\n"):
        raise _NoShapeError
    return _Shape(tuple(leaves), text[literal_from:])


def _behind(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    if found is None:
        raise _NoShapeError
    return found.end()


@dataclass
class _Cells:
    """The memory that the kernel writes a column into.

    Args:
        kind: what it takes.
        wanted: type of the column.
        rows: of it.
        capacity: bytes of all the objects, which its strings cannot exceed.
    """

    kind: LeafKind
    wanted: pa.DataType
    rows: int
    capacity: int
    valid: np.ndarray[Any, Any] = field(init=False)
    cells: np.ndarray[Any, Any] = field(init=False)
    data: np.ndarray[Any, Any] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.valid = np.empty(self.rows, np.uint8)
        if self.kind is LeafKind.STRING:
            self.cells = np.empty(self.rows + 1, np.int32)
            self.cells[0] = 0
            self.data = np.empty(self.capacity + 1, np.uint8)
        else:
            self.cells = np.empty(self.rows, np.float64 if self.kind is LeafKind.DOUBLE else np.int64)

    def addresses(self) -> tuple[int, int, int]:
        """Returns the addresses of cells, validity and strings, for the kernel's table."""
        return self.cells.ctypes.data, self.valid.ctypes.data, 0 if self.data is None else self.data.ctypes.data

    def column(self) -> pa.Array | None:
        """Returns the column as written; ``None`` where an integer does not fit into its type."""
        nulls = int(self.rows - np.count_nonzero(self.valid))
        mask = self.valid == 0 if nulls else None
        if self.data is not None:
            bitmap = None if mask is None else pa.array(~mask).buffers()[1]
            # A copy of the right size: the strings may outlive the column of objects.
            data = self.data[: self.cells[-1]].copy()
            buffers = [bitmap, pa.py_buffer(self.cells), pa.py_buffer(data)]
            return pa.Array.from_buffers(self.wanted, self.rows, buffers, nulls)
        if pa.types.is_int32(self.wanted):
            narrow = self.cells.astype(np.int32)
            if (narrow != self.cells).any():
                return None
            return pa.array(narrow, mask=mask)
        return pa.array(self.cells.astype(bool) if pa.types.is_boolean(self.wanted) else self.cells, mask=mask)


def _kind_of(wanted: pa.DataType) -> LeafKind | None:
    kinds = pa.types
    if kinds.is_boolean(wanted):
        return LeafKind.BOOLEAN
    if kinds.is_integer(wanted):
        return LeafKind.INTEGER
    if kinds.is_floating(wanted):
        return LeafKind.DOUBLE
    return LeafKind.STRING if kinds.is_string(wanted) else None


def _leaves(wanted: pa.StructType, path: Path = ()) -> Iterator[tuple[Path, pa.DataType]]:
    for child in wanted:
        if pa.types.is_struct(child.type):
            yield from _leaves(child.type, (*path, child.name))
        else:
            yield (*path, child.name), child.type


@lru_cache(maxsize=512)
def _scalars(wanted: pa.StructType) -> Mapping[Path, tuple[LeafKind, pa.DataType]] | None:
    """Returns the scalars of a schema by their paths; ``None`` where it has something else than structs and scalars."""
    found: dict[Path, tuple[LeafKind, pa.DataType]] = {}
    for path, type_ in _leaves(wanted):
        kind = _kind_of(type_)
        if kind is None:
            return None
        found[path] = (kind, type_)
    return found


def _parents(paths: Iterable[Path]) -> set[Path]:
    """Returns the structs that fields are in."""
    return {path[:depth] for path in paths for depth in range(1, len(path))}


@lru_cache(maxsize=1)
def _kernel() -> JsonKernel | None:
    try:
        return json_kernel()
    except MachineCodeUnavailableError as error:
        _log.warning(
            "JSON is read by Arrow's parser only, which costs about 0.4 microseconds more a record", reason=str(error)
        )
        return None


def read_alike(values: pa.Array, wanted: pa.StructType) -> pa.StructArray | None:
    """Returns the rows of a column of JSON objects that are written alike, or ``None`` where they are not.

    Args:
        values: binary array without nulls, not empty.
        wanted: type of the rows, as :func:`millrace.serdes.json_types.checked_type` gives it.
    """
    kernel, scalars = _kernel(), _scalars(wanted)
    if kernel is None or scalars is None:
        return None
    spanned, offsets = bytes_and_offsets(values)
    columns = {path: _Cells(kind, type_, len(values), len(spanned)) for path, (kind, type_) in scalars.items()}
    table = _Table(columns, _parents(columns), np.empty(int(np.diff(offsets).max()) + 1, np.uint8))
    if not _read(kernel, values, table):
        return None
    arrays = {path: cells.column() for path, cells in columns.items()}
    return None if any(array is None for array in arrays.values()) else _assembled(wanted, arrays)


@dataclass(frozen=True)
class _Table:
    """The memory that the kernel writes all columns into.

    Args:
        columns: by the paths of the schema's scalars.
        structs: paths of its structs.
        scratch: room for a string that goes nowhere.
    """

    columns: Mapping[Path, _Cells]
    structs: Set[Path]
    scratch: np.ndarray[Any, Any]


def _read(kernel: JsonKernel, values: pa.Array, table: _Table) -> bool:
    """Reads the rows with shapes that are found on the way, and returns whether the kernel has read all of them."""
    spanned, offsets = bytes_and_offsets(values)
    seen = np.zeros(1, np.uint8)
    shapes: list[_Shape] = []
    row = 0
    while row < len(values):
        try:
            shapes.append(_shape_of(values[row].as_py()))
        except _NoShapeError:
            return False
        if len(shapes) > MOST_SHAPES or not _covers(shapes[-1], table):
            return False
        index, leaves, literals = _written(shapes, table)
        reached = kernel.read(
            spanned.ctypes.data,
            offsets.ctypes.data,
            row,
            len(values),
            index.ctypes.data,
            len(shapes),
            leaves.ctypes.data,
            literals.ctypes.data,
            seen.ctypes.data,
        )
        if reached == row:
            return False  # its own shape does not fit it: a number of many digits, or a scalar of another kind
        row = reached
    if seen[0] < 0x80:
        return True
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _covers(shape: _Shape, table: _Table) -> bool:
    """Returns whether an object has all structs of the schema, and no scalar for a struct or struct for a scalar."""
    parents = _parents(path for _, path in shape.leaves)
    return table.structs <= parents and parents.isdisjoint(table.columns)


def _written(shapes: list[_Shape], table: _Table) -> tuple[np.ndarray[Any, Any], ...]:
    """Returns shapes, leaves and literals as the kernel reads them."""
    index: list[tuple[int, int]] = []
    leaves: list[tuple[int, ...]] = []
    literals = bytearray()

    def leaf(kind: LeafKind, literal: bytes, addresses: tuple[int, int, int]) -> None:
        leaves.append((kind, len(literals), len(literal), *addresses))
        literals.extend(literal)

    for shape in shapes:
        first = len(leaves)
        for literal, path in shape.leaves:
            cells = table.columns.get(path)
            if cells is None:
                leaf(LeafKind.SKIPPED, literal, (0, 0, table.scratch.ctypes.data))
            else:
                leaf(cells.kind, literal, cells.addresses())
        for path in table.columns.keys() - {path for _, path in shape.leaves}:
            leaf(LeafKind.ABSENT, b"", table.columns[path].addresses())
        leaf(LeafKind.END, shape.end, (0, 0, 0))
        index.append((first, len(leaves) - first))
    return (
        np.array(index, dtype=np.int64),
        np.array(leaves, dtype=np.int64).reshape(-1, LEAF_COLUMNS),
        np.frombuffer(bytes(literals), np.uint8),
    )


def _assembled(wanted: pa.StructType, arrays: Mapping[Path, pa.Array], path: Path = ()) -> pa.StructArray:
    children = [
        _assembled(child.type, arrays, (*path, child.name))
        if pa.types.is_struct(child.type)
        else arrays[(*path, child.name)]
        for child in wanted
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted))
