"""pyarrow expressions over a batch of records: over whole columns first, row by row only where that fails.

The result of a record never depends on the records beside it:

- A row for which the expression cannot be computed (a division by zero, an overflow, a cast) is left to the processing
  handler, like one at which a callable raised; the others have their results.
- Values without a type (JSON without a schema, what callables made) are computed with the types that each has alone:
  rows whose fields have the same types together (:mod:`millrace.task.untyped_fields`).

Names are resolved as :mod:`millrace.topology.expression_fields` says: by the type where values have one, else by each
value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.task.columns import Column, IntArray, WindowedColumn
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.records import Records
from millrace.task.untyped_fields import TypeFinder, Types, UntypedField, group_by_types
from millrace.topology.expression_fields import EXPLICIT, SHORT, RecordPart, fields_of
from millrace.topology.expression_results import Check, compute

_ROW_NUMBER = "record.row"


def evaluate(
    expression: pc.Expression, records: Records, failures: FailureHandler, node: str, *, check: Check | None = None
) -> tuple[Column, IntArray | None]:
    """Returns the expression's value for each record.

    Args:
        expression: what to compute.
        records: of what.
        failures: is asked about each record for which it cannot be computed.
        node: the node, for the handler.
        check: refuses types of results.

    Returns:
        the values, and the rows they belong to; ``None`` for the rows where no record failed.

    Raises:
        ProcessingError: a record failed, and the handler does not continue.
    """
    fields = fields_of(expression)
    if fields.is_field and len(fields.paths[0]) == 1 and check is None:
        as_it_is = _field_as_it_is(fields.paths[0][0], records)
        if as_it_is is not None:
            return as_it_is, None
    typed: dict[str, pa.Array] = {}
    untyped: dict[str, UntypedField] = {}
    for root, paths in fields.roots.items():
        column = _column_of(root, records)
        if isinstance(column, pa.Array):
            typed[root] = column
        elif column is not None:
            untyped[root] = UntypedField(column, paths)
    if untyped:
        results, failed = _by_types(expression, len(records), typed, untyped, check)
    else:
        search = _Search(expression, _Table(typed, len(records)), check)
        results, failed = search.column(), search.failed
    if not failed:
        return results, None
    for row, error in sorted(failed, key=lambda failure: failure[0]):
        failures.processing(
            _described(error, expression), int(records.origin[row]), node, processed_record(records, row)
        )
    kept = np.ones(len(records), dtype=bool)
    kept[[row for row, _ in failed]] = False
    return results, np.flatnonzero(kept)


def _column_of(root: str, records: Records) -> pa.Array | list[Any] | None:
    """Returns the column of a name: typed, or one object per record; ``None`` where there is no such field."""
    part = _part_of(root, records)
    if part is not None:
        return _part(part, records)
    values = records.values
    if _has_no_type(values):
        short = SHORT.get(root)
        if short is None:
            return [value.get(root) if isinstance(value, dict) else None for value in values.objects]
        own = _part(short, records)
        objects = own.to_pylist() if isinstance(own, pa.Array) else own
        return [
            value[root] if isinstance(value, dict) and root in value else whole
            for value, whole in zip(values.objects, objects, strict=True)
        ]
    index = _field_index(values, root)
    # Unlike the field() of a struct array, flatten() applies the struct's own nulls.
    return None if index < 0 else values.arrow.flatten()[index]


def _part_of(root: str, records: Records) -> RecordPart | None:
    """Returns the part of a record that a name stands for in all records."""
    if root in EXPLICIT:
        return EXPLICIT[root]
    is_field = _has_no_type(records.values) or _field_index(records.values, root) >= 0
    return None if is_field else SHORT.get(root)


def _has_no_type(values: Column) -> bool:
    return not values.is_arrow or pa.types.is_null(values.arrow.type)


def _field_index(values: Column, name: str) -> int:
    kind = values.arrow.type
    return int(kind.get_field_index(name)) if pa.types.is_struct(kind) else -1


def _part(part: RecordPart, records: Records) -> pa.Array | list[Any]:
    if part is RecordPart.TIMESTAMP:
        return pa.array(records.timestamps)
    column = records.keys if part is RecordPart.KEY else records.values
    if isinstance(column, WindowedColumn):
        return column.arrow if column.inner.is_arrow else column.objects
    return column.arrow if column.is_arrow else column.objects


def _field_as_it_is(root: str, records: Records) -> Column | None:
    """Returns the column of an expression that is a single name, exact, with no conversion of objects to Arrow."""
    part = _part_of(root, records)
    if part is RecordPart.KEY:
        return records.keys
    if part is RecordPart.VALUE:
        return records.values
    column = _column_of(root, records)
    if column is None:
        return None
    return Column(arrow=column) if isinstance(column, pa.Array) else Column(objects=column)


class _Table:
    """The columns of an expression, over whose rows it can be computed in pieces."""

    def __init__(self, columns: dict[str, pa.Array], count: int) -> None:
        self.count = count
        self._table = pa.table(columns or {_ROW_NUMBER: np.arange(count, dtype=np.int64)})

    def rows(self, start: int, stop: int) -> pa.Table:
        """Returns the rows from ``start`` to ``stop``."""
        return self._table.slice(start, stop - start)


class _Group:
    """The same as :class:`_Table`, for rows of objects whose fields have the same types."""

    def __init__(
        self,
        rows: IntArray,
        typed: dict[str, pa.Array],
        untyped: dict[str, UntypedField],
        types: Types,
    ) -> None:
        self.count = len(rows)
        self._rows = rows
        self._typed = typed
        self._untyped = untyped
        self._types = types

    def rows(self, start: int, stop: int) -> pa.Table:
        """Returns the rows from ``start`` to ``stop``; raises where objects cannot be put into a column."""
        rows = self._rows[start:stop]
        columns = {name: column.take(pa.array(rows)) for name, column in self._typed.items()}
        listed = rows.tolist()
        return pa.table(columns | {n: field.column(listed, self._types[n]) for n, field in self._untyped.items()})


class _Search:
    """The computation of an expression over all rows or, where that fails, the search for the rows that fail."""

    def __init__(self, expression: pc.Expression, table: _Table | _Group, check: Check | None) -> None:
        self._expression = expression
        self._table = table
        self._check = check
        self.pieces: list[tuple[int, pa.Array]] = []
        self.failed: list[tuple[int, Exception]] = []
        count = table.count
        failure = self._try(0, count)
        if failure is None:
            return
        # What no row at all can be computed with is a matter of names and types, and the same for every row.
        for_every_row = self._compute(0, 0)
        if isinstance(for_every_row, Exception):
            self.failed = [(row, for_every_row) for row in range(count)]
        else:
            self._divide(0, count, failure)

    def column(self) -> Column:
        """Returns the results of the rows that did not fail."""
        arrays = [array for _, array in self.pieces]
        if not arrays:
            return Column(objects=[])
        return Column(arrow=arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays))

    def _divide(self, start: int, stop: int, failure: Exception | None) -> None:
        """Finds the rows that fail in a range that has at least one of them.

        Args:
            start: the first row.
            stop: behind the last one.
            failure: why the range failed; ``None`` where that is known by its other half alone.
        """
        if stop - start == 1:
            failure = failure or self._try(start, stop)
            if failure is not None:
                self.failed.append((start, failure))
            return
        middle = (start + stop) // 2
        first = self._try(start, middle)
        if first is None:
            self._divide(middle, stop, None)
            return
        self._divide(start, middle, first)
        second = self._try(middle, stop)
        if second is not None:
            self._divide(middle, stop, second)

    def _try(self, start: int, stop: int) -> Exception | None:
        result = self._compute(start, stop)
        if isinstance(result, Exception):
            return result
        self.pieces.append((start, result))
        return None

    def _compute(self, start: int, stop: int) -> pa.Array | Exception:
        return compute(self._expression, lambda: self._table.rows(start, stop), self._check)


def _by_types(
    expression: pc.Expression,
    count: int,
    typed: dict[str, pa.Array],
    untyped: dict[str, UntypedField],
    check: Check | None,
) -> tuple[Column, list[tuple[int, Exception]]]:
    """Returns the results of rows that have fields without a type, and the rows that failed.

    As objects, since results of different groups may have different types.
    """
    results: list[Any] = [None] * count
    failed: list[tuple[int, Exception]] = []
    finder = TypeFinder(expression, {name: column.type for name, column in typed.items()}, untyped, check)
    for rows, kinds in group_by_types(untyped, count):
        search = _Search(expression, _Group(rows, typed, untyped, finder.types_of(kinds)), check)
        for start, array in search.pieces:
            for row, result in zip(rows[start : start + len(array)].tolist(), array.to_pylist(), strict=True):
                results[row] = result
        failed += [(int(rows[row]), error) for row, error in search.failed]
    if failed:
        bad = {row for row, _ in failed}
        results = [result for row, result in enumerate(results) if row not in bad]
    return Column(objects=results), failed


def _described(error: Exception, expression: pc.Expression) -> Exception:
    text = f"{error}, in the expression {expression}"
    made: Exception = (
        type(error)(text)
        if isinstance(error, pa.ArrowException)
        else pa.ArrowInvalid(f"{type(error).__name__}: {text}")
    )
    return made
