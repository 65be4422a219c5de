"""Stream time of a windowed operator: the largest timestamp of the records that reached it."""

from __future__ import annotations

import numpy as np

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.task.columns import IntArray
from millrace.task.processor import TaskContext


def advance_stream_time(context: TaskContext, store: str, timestamps: IntArray) -> IntArray:
    """Stream time as each record sees it, itself included; remembers the last, and how late the records are.

    Args:
        context: the task's surroundings.
        store: the operator's store, whose name a changed topology keeps.
        timestamps: event times of the records in their order, milliseconds, at least one.
    """
    before = context.stream_times.get(store, UNKNOWN_TIME)
    seen: IntArray = np.maximum(np.maximum.accumulate(timestamps), before)
    context.stream_times[store] = int(seen[-1])
    context.failures.observe_lateness(seen - timestamps)
    return seen
