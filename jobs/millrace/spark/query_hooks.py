"""The hooks by which a query of either engine reports to the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from millrace.errors import DriverFencedError
from millrace.metrics import TaskStatistics
from millrace.spark.plan import QueryPlan


@dataclass(frozen=True, kw_only=True)
class QueryHooks:
    """The hooks by which a query reports to the driver.

    Args:
        before_batch: called before anything of a batch is launched; raises where the driver was fenced.
        before_purge: called before records are deleted; raises unless the broker has just confirmed that the driver is
            the newest.
        fence: takes over the transactional ids of tasks, by their names, which ends their transactions.
        on_fenced: takes what a task has found: that a newer driver took over.
        on_statistics: takes each task's row of statistics.
        on_batch: takes the sub-topology's number and the batch's duration in seconds.
        replan: the plan for the topics as they are now, by the number of the sub-topology; the start of new partitions
            is committed when it returns.
    """

    before_batch: Callable[[], None] = lambda: None
    before_purge: Callable[[], None] = lambda: None
    fence: Callable[[Sequence[str]], None] = lambda _: None
    on_fenced: Callable[[DriverFencedError], object] = lambda _: None
    on_statistics: Callable[[TaskStatistics], object] = lambda _: None
    on_batch: Callable[[int, float], object] = lambda _, __: None
    replan: Callable[[int], QueryPlan] | None = None
