"""The progress of tasks' restorations, as their workers report it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """The report of the restoration of one store of a task.

    Args:
        task: name of the task.
        store: name of the store.
        records: changelog records applied so far.
        remaining: offsets up to the end.
        rate: records per second.
    """

    task: str
    store: str
    records: int
    remaining: int
    rate: float


class RestoreTotals:
    """The sums of the reports of all stores of a task."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, RestoreReport]] = {}

    def add(self, report: RestoreReport) -> tuple[int, float]:
        """Adds a report; returns the remaining changelog records of its task, and its rate in records per second."""
        stores = self._reports.setdefault(report.task, {})
        stores[report.store] = report
        unfinished = [each for each in stores.values() if each.remaining]
        return sum(each.remaining for each in unfinished), sum(each.rate for each in unfinished)

    def clear(self) -> None:
        """Discards all reports: the tasks are opened again, or were."""
        self._reports.clear()
