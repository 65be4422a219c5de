"""The new aggregates for the groups of a batch, computed by kernels or by the user's callables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.serdes import Serde
from millrace.task.aggregation.calls import fitting
from millrace.task.aggregation.groups import Groups
from millrace.task.aggregation.kernels import (
    ColumnAggregator,
    aggregate_columns,
    input_of,
    is_beyond_64_bits,
    needs_a_value,
    results_of,
)
from millrace.task.aggregation.steps import result_of, running_states, step_of
from millrace.task.columns import BoolArray, Column, IntArray
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.records import Records
from millrace.task.serialization import from_bytes, to_bytes_list
from millrace.task.written_records import is_of_a_record
from millrace.topology.aggregators import (
    Aggregator,
    BuiltInAggregator,
    CallableAggregator,
    CountAggregator,
    ReduceAggregator,
    StructAggregator,
)

NO_TIMESTAMP = np.iinfo(np.int64).min


@dataclass(frozen=True)
class AggregateUpdate:
    """The new aggregates, one per group or, where every update counts, one per row.

    Args:
        rows: the row that each aggregate is the result of, ascending.
        stored: the aggregates as store bytes, ``None`` deletes.
        results: the aggregates as they go downstream.
        timestamps: milliseconds: the larger of the records' and the stored aggregate's.
    """

    rows: IntArray
    stored: list[bytes | None]
    results: Column
    timestamps: IntArray

    def stored_timestamps(self, own: IntArray) -> IntArray:
        """Returns the timestamps for the store: a deletion is logged with its record's own, as in Kafka Streams.

        Args:
            own: timestamp of each of ``rows``, milliseconds.
        """
        deleted = np.fromiter((value is None for value in self.stored), dtype=bool, count=len(self.stored))
        return np.where(deleted, own, self.timestamps)

    def in_order(self) -> AggregateUpdate:
        """Returns the same aggregates, sorted by row."""
        by_row = np.argsort(self.rows).astype(np.int64)
        return AggregateUpdate(
            self.rows[by_row],
            [self.stored[index] for index in by_row.tolist()],
            self.results.take(by_row),
            self.timestamps[by_row],
        )


def update_aggregates(
    aggregator: Aggregator,
    records: Records,
    groups: Groups,
    prior: tuple[list[bytes | None], IntArray],
    *,
    serde: Serde,
    every_update: bool,
    failures: FailureHandler,
    node: str,
) -> AggregateUpdate:
    """Computes the new aggregates of a batch.

    Args:
        aggregator: what to compute.
        records: rows in their order, none to be dropped.
        groups: which rows belong together.
        prior: old aggregate of each group as store bytes (``None`` where there is none) and its timestamp.
        serde: the store's value serde.
        every_update: one aggregate per row instead of one per group.
        failures: what happens to records for which user code raised.
        node: name of the node, for errors.

    Raises:
        ProcessingError: user code raised, and the handler does not continue.
    """
    old_values, old_timestamps = prior
    known = np.fromiter((value is not None for value in old_values), dtype=bool, count=len(old_values))
    floor = np.where(known, old_timestamps, NO_TIMESTAMP)
    old = from_bytes(old_values, serde)
    if isinstance(aggregator, BuiltInAggregator | StructAggregator):
        records = fitting(aggregator, records, failures, node)
        if len(records) == 0:
            empty = np.zeros(0, dtype=np.int64)
            return AggregateUpdate(empty, [], Column(objects=[]), empty)
        if is_typed(aggregator, records):
            return _by_columns(aggregator, records, groups, old.arrow, floor, serde=serde, every_update=every_update)
        step = step_of(aggregator)
        finish: Callable[[Any], Any] | None = partial(result_of, aggregator)
        fold: ReduceAggregator | CallableAggregator = CallableAggregator(
            lambda: None, lambda _, value, state: step(state, value)
        )
    else:
        fold, finish = aggregator, None
    calls = _Calls(fold, records, groups, serde)
    merged = None if every_update else calls.merged(old.objects)
    if merged is None:
        called, stored, failed = calls.each(old_values)
        for row, error in failed:
            failures.processing(error, int(records.origin[row]), node, processed_record(records, row))
        present = np.array([new is not None for new in stored])
        timestamps = _running_timestamps(floor, groups.ids[called], records.timestamps[called], present)
        if not every_update:
            lasts = sorted({group: index for index, group in enumerate(groups.ids[called].tolist())}.values())
            called, timestamps, stored = called[lasts], timestamps[lasts], [stored[index] for index in lasts]
        # Read back, since an adder may change the aggregate that it was given in place.
        results = from_bytes(stored, serde)
    else:
        called, aggregates, stored, present = merged
        timestamps = _running_timestamps(floor, groups.ids, records.timestamps, present)[called]
        results = Column(objects=aggregates)
    if finish is not None:
        results = Column(objects=[finish(state) for state in results.objects])
    return AggregateUpdate(called, stored, results, timestamps)


def is_typed(aggregator: ColumnAggregator, records: Records) -> bool:
    """Returns whether the aggregation can be computed in columns: it reads no value, or the values' type is known."""
    if isinstance(aggregator, CountAggregator) and aggregator.field is None:
        return True
    return records.values.is_arrow and not is_beyond_64_bits(aggregator, records.values.arrow)


