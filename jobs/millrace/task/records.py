"""A batch of records on its way through a topology, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from millrace.task.columns import BoolArray, Column, IntArray

Headers = list[tuple[str, bytes | None]]
RecordPosition = tuple[str, int, int]
"""Topic, partition and offset."""
ObjectArray = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Records:
    """The records of a batch in columns of one length.

    Args:
        keys: the keys.
        values: the values.
        timestamps: event times, milliseconds.
        origin: for each record the row of the task's input that it came from.
        order: columns that, compared in turn, define the order in which Kafka Streams' depth-first walk would reach the
            records: the input row first, then one column for each place at which a record became several.
        headers: per record a list of (name, value) pairs or ``None``; ``None`` where no record has headers.
        old_values: where the records are changes of a table and a node below needs it, the values before them.
        superseded: where the records are changes of a versioned table, which of them came out of order: a newer version
            of the row is there. ``None``: none of them.
        positions: where records were buffered, the topic, partition and offset that each had itself; ``None``, or
            ``None`` for a record: those of its ``origin``.
    """

    keys: Column
    values: Column
    timestamps: IntArray
    origin: IntArray
    order: tuple[IntArray, ...]
    headers: ObjectArray | None = None
    old_values: Column | None = None
    superseded: BoolArray | None = None
    positions: ObjectArray | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, indices: IntArray) -> Records:
        """Returns the records at ``indices``, in that order."""
        return Records(
            self.keys.take(indices),
            self.values.take(indices),
            self.timestamps[indices],
            self.origin[indices],
            tuple(column[indices] for column in self.order),
            None if self.headers is None else self.headers[indices],
            None if self.old_values is None else self.old_values.take(indices),
            None if self.superseded is None else self.superseded[indices],
            None if self.positions is None else self.positions[indices],
        )

    def filter(self, mask: BoolArray) -> Records:
        """Returns the records where ``mask`` is true."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

    def with_values(self, values: Column) -> Records:
        """Returns the same records with other values."""
        return replace(self, values=values)

    def with_change(self, values: Column, old_values: Column | None) -> Records:
        """Returns the same changes of a table with other new and old values."""
        return replace(self, values=values, old_values=old_values)

    def without_superseded(self) -> Records:
        """Returns the records without those that came out of order."""
        return self if self.superseded is None else self.filter(~self.superseded)

    def with_keys(self, keys: Column) -> Records:
        """Returns the same records with other keys."""
        return replace(self, keys=keys)

    def expand(self, parents: IntArray, ordinals: IntArray, keys: Column | None, values: Column) -> Records:
        """Returns new records, any number of them for each of these records.

        Args:
            parents: for each new record the row here that it comes from, ascending.
            ordinals: its number among the records of that row.
            keys: the new keys; ``None`` keeps those of the parents.
            values: the new values.
        """
        return Records(
            self.keys.take(parents) if keys is None else keys,
            values,
            self.timestamps[parents],
            self.origin[parents],
            (*(column[parents] for column in self.order), ordinals),
            None if self.headers is None else self.headers[parents],
            positions=None if self.positions is None else self.positions[parents],
        )

    def for_child(self, position: int) -> Records:
        """Returns the same records, in the order of the child at ``position`` among the node's children."""
        return replace(self, order=(*self.order, np.full(len(self), position, dtype=np.int64)))


def concat_orders(orders: Sequence[tuple[IntArray, ...]]) -> tuple[IntArray, ...]:
    """Returns the order columns of several batches, concatenated.

    A batch with fewer columns is filled up with 0.
    """
    depth = max(map(len, orders))
    return tuple(
        np.concatenate([order[level] if level < len(order) else np.zeros_like(order[0]) for order in orders])
        for level in range(depth)
    )


def sorted_rows(order: tuple[IntArray, ...]) -> IntArray:
    """Returns the rows sorted by their order columns; stable."""
    # lexsort sorts by its last key first.
    return np.lexsort(tuple(reversed(order))).astype(np.int64)


def merge_in_order(batches: Sequence[Records]) -> Records:
    """Returns several batches as one, in the order in which a record-by-record walk would have produced them."""
    if len(batches) == 1:
        return batches[0]
    order = concat_orders([batch.order for batch in batches])
    merged = Records(
        Column.concat([batch.keys for batch in batches]),
        Column.concat([batch.values for batch in batches]),
        np.concatenate([batch.timestamps for batch in batches]),
        np.concatenate([batch.origin for batch in batches]),
        order,
        concat_objects([batch.headers for batch in batches], [len(batch) for batch in batches]),
        concat_old_values(batches),
        concat_superseded(batches),
        concat_objects([batch.positions for batch in batches], [len(batch) for batch in batches]),
    )
    return merged.take(sorted_rows(order))


def concat_old_values(batches: Sequence[Records]) -> Column | None:
    """Returns the old values of several batches, concatenated; ``None`` where no batch has any."""
    if all(batch.old_values is None for batch in batches):
        return None
    return Column.concat(
        [batch.old_values if batch.old_values is not None else Column(objects=[None] * len(batch)) for batch in batches]
    )


def concat_superseded(batches: Sequence[Records]) -> BoolArray | None:
    """Returns which changes of several batches came out of order; ``None`` where none did."""
    if all(batch.superseded is None for batch in batches):
        return None
    return np.concatenate(
        [batch.superseded if batch.superseded is not None else np.zeros(len(batch), dtype=bool) for batch in batches]
    )


def concat_objects(parts: Sequence[ObjectArray | None], lengths: Sequence[int]) -> ObjectArray | None:
    """Returns the headers or positions of several batches, concatenated; ``None`` where no batch has any."""
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [
            part if part is not None else np.full(length, None, dtype=object)
            for part, length in zip(parts, lengths, strict=True)
        ]
    )


def object_array(values: Sequence[Any]) -> ObjectArray:
    """Returns a one-dimensional array of ``values``, whatever their types."""
    # Assigning a list of equally long lists would make numpy see two dimensions.
    return np.fromiter(values, dtype=object, count=len(values))
