"""The fields of values without a type, for expressions: each record's objects decide their types.

Arrow gives a column one type. Were a whole batch put into one, an integer would become a double, and a text beside it
an error, because of another record. So rows are taken together only where their fields have the same types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, product
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.serdes import Windowed
from millrace.task.columns import IntArray
from millrace.topology.expression_fields import Path, serialized
from millrace.topology.expression_results import Check, compute

Kind: TypeAlias = Any
"""The kind of an object: its class where that determines the Arrow type, else the Arrow type."""
Kinds = dict[str, tuple[Kind, ...]]
"""By name, the kinds of the leaves of a field."""
Types = dict[str, tuple[pa.DataType | None, ...]]
"""By name, the Arrow types of the leaves of a field; ``None``: no column holds it."""

_TYPES: dict[Kind, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}
_NULL_TYPES = (pa.null(), pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.list_(pa.null()))
_MOST_TRIES = 4_096


class _Unfit:
    """The kind of an object that fits no Arrow column; the attempt to put it into one raises the reason."""


class UntypedField:
    """A name in an expression whose values are objects.

    Args:
        objects: for each record the object; ``None`` for null and for a field that is not there.
        paths: the fields inside it that the expression names; an empty one stands for the object itself.
    """

    def __init__(self, objects: Sequence[Any], paths: tuple[Path, ...]) -> None:
        self.objects: Sequence[Any] = objects
        if any(issubclass(kind, Windowed) for kind in set(map(type, objects))):
            self.objects = [_plain(value) for value in objects]
        self._paths = paths
        # The object as a whole has the inner fields in it.
        self._is_whole = any(path == other[: len(path)] for path in paths for other in paths if path is not other)
        self._is_whole |= () in paths
        self.null_types: tuple[pa.DataType, ...] = _NULL_TYPES
        """Types that a null may have."""
        if self._is_whole:
            inner = [path for path in paths if path]
            if inner:
                self.null_types = (_nested([(path, pa.nulls(0)) for path in inner]).type,)
            self._leaves = [[_completed(value, inner) for value in self.objects] if inner else self.objects]
        else:
            self._leaves = [[_inside(value, path) for value in self.objects] for path in paths]

    def kinds(self) -> list[Sequence[Kind]]:
        """Returns for each leaf the kind of each record's object."""
        return [_kinds_of(leaf) for leaf in self._leaves]

    def column(self, rows: list[int], types: tuple[pa.DataType | None, ...]) -> pa.Array:
        """Returns the objects of some rows as an array.

        Args:
            rows: which.
            types: for each leaf its type; ``None``: one that no column holds.

        Raises:
            pa.ArrowException: an object is no value of its type; the same for ValueError and OverflowError.
        """
        whole = len(rows) == len(self.objects)
        leaves = [
            pa.array(leaf if whole else [leaf[row] for row in rows], type=kind)
            for leaf, kind in zip(self._leaves, types, strict=True)
        ]
        return leaves[0] if self._is_whole else _nested(list(zip(self._paths, leaves, strict=True)))


def _plain(value: Any) -> Any:
    """Returns a windowed key as the struct that typed windowed keys are; other values unchanged."""
    return value._asdict() if isinstance(value, Windowed) else value