def _by_columns(
    aggregator: ColumnAggregator,
    records: Records,
    groups: Groups,
    old: pa.Array,
    floor: IntArray,
    *,
    serde: Serde,
    every_update: bool,
) -> AggregateUpdate:
    values = records.values.arrow if records.values.is_arrow else pa.nulls(len(records))
    if every_update:
        states = running_states(aggregator, values, groups, old)
        rows = np.arange(len(records), dtype=np.int64)
        present = states.is_valid().to_numpy(zero_copy_only=False)
        timestamps = _running_timestamps(floor, groups.ids, records.timestamps, present)
    else:
        states = aggregate_columns(aggregator, values, groups, old)
        rows = groups.last_rows
        counted = np.ones(len(records), dtype=bool)
        if isinstance(aggregator, BuiltInAggregator) and needs_a_value(aggregator):
            valid = input_of(aggregator, values).is_valid().to_numpy(zero_copy_only=False)
            counted = _from_first_value(floor, groups, valid)
        timestamps = floor.copy()
        np.maximum.at(timestamps, groups.ids[counted], records.timestamps[counted])
        absent = timestamps == NO_TIMESTAMP
        timestamps[absent] = records.timestamps[rows[absent]]
    update = AggregateUpdate(
        rows, to_bytes_list(Column(arrow=states), serde), Column(arrow=results_of(aggregator, states)), timestamps
    )
    return update if bool((rows[1:] > rows[:-1]).all()) else update.in_order()


def _from_first_value(floor: IntArray, groups: Groups, valid: BoolArray) -> BoolArray:
    """Returns at which rows their group has an aggregate."""
    first = np.full(groups.count, len(valid), dtype=np.int64)
    rows = np.arange(len(valid), dtype=np.int64)
    np.minimum.at(first, groups.ids[valid], rows[valid])
    first[floor != NO_TIMESTAMP] = 0
    counted: BoolArray = rows >= first[groups.ids]
    return counted


def _running_timestamps(floor: IntArray, ids: IntArray, timestamps: IntArray, present: BoolArray) -> IntArray:
    """Returns the timestamp after each row: the larger of the aggregate's and the row's, or else the row's."""
    latest = floor.tolist()
    running = []
    for group, timestamp, is_present in zip(ids.tolist(), timestamps.tolist(), present.tolist(), strict=True):
        after = max(latest[group], timestamp)
        running.append(after)
        latest[group] = after if is_present else NO_TIMESTAMP
    return np.array(running, dtype=np.int64)


class _Calls:
    """An aggregation by callables over the rows of a batch.

    Args:
        aggregator: the callables.
        records: the rows.
        groups: which of them belong together.
        serde: the store's value serde.
    """

    def __init__(
        self, aggregator: ReduceAggregator | CallableAggregator, records: Records, groups: Groups, serde: Serde
    ) -> None:
        self._aggregator = aggregator
        self._keys, self._values = records.keys.objects, records.values.objects
        self._groups = groups
        self._serde = serde

    def merged(self, aggregates: list[Any]) -> tuple[IntArray, list[Any], list[bytes | None], BoolArray] | None:
        """Returns for each group its last row, the aggregate after it, its store bytes, and where there is one.

        It is ``None`` where a row failed: changes that a callable made to the aggregate before it raised must not stay,
        and only :meth:`each` finds the failed rows.
        """
        current = list(aggregates)
        present = np.zeros(len(self._values), dtype=bool)
        try:
            for row, group in enumerate(self._groups.ids.tolist()):
                current[group] = new = self._after(row, current[group])
                present[row] = new is not None
            by_row = np.argsort(self._groups.last_rows)
            results = [current[group] for group in by_row.tolist()]
            return self._groups.last_rows[by_row], results, to_bytes_list(Column(objects=results), self._serde), present
        except Exception:
            return None

    def each(self, stored: list[bytes | None]) -> tuple[IntArray, list[bytes | None], list[tuple[int, Exception]]]:
        """Returns the rows that did not fail, the aggregate after each as store bytes, and the failed rows with errors.

        Each row is added to the aggregate as the store would return it.
        """
        latest = list(stored)
        current = [None if data is None else self._serde.deserialize(data) for data in stored]
        rows: list[int] = []
        after: list[bytes | None] = []
        failed: list[tuple[int, Exception]] = []
        for row, group in enumerate(self._groups.ids.tolist()):
            new, error = None, None
            try:
                new = self._after(row, current[group])
            except Exception as raised:
                error = raised
            data, error = (None, error) if error is not None else self._written(new)
            if error is not None:
                failed.append((row, error))
                before = latest[group]
                current[group] = None if before is None else self._serde.deserialize(before)
                continue
            current[group], latest[group] = new, data
            rows.append(row)
            after.append(data)
        return np.array(rows, dtype=np.int64), after, failed

    def _written(self, aggregate: Any) -> tuple[bytes | None, Exception | None]:
        """Returns the aggregate as store bytes, or the error why it cannot be serialized."""
        try:
            return (None if aggregate is None else self._serde.serialize(aggregate)), None
        except Exception as error:
            if not is_of_a_record(error):
                raise
            return None, error

    def _after(self, row: int, old: Any) -> Any:
        """Returns the aggregate with one row added."""
        if isinstance(self._aggregator, ReduceAggregator):
            return self._values[row] if old is None else self._aggregator.reducer(old, self._values[row])
        initial = self._aggregator.initializer() if old is None else old
        return self._aggregator.adder(self._keys[row], self._values[row], initial)
