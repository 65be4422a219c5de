"""New aggregates for the groups of a batch, by kernels or by the user's callables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from millrace.serdes import Serde
from millrace.task.aggregation.groups import Groups
from millrace.task.aggregation.kernels import aggregate_columns, results_of
from millrace.task.aggregation.steps import running_states
from millrace.task.columns import Column, IntArray
from millrace.task.processor import TaskContext
from millrace.task.records import Records
from millrace.task.serialization import from_bytes, to_bytes_list
from millrace.topology.aggregators import (
    Aggregator,
    BuiltInAggregator,
    CallableAggregator,
    ReduceAggregator,
    StructAggregator,
)


@dataclass(frozen=True)
class AggregateUpdate:
    """New aggregates, one per group or, where every update counts, one per row.

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


def update_aggregates(
    aggregator: Aggregator,
    records: Records,
    groups: Groups,
    prior: tuple[list[bytes | None], IntArray],
    *,
    serde: Serde,
    every_update: bool,
    context: TaskContext,
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
        context: the task's surroundings, for the processing handler.
        node: name of the node, for errors.

    Raises:
        ProcessingError: user code raised, and the handler does not continue.
    """
    old_values, old_timestamps = prior
    known = np.fromiter((value is not None for value in old_values), dtype=bool, count=len(old_values))
    floor = np.where(known, old_timestamps, np.iinfo(np.int64).min)
    old = from_bytes(old_values, serde)
    if isinstance(aggregator, BuiltInAggregator | StructAggregator):
        values = records.values.arrow
        if every_update:
            states = running_states(aggregator, values, groups, old.arrow)
            rows = np.arange(len(records), dtype=np.int64)
        else:
            states = aggregate_columns(aggregator, values, groups, old.arrow)
            rows = groups.last_rows
        stored = to_bytes_list(Column(arrow=states), serde)
        results = Column(arrow=results_of(aggregator, states))
    elif every_update:
        rows, aggregates = _call(aggregator, records, groups, old.objects, context, node, serde.serialize)
        # Read back, since an adder may change the aggregate that it was given in place.
        stored, results = aggregates, from_bytes(aggregates, serde)
    else:
        called, aggregates = _call(aggregator, records, groups, old.objects, context, node, _unchanged)
        last_place = {group: place for place, group in enumerate(groups.ids[called].tolist())}
        places = sorted(last_place.values())
        rows = called[places]
        results = Column(objects=[aggregates[place] for place in places])
        stored = to_bytes_list(results, serde)
    timestamps = _timestamps(records, groups, floor, rows, every_update=every_update)
    if bool((rows[1:] > rows[:-1]).all()):
        return AggregateUpdate(rows, stored, results, timestamps)
    by_row = np.argsort(rows).astype(np.int64)
    return AggregateUpdate(
        rows[by_row], [stored[place] for place in by_row.tolist()], results.take(by_row), timestamps[by_row]
    )


def _timestamps(records: Records, groups: Groups, floor: IntArray, rows: IntArray, *, every_update: bool) -> IntArray:
    if not every_update:
        latest = floor.copy()
        np.maximum.at(latest, groups.ids, records.timestamps)
        result: IntArray = latest[groups.ids[rows]]
        return result
    latest_of = floor.tolist()
    running = []
    for group, timestamp in zip(groups.ids[rows].tolist(), records.timestamps[rows].tolist(), strict=True):
        latest_of[group] = max(latest_of[group], timestamp)
        running.append(latest_of[group])
    return np.array(running, dtype=np.int64)


def _unchanged(value: Any) -> Any:
    return value


def _call(
    aggregator: ReduceAggregator | CallableAggregator,
    records: Records,
    groups: Groups,
    aggregates: list[Any],
    context: TaskContext,
    node: str,
    form: Callable[[Any], Any],
) -> tuple[IntArray, list[Any]]:
    """Runs callables over the rows; returns the rows that did not fail and, in ``form``, the aggregate after each."""
    current = list(aggregates)
    rows: list[int] = []
    after: list[Any] = []
    keys, values = records.keys.objects, records.values.objects
    for row, group in enumerate(groups.ids.tolist()):
        old = current[group]
        try:
            if isinstance(aggregator, ReduceAggregator):
                new = values[row] if old is None else aggregator.reducer(old, values[row])
            else:
                new = aggregator.adder(keys[row], values[row], aggregator.initializer() if old is None else old)
        except Exception as error:
            context.failures.processing(error, int(records.origin[row]), node)
            continue
        current[group] = new
        rows.append(row)
        after.append(None if new is None else form(new))
    return np.array(rows, dtype=np.int64), after
