"""The stream time of a windowed operator: the largest timestamp of the records that reached it."""

from __future__ import annotations

import numpy as np

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.task.columns import CogroupedColumn, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.records import Records


def advance_stream_time(
    stream_times: dict[str, int], failures: FailureHandler, store: str, records: Records
) -> IntArray:
    """Returns stream time at each record, itself included; stores the last one and reports how late records are.

    Each input of a cogroup has its own: the first one under the name of the store, the others with a number appended.

    Args:
        stream_times: stream time of each windowed operator, milliseconds, by the name of its store; is kept up to date.
        failures: gets how late the records are, milliseconds.
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
