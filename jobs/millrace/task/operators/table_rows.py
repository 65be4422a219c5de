"""Predicates, mappers and joiners over the rows of a table: called only where there is a row, failing one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from millrace.errors import ProcessingError
from millrace.task.columns import BoolArray, Column
from millrace.task.operators.filtering import truth
from millrace.task.operators.mapping import mapped
from millrace.task.processor import TaskContext, call_per_record
from millrace.task.records import Records
from millrace.topology.arity import KeyedJoiner
from millrace.topology.operators import TableFilter, TableJoinKind, TableMapValues


class RowFunctions:
    """Applies the functions of one node.

    Each method returns a column as long as its input, null where there is no row, and adds the rows at which a
    function failed to ``failed``; they are not called again for these.

    Args:
        context: the task's surroundings, for the processing handler.
        node: name of the node that fails where a function does.
        records: keys, timestamps and origins of the rows.
    """

    def __init__(self, context: TaskContext, node: str, records: Records) -> None:
        self._context = context
        self._node = node
        self._records = records
        self.failed: BoolArray = np.zeros(len(records), dtype=bool)

    def filter(self, operator: TableFilter, values: Column) -> Column:
        """The values that pass the filter."""
        present = ~(values.null_mask() | self.failed)
        if isinstance(operator.predicate, pc.Expression):
            if not present.any():
                return values
            _, mask = truth(operator.predicate, self._records.with_values(values), self._context, self._node)
        else:
            results = self._call(operator.predicate, values, present)
            mask = np.fromiter((bool(result) for result in results), dtype=bool, count=len(results))
        # A row that is not there never passes, also not a negated filter.
        return values.where((mask ^ operator.negated) & present & ~self.failed)

    def map(self, operator: TableMapValues, values: Column) -> Column:
        """The mapped values."""
        present = ~self.failed if operator.maps_nulls else ~(values.null_mask() | self.failed)
        if isinstance(operator.mapper, pc.Expression):
            if not present.any():
                return Column(objects=[None] * len(values))
            _, results = mapped(operator.mapper, self._records.with_values(values), self._context, self._node)
            return results.where(present)
        return Column(objects=self._call(operator.mapper, values, present))

    def join(
        self, kind: TableJoinKind, joiner: Callable[..., Any], left: Column, right: Column, *, rows: BoolArray
    ) -> Column:
        """``joiner(left, right)`` at ``rows``, where the kind of join has a row; a ``KeyedJoiner`` gets the key too."""
        has_left, has_right = ~left.null_mask(), ~right.null_mask()
        joined = {
            TableJoinKind.INNER: has_left & has_right,
            TableJoinKind.LEFT: has_left,
            TableJoinKind.OUTER: has_left | has_right,
        }[kind]
        pairs = Column(objects=list(zip(left.objects, right.objects, strict=True)))
        return Column(objects=self._call(of_pair(joiner), pairs, joined & rows & ~self.failed))

    def _call(self, function: Callable[[Any, Any], Any], values: Column, rows: BoolArray) -> list[Any]:
        """The function's results, ``None`` where it is not called or failed."""
        whole = bool(rows.all())
        places = np.flatnonzero(rows)
        called = self._records.with_values(values)
        results, kept = call_per_record(
            function, called if whole else called.take(places), self._context.failures, self._node
        )
        if whole and kept is None:
            return results
        if kept is not None:
            failed = np.ones(len(places), dtype=bool)
            failed[kept] = False
            self.failed[places[failed]] = True
            places = places[kept]
        scattered: list[Any] = [None] * len(rows)
        for place, result in zip(places.tolist(), results, strict=True):
            scattered[place] = result
        return scattered


def of_pair(joiner: Callable[..., Any]) -> Callable[[Any, tuple[Any, Any]], Any]:
    """A joiner of two tables as what takes the key and the pair of values."""
    if isinstance(joiner, KeyedJoiner):
        return lambda key, pair: joiner(key, *pair)
    return lambda _, pair: joiner(*pair)


def no_rows(count: int) -> Column:
    """A column of nothing."""
    return Column(objects=[None] * count)


def present_key_bytes(keys: Sequence[bytes | None], node: str) -> list[bytes]:
    """Key bytes of a table's records, none of which is null.

    Raises:
        ProcessingError: one is.
    """
    present = [key for key in keys if key is not None]
    if len(present) < len(keys):
        raise ProcessingError(
            f"A change of a table without a key reached node {node}.", remedy="report it: tables drop such records"
        )
    return present
