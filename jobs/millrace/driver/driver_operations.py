"""Operations of a running driver beyond stop and pause: named operations on its tasks, between batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from millrace.driver.barrier import between_batches
from millrace.driver.query import Query
from millrace.errors import OperationError
from millrace.task.task import TaskAction


class HeldTasks:
    """The tasks of an application while none of them is inside a batch.

    Args:
        queries: the queries that are held.
    """

    def __init__(self, queries: Sequence[Query]) -> None:
        self._queries = queries

    def run(self, action: TaskAction) -> dict[str, Any]:
        """Makes every task execute an action, in the worker that holds it.

        Args:
            action: a picklable callable that takes the task; it must not write to stores.

        Returns:
            What it returned, by the name of the task.

        Raises:
            MillraceError: it failed in a task.
        """
        return {task: answer for query in self._queries for task, answer in query.run_on_tasks(action).items()}


class TaskGate:
    """A gate through which an operation holds the tasks between two batches.

    Args:
        queries: returns the current queries.
        timeout_s: longest wait for running batches, seconds.
    """

    def __init__(self, queries: Callable[[], Sequence[Query]], *, timeout_s: float) -> None:
        self._queries = queries
        self._timeout_s = timeout_s

    @contextmanager
    def hold(self) -> Iterator[HeldTasks]:
        """Holds all tasks outside of batches while the body runs. Keep it short: it adds to the application's latency.

        Raises:
            OperationError: the application does not run yet, a query is down, or a batch did not end in time.
        """
        queries = sorted(self._queries(), key=lambda each: each.sub_topology)
        if not queries:
            raise OperationError("The application has no tasks yet.", remedy="wait until it is ready")
        with between_batches(queries, timeout_s=self._timeout_s):
            if down := [each.name for each in queries if not each.is_active]:
                raise OperationError(f"{', '.join(down)} does not run.", remedy="wait until it is started again")
            yield HeldTasks(queries)

    @contextmanager
    def without_purge(self) -> Iterator[None]:
        """Suspends the purging of repartition topics while the body runs; batches continue."""
        for query in self._queries():
            query.purges = False
        try:
            yield
        finally:
            for query in self._queries():
                query.purges = True


DriverOperation = Callable[[Mapping[str, Any], TaskGate], Mapping[str, Any]]
"""Takes the arguments of the request and returns the answer, both JSON."""
