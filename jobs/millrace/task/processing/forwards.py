"""The records that a user-written processor forwards in the course of a batch, with their positions in the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from millrace.task.columns import Column, IntArray
from millrace.task.dead_letters import NO_ROW
from millrace.task.records import ObjectArray, Records, object_array


class Forwards:
    """The collected records that a processor forwards, in the order in which it does.

    Args:
        children: names of the node's children.
    """

    def __init__(self, children: Sequence[str]) -> None:
        self._children = children
        self._records: list[Any] = []
        self._targets: list[str | None] = []
        self._rows: list[int] = []
        self._ordinals: list[int] = []
        self._punctuation_orders: list[tuple[int, int]] = []
        self._row = NO_ROW
        self._punctuation_order = (0, 0)
        self._ordinal = 0

    def begin(self, row: int, punctuation_order: tuple[int, int] = (0, 0)) -> None:
        """Assigns the next records to a ``row`` or, with ``NO_ROW``, to a punctuation with an order."""
        self._row, self._punctuation_order, self._ordinal = row, punctuation_order, 0

    def add(self, record: Any, child: str | None) -> None:
        """Adds a record for one child or, with ``None``, for all."""
        self._records.append(record)
        self._targets.append(child)
        self._rows.append(self._row)
        self._punctuation_orders.append(self._punctuation_order)
        self._ordinals.append(self._ordinal)
        self._ordinal += 1

    def take(self, parents: Records | None) -> Records | Mapping[str, Records] | None:
        """Returns the collected records: for all children, or by child where one was sent to a single child.

        Args:
            parents: the records whose rows :meth:`begin` named; ``None`` where only punctuations forwarded.
        """
        if not self._records:
            return None
        records = self._build(parents)
        if all(target is None for target in self._targets):
            return records
        parts = {}
        for position, child in enumerate(self._children):
            rows = [row for row, target in enumerate(self._targets) if target is None or target == child]
            if rows:
                part = records.take(np.array(rows, dtype=np.int64))
                parts[child] = replace(part, order=(*part.order, np.full(len(rows), position, dtype=np.int64)))
        return parts

    def _build(self, parents: Records | None) -> Records:
        rows = np.array(self._rows, dtype=np.int64)
        headers = [list(record.headers) or None for record in self._records]
        return Records(
            Column(objects=[record.key for record in self._records]),
            Column(objects=[record.value for record in self._records]),
            np.array([record.timestamp for record in self._records], dtype=np.int64),
            np.full(len(rows), NO_ROW, dtype=np.int64) if parents is None else _taken(parents.origin, rows),
            self._order(parents, rows),
            object_array(headers) if any(headers) else None,
            positions=self._record_positions(parents, rows),
        )

    @staticmethod
    def _record_positions(parents: Records | None, rows: IntArray) -> ObjectArray | None:
        """Returns the positions of the parents; a record that a punctuation forwards has none."""
        if parents is None or parents.positions is None:
            return None
        return object_array([None if row == NO_ROW else parents.positions[row] for row in rows.tolist()])

    def _order(self, parents: Records | None, rows: IntArray) -> tuple[IntArray, ...]:
        ordinals = np.array(self._ordinals, dtype=np.int64)
        of_punctuations = rows == NO_ROW
        if not of_punctuations.any():
            assert parents is not None
            return (*(column[rows] for column in parents.order), ordinals)
        levels = 0 if parents is None else len(parents.order)
        columns = [np.zeros(len(rows), dtype=np.int64) for _ in range(max(2, levels))]
        if parents is not None:
            for level in range(levels):
                columns[level] = _taken(parents.order[level], rows)
        orders = np.array(self._punctuation_orders, dtype=np.int64)
        columns[0][of_punctuations] = orders[of_punctuations, 0]
        columns[1][of_punctuations] = orders[of_punctuations, 1]
        for column in columns[2:]:
            column[of_punctuations] = 0
        return (*columns, ordinals)


def _taken(column: IntArray, rows: IntArray) -> IntArray:
    """Returns the column at ``rows``, with ``NO_ROW`` unchanged."""
    return np.where(rows == NO_ROW, NO_ROW, column[rows]) if len(column) else np.full(len(rows), NO_ROW, dtype=np.int64)
