"""The load of each task: the share of its thread's time that it takes."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.driver.coordinator.members import Member


class Loads:
    """The load of tasks, as parts of a thread's time, from what threads report.

    Args:
        interval_s: over which time it is measured, seconds. The mean of the last measurements counts, so that a minute
            of backlog moves nothing by itself.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._measured_at: float | None = None
        self._busy: dict[str, float] = {}
        self._loads: dict[str, float] = {}

    def of(self, task: str) -> float:
        """Returns the load of a task; 0 where it is not known."""
        return self._loads.get(task, 0.0)

    def discard(self, task: str) -> None:
        """Records that a thread has released a task, whose next thread counts from 0. The load stays known."""
        self._busy.pop(task, None)

    def is_due(self, now: float) -> bool:
        """Returns whether it is time to measure."""
        if self._measured_at is None:
            self._measured_at = now
        return now - self._measured_at >= self._interval_s

    def measure(self, now: float, members: Iterable[Member]) -> None:
        """Updates the loads from the threads' last reports."""
        elapsed = now - (self._measured_at if self._measured_at is not None else now)
        self._measured_at = now
        for member in members:
            for task, grant in member.grants.items():
                if grant.report is None:
                    continue
                busy_s = grant.report.busy_s
                before = self._busy.get(task)
                self._busy[task] = busy_s
                if before is not None and busy_s >= before and elapsed > 0:
                    measured = min(1.0, (busy_s - before) / elapsed)
                    self._loads[task] = (self._loads.get(task, measured) + measured) / 2
