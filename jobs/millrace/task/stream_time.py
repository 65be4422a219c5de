"""Stream time of a windowed operator: the largest timestamp of the records that reached it."""

from __future__ import annotations

import numpy as np

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.task.columns import CogroupedColumn, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.records import Records


def advance_stream_time(
    stream_times: dict[str, int], failures: FailureHandler, store: str, records: Records
) -> IntArray:
    """Stream time as each record sees it, itself included; remembers the last, and how late the records are.

    Each input of a cogroup has its own: the first one by the name of the store, the others with their number behind it.

    Args:
        stream_times: stream time of each windowed operator, milliseconds, by the name of its store; is kept up to date.
        failures: is told how late the records are.
        store: the operator's store, whose name a changed topology keeps.
        records: records in their order, at least one.
    """
    timestamps = records.timestamps
    if isinstance(records.values, CogroupedColumn):
        inputs = records.values.inputs
        seen = np.empty_like(timestamps)
        for number in np.unique(inputs).tolist():
            own = inputs == number
            seen[own] = _advance(stream_times, store if number == 0 else f"{store}/{number}", timestamps[own])
    else:
        seen = _advance(stream_times, store, timestamps)
    failures.observe_lateness(seen - timestamps)
    return seen


def _advance(stream_times: dict[str, int], name: str, timestamps: IntArray) -> IntArray:
    before = stream_times.get(name, UNKNOWN_TIME)
    seen: IntArray = np.maximum(np.maximum.accumulate(timestamps), before)
    stream_times[name] = int(seen[-1])
    return seen
