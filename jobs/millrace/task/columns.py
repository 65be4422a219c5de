"""One column of a batch: Arrow, Python objects, or both, each made from the other only on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millrace.errors import SerializationError
from millrace.serdes import Windowed
from millrace.serdes.times import python_values

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Column:
    """The keys or values of a batch of records.

    A column made of objects stays one: Arrow gives all its values one type (fields that only some dictionaries have,
    integers beside floats), so what is read off its Arrow form serves to compute with and is never passed on.

    Args:
        arrow: the column as an Arrow array.
        objects: the column as Python objects, ``None`` for null. One of the two is given.
    """

    __slots__ = ("_arrow", "_is_arrow", "_objects")

    def __init__(self, *, arrow: pa.Array | None = None, objects: list[Any] | None = None) -> None:
        self._arrow = arrow
        self._objects = objects
        self._is_arrow = arrow is not None

    def __len__(self) -> int:
        return len(self.objects) if self._arrow is None else len(self._arrow)

    @property
    def is_arrow(self) -> bool:
        """Whether the column was made in Arrow: its type is exact, and no object is lost in it."""
        return self._is_arrow

    @property
    def arrow(self) -> pa.Array:
        """The column in Arrow.

        Raises:
            SerializationError: the objects have no common Arrow type.
        """
        if self._arrow is None:
            try:
                self._arrow = pa.array(self._objects)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
                raise SerializationError(
                    f"Values of different types cannot be put into one Arrow column: {error}.",
                    remedy="give the source a serde with a schema, or use a callable instead of an expression",
                ) from error
        return self._arrow

    @property
    def objects(self) -> list[Any]:
        """The column as Python objects. Callers must not change the list."""
        if self._objects is None:
            assert self._arrow is not None
            listed: list[Any] = python_values(self._arrow)
            self._objects = listed
        return self._objects

    @property
    def own_objects(self) -> list[Any]:
        """The objects without the marks by which a node with several inputs distinguishes them."""
        return self.objects

    def null_mask(self) -> BoolArray:
        """Returns a mask that is true where the column is null."""
        if self._arrow is not None:
            if self._arrow.null_count == 0:
                return np.zeros(len(self._arrow), dtype=bool)
            mask: BoolArray = self._arrow.is_null().to_numpy(zero_copy_only=False)
            return mask
        return np.fromiter((value is None for value in self.objects), dtype=bool, count=len(self.objects))

    def take(self, indices: IntArray) -> Column:
        """Returns the rows at ``indices``, in that order."""
        # Objects cost ten times an Arrow take, so they are not carried along beside it.
        if self._arrow is not None and self._is_arrow:
            return Column(arrow=self._arrow.take(pa.array(indices)))
        objects = self.objects
        return Column(objects=[objects[index] for index in indices.tolist()])

    def where(self, mask: BoolArray) -> Column:
        """Returns the column with nulls where ``mask`` is false."""
        if mask.all():
            return self
        if self._arrow is not None and self._is_arrow:
            indices = np.arange(len(self._arrow), dtype=np.int64)
            return Column(arrow=self._arrow.take(pa.array(indices, mask=~mask)))
        rows = zip(self.objects, mask.tolist(), strict=True)
        return Column(objects=[value if kept else None for value, kept in rows])

    def scattered(self, indices: IntArray, count: int) -> Column:
        """Returns a column of ``count`` rows: this column's rows at ``indices``, and nulls elsewhere."""
        rows = np.full(count, -1, dtype=np.int64)
        rows[indices] = np.arange(len(indices), dtype=np.int64)
        if self.is_arrow:
            return Column(arrow=self.arrow.take(pa.array(rows, mask=rows < 0)))
        objects = self.objects
        return Column(objects=[None if row < 0 else objects[row] for row in rows.tolist()])

    @staticmethod
    def concat(columns: Sequence[Column]) -> Column:
        """Returns the columns concatenated, in Arrow where all are in Arrow with one type."""
        if len(columns) == 1:
            return columns[0]
        if any(isinstance(column, WindowedColumn) for column in columns):
            return _concat_windowed(columns)
        if all(column.is_arrow for column in columns) and len({column.arrow.type for column in columns}) == 1:
            return Column(arrow=pa.concat_arrays([column.arrow for column in columns]))
        return Column(objects=[value for column in columns for value in column.objects])


class WindowedColumn(Column):
    """The keys of a windowed table: the inner keys, and the bounds of their windows in milliseconds."""

    __slots__ = ("ends", "inner", "starts")

    def __init__(self, inner: Column, starts: IntArray, ends: IntArray) -> None:
        super().__init__()
        self.inner = inner
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def arrow(self) -> pa.Array:
        """The column as a struct column with the fields ``key``, ``start`` and ``end``."""
        if self._arrow is None:
            self._arrow = pa.StructArray.from_arrays(
                [self.inner.arrow, pa.array(self.starts), pa.array(self.ends)], names=["key", "start", "end"]
            )
        return self._arrow

    @property
    def objects(self) -> list[Any]:
        """The column as :class:`millrace.serdes.Windowed`."""
        if self._objects is None:
            self._objects = [
                Windowed(key, start, end)
                for key, start, end in zip(self.inner.objects, self.starts.tolist(), self.ends.tolist(), strict=True)
            ]
        return self._objects

    def null_mask(self) -> BoolArray:
        """Returns a mask that is false everywhere: windowed keys are never null."""
        return np.zeros(len(self), dtype=bool)

    def take(self, indices: IntArray) -> WindowedColumn:
        """Returns the rows at ``indices``, in that order."""
        return WindowedColumn(self.inner.take(indices), self.starts[indices], self.ends[indices])


class CogroupedColumn(Column):
    """The values of several inputs: as objects, pairs of the input's index and the value, which may be ``None``.

    Args:
        inner: the values.
        inputs: for each of them the index of its input.
    """

    __slots__ = ("inner", "inputs")

    def __init__(self, inner: Column, inputs: IntArray) -> None:
        super().__init__()
        self.inner = inner
        self.inputs = inputs

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def objects(self) -> list[Any]:
        """The column as pairs of input and value."""
        if self._objects is None:
            self._objects = list(zip(self.inputs.tolist(), self.inner.objects, strict=True))
        return self._objects

    @property
    def own_objects(self) -> list[Any]:
        """The values without their inputs."""
        return self.inner.objects

    def null_mask(self) -> BoolArray:
        """Returns a mask that is true where the value is null."""
        return self.inner.null_mask()

    def take(self, indices: IntArray) -> CogroupedColumn:
        """Returns the rows at ``indices``, in that order."""
        return CogroupedColumn(self.inner.take(indices), self.inputs[indices])


def _concat_windowed(columns: Sequence[Column]) -> Column:
    windowed = [column for column in columns if isinstance(column, WindowedColumn)]
    if len(windowed) != len(columns):
        return Column(objects=[value for column in columns for value in column.objects])
    return WindowedColumn(
        Column.concat([column.inner for column in windowed]),
        np.concatenate([column.starts for column in windowed]),
        np.concatenate([column.ends for column in windowed]),
    )
