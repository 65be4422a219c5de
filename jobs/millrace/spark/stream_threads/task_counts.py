"""The progress of a task that a stream thread reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from millrace.spark.stream_threads.messages import TaskReport, TaskState, offsets_of
from millrace.spark.stream_threads.thread_task import Activity, ThreadTask

_OPENING = (Activity.CLOSED, Activity.OPENING, Activity.FAILED)
_STANDING = (Activity.READY, Activity.ACTING)


@dataclass
class TaskCounts:
    """The counts of a task since it was assigned to its thread.

    Args:
        records: input records processed.
        commits: how often it has committed.
        committed_at: last commit, seconds since the epoch.
        busy_s: time spent on it, seconds.
        failed_attempts: failed attempts since the last row of statistics.
        statistics: rows that were not reported yet.
    """

    records: int = 0
    commits: int = 0
    committed_at: float | None = None
    busy_s: float = 0.0
    failed_attempts: int = 0
    statistics: list[str] = field(default_factory=list)


def state_of(task: ThreadTask) -> TaskState:
    """Returns the state of a task that is reported to the driver."""
    if task.activity in _OPENING:
        return TaskState.OPENING
    return TaskState.PAUSED if task.paused and task.activity in _STANDING else TaskState.RUNNING


def take_report(task: ThreadTask, counts: TaskCounts) -> TaskReport:
    """Returns the report of a task, with its rows of statistics, each of which is reported once."""
    statistics, counts.statistics = counts.statistics, []
    read = task.input
    return TaskReport(
        task=task.name,
        state=state_of(task),
        positions=() if read is None else offsets_of(read.committed),
        ends=() if read is None else offsets_of(read.ends),
        records=counts.records,
        commits=counts.commits,
        committed_at=counts.committed_at,
        busy_s=round(counts.busy_s, 3),
        statistics=tuple(statistics),
    )
