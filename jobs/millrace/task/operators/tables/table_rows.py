"""Predicates, mappers and joiners over the rows of a table: called only where there is a row; each row fails alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from millrace.errors import ProcessingError, SerializationError
from millrace.task.columns import BoolArray, Column, IntArray
from millrace.task.expressions import evaluate
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.operators.stateless.filtering import truth_of
from millrace.task.processor import call_per_record
from millrace.task.records import Records
from millrace.topology.arity import KeyedJoiner
from millrace.topology.expression_checks import boolean
from millrace.topology.expression_results import Check
from millrace.topology.operators import TableFilter, TableJoinKind, TableMapValues


class RowFunctions:
    """The functions of one node, applied to the rows of a table.

    Each method returns a column as long as its input, null where there is no row, and adds the rows at which a
    function failed to ``failed``; they are not called again for these.

    Args:
        failures: what happens to rows for which a function raised.
        node: name of the node that fails where a function does.
        records: keys, timestamps and origins of the rows.
    """

    def __init__(self, failures: FailureHandler, node: str, records: Records) -> None:
        self._failures = failures
        self._node = node
        self._records = records
        self.failed: BoolArray = np.zeros(len(records), dtype=bool)

    def filter(self, operator: TableFilter, values: Column) -> Column:
        """Returns the values that pass the filter, null for the others."""
        present = ~(values.null_mask() | self.failed)
        if isinstance(operator.predicate, pc.Expression):
            mask = truth_of(self._evaluated(operator.predicate, values, present, boolean))
        else:
            results = self._call(operator.predicate, values, present)
            mask = np.fromiter((bool(result) for result in results), dtype=bool, count=len(results))
        # A row that is not there never passes, also not a negated filter.
        return values.where((mask ^ operator.negated) & present & ~self.failed)

    def map(self, operator: TableMapValues, values: Column) -> Column:
        """Returns the mapped values."""
        present = ~self.failed if operator.maps_nulls else ~(values.null_mask() | self.failed)
        if isinstance(operator.mapper, pc.Expression):
            return self._evaluated(operator.mapper, values, present, None)
        return Column(objects=self._call(operator.mapper, values, present))

    def written(self, column: Column, write: Callable[[Column], list[bytes | None]]) -> list[bytes | None]:
        """Returns the column as bytes; null where it cannot be serialized, which is a failure of the row.

        Args:
            column: one value for each row.
            write: returns the bytes of a column.
        """
        try:
            return write(column)
        except SerializationError:
            # At least one cannot be written; which, shows one by one.
            pass
        found: list[bytes | None] = []
        for row in range(len(column)):
            try:
                found += [None] if self.failed[row] else write(column.take(np.array([row], dtype=np.int64)))
            except SerializationError as error:
                record = processed_record(self._records, row)
                self._failures.processing(error, int(self._records.origin[row]), self._node, record)
                self.failed[row] = True
                found.append(None)
        return found

    def join(
        self, kind: TableJoinKind, joiner: Callable[..., Any], left: Column, right: Column, *, rows: BoolArray
    ) -> Column:
        """Returns ``joiner(left, right)`` at ``rows`` where the join has a row; a ``KeyedJoiner`` gets the key too."""
        has_left, has_right = ~left.null_mask(), ~right.null_mask()
        joined = {
            TableJoinKind.INNER: has_left & has_right,
            TableJoinKind.LEFT: has_left,
            TableJoinKind.OUTER: has_left | has_right,
        }[kind]
        pairs = Column(objects=list(zip(left.objects, right.objects, strict=True)))
        return Column(objects=self._call(of_pair(joiner), pairs, joined & rows & ~self.failed))

    def _evaluated(self, expression: pc.Expression, values: Column, rows: BoolArray, check: Check | None) -> Column:
        """Returns the expression's results, null where it was not computed or failed."""
        whole = bool(rows.all())
        indices = np.flatnonzero(rows)
        if len(indices) == 0:
            return no_rows(len(rows))
        called = self._records.with_values(values)
        results, kept = evaluate(
            expression, called if whole else called.take(indices), self._failures, self._node, check=check
        )
        if whole and kept is None:
            return results
        return results.scattered(self._succeeded(indices, kept), len(rows))

    def _succeeded(self, indices: IntArray, kept: IntArray | None) -> IntArray:
        """Returns the indices at which a function succeeded, and marks the others as failed."""
        if kept is None:
            return indices
        failed = np.ones(len(indices), dtype=bool)
        failed[kept] = False
        self.failed[indices[failed]] = True
        return indices[kept]

    def _call(self, function: Callable[[Any, Any], Any], values: Column, rows: BoolArray) -> list[Any]:
        """Returns the function's results, ``None`` where it was not called or failed."""
        whole = bool(rows.all())
        indices = np.flatnonzero(rows)
        called = self._records.with_values(values)
        results, kept = call_per_record(function, called if whole else called.take(indices), self._failures, self._node)
        if whole and kept is None:
            return results
        return Column(objects=results).scattered(self._succeeded(indices, kept), len(rows)).objects


def of_pair(joiner: Callable[..., Any]) -> Callable[[Any, tuple[Any, Any]], Any]:
    """Returns a joiner of two tables as a function of the key and the pair of values."""
    if isinstance(joiner, KeyedJoiner):
        return lambda key, pair: joiner(key, *pair)
    return lambda _, pair: joiner(*pair)


def no_rows(count: int) -> Column:
    """Returns a column of ``count`` nulls."""
    return Column(objects=[None] * count)


def present_key_bytes(keys: Sequence[bytes | None], node: str) -> list[bytes]:
    """Returns the key bytes of a table's records, none of which may be null.

    Raises:
        ProcessingError: one is.
    """
    present = [key for key in keys if key is not None]
    if len(present) < len(keys):
        raise ProcessingError(
            f"A change of a table without a key reached node {node}.", remedy="report it: tables drop such records"
        )
    return present