def _inside(value: Any, path: Path) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _completed(value: Any, paths: list[Path]) -> Any:
    """Returns the object with null for each inner field that it lacks."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    for name in {path[0] for path in paths}:
        inner = [path[1:] for path in paths if path[0] == name and path[1:]]
        found[name] = _completed(found.get(name), inner) if inner else found.get(name)
    return found


def _nested(leaves: list[tuple[Path, pa.Array]]) -> pa.Array:
    if any(path for path, _ in leaves):
        leaves = [(path, leaf) for path, leaf in leaves if path]
    else:
        return leaves[0][1]
    inner: dict[str, list[tuple[Path, pa.Array]]] = {}
    for path, leaf in leaves:
        inner.setdefault(path[0], []).append((path[1:], leaf))
    return pa.StructArray.from_arrays([_nested(each) for each in inner.values()], names=list(inner))


def _kinds_of(objects: Sequence[Any]) -> Sequence[Kind]:
    kinds: list[Any] = list(map(type, objects))
    if all(kind in _TYPES or kind is NoneType for kind in set(kinds)):
        return kinds
    return [
        kind if kind in _TYPES or kind is NoneType else _inferred(value)
        for kind, value in zip(kinds, objects, strict=True)
    ]


def _inferred(value: Any) -> Kind:
    try:
        kind: pa.DataType = pa.infer_type([value])
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return _Unfit
    return kind


def group_by_types(fields: Mapping[str, UntypedField], count: int) -> Iterator[tuple[IntArray, Kinds]]:
    """Yields the rows whose fields have the same kinds, in the order in which the kinds first appear.

    Args:
        fields: by name.
        count: how many rows there are.
    """
    columns = [(name, kinds) for name, field in fields.items() for kinds in field.kinds()]
    names = [name for name, _ in columns]
    if all(len(set(kinds)) <= 1 for _, kinds in columns):
        if count:
            yield np.arange(count, dtype=np.int64), _by_name(names, [kinds[0] for _, kinds in columns])
        return
    groups: dict[tuple[Kind, ...], list[int]] = {}
    for row, combination in enumerate(zip(*(kinds for _, kinds in columns), strict=True)):
        groups.setdefault(combination, []).append(row)
    for combination, rows in groups.items():
        yield np.array(rows, dtype=np.int64), _by_name(names, combination)


class TypeFinder:
    """The search for the Arrow types with which an expression is computed where its fields have no type.

    Args:
        expression: what is computed.
        typed: types of its other columns.
        fields: its fields without a type, by name.
        check: refuses types of results.
    """

    def __init__(
        self,
        expression: pc.Expression,
        typed: Mapping[str, pa.DataType],
        fields: Mapping[str, UntypedField],
        check: Check | None,
    ) -> None:
        self._expression = expression
        self._typed = typed
        self._fields = fields
        self._check = check

    def types_of(self, kinds: Kinds) -> Types:
        """Returns the types of a group's leaves, for :meth:`UntypedField.column`.

        A null has any type: it is given the first one of a fixed list with which the expression can be computed.
        """
        leaves = [(name, kind) for name, each in kinds.items() for kind in each]
        known = [_TYPES.get(kind, kind if isinstance(kind, pa.DataType) else None) for _, kind in leaves]
        names = [name for name, _ in leaves]
        nulls = {index: self._fields[name].null_types for index, (name, kind) in enumerate(leaves) if kind is NoneType}
        if not nulls:
            return _by_name(names, known)
        shape = (serialized(self._expression), tuple(self._typed.items()), tuple(leaves), self._check)
        if shape not in _fitting:
            if len(_fitting) >= _MOST_SHAPES:
                _fitting.clear()
            _fitting[shape] = self._first_that_fits(names, known, nulls)
        return _by_name(names, _fitting[shape])

    def _first_that_fits(
        self, names: list[str], known: list[pa.DataType | None], nulls: dict[int, tuple[pa.DataType, ...]]
    ) -> list[pa.DataType | None]:
        for chosen in islice(product(*nulls.values()), _MOST_TRIES):
            types = list(known)
            for index, kind in zip(nulls, chosen, strict=True):
                types[index] = kind
            result = compute(self._expression, partial(self._no_rows, _by_name(names, types)), self._check)
            if not isinstance(result, Exception):
                return types
        return [pa.null() if index in nulls else kind for index, kind in enumerate(known)]

    def _no_rows(self, types: Types) -> pa.Table:
        columns = {name: pa.array([], kind) for name, kind in self._typed.items()}
        return pa.table(columns | {name: field.column([], types[name]) for name, field in self._fields.items()})


def _by_name(names: Sequence[str], each: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """Returns kinds or types of leaves, grouped by the name that they belong to."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, one in zip(names, each, strict=True):
        found[name] = (*found.get(name, ()), one)
    return found


_fitting: dict[object, list[pa.DataType | None]] = {}
_MOST_SHAPES = 1_024
