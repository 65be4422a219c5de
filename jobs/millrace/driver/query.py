"""The driver's interface to a streaming query, which ``millrace.spark`` implements."""

from __future__ import annotations

from typing import Protocol

import structlog

from millrace.errors import DriverFencedError
from millrace.spark.progress import QueryProgress
from millrace.task.task import TaskAction

__all__ = ["Query", "QueryProgress", "cause_of_death", "is_alive"]

log = structlog.get_logger(__name__)


class BatchLock(Protocol):
    """A reentrant lock, see :class:`threading.RLock`."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool:
        """Acquires the lock; returns whether that succeeded within ``timeout`` seconds."""

    def release(self) -> None:
        """Releases the lock."""


class Query(Protocol):
    """A sub-topology as one streaming query.

    The callback of a batch checks the stop and pause flags after it has the lock, so that a barrier which took the
    lock first is respected. ``is_active``, ``exception`` and ``progress`` are read while a callback waits for the
    driver's heartbeat: they never wait for the lock.
    """

    @property
    def name(self) -> str:
        """``<application-id>-<sub-topology number>``."""

    @property
    def sub_topology(self) -> int:
        """Number of the sub-topology."""

    @property
    def lock(self) -> BatchLock:
        """The lock that the query holds during a batch. Acquired without blocking, it may not prevent a new batch."""

    @property
    def is_active(self) -> bool:
        """Whether the streaming query runs."""

    @property
    def exception(self) -> BaseException | None:
        """The error of the query; ``None`` while it runs or after it was stopped."""

    @property
    def progress(self) -> QueryProgress:
        """The progress of the query; it survives restarts of the query."""

    purges: bool
    """Whether what is processed may be deleted from repartition topics; set by an operation that still reads it."""

    def start(self) -> None:
        """Starts with a new Spark checkpoint at the group's committed offsets; returns once the query has started."""

    def request_stop(self) -> None:
        """Makes all further callbacks return at once."""

    def abandon(self, error: DriverFencedError) -> None:
        """Makes the query launch, purge and start nothing more, since a newer driver took over.

        It takes no lock and returns at once.
        """

    def stop(self, timeout_s: float) -> None:
        """Stops the query; must not be called inside a callback, which Spark would wait for."""

    def pause(self) -> None:
        """Makes callbacks process nothing until :meth:`resume`."""

    def resume(self) -> None:
        """Ends :meth:`pause`."""

    def run_on_tasks(self, action: TaskAction) -> dict[str, object]:
        """Makes every task execute an action between two batches, in the worker that holds it; needs the lock.

        Args:
            action: a picklable callable that takes the task; it must not write to stores.

        Returns:
            What it returned, by the name of the task.
        """

    @property
    def next_tick_s(self) -> float | None:
        """Seconds until the next wall-clock punctuation is due; ``None`` if none is scheduled."""

    def tick(self) -> None:
        """Runs the tasks without input if that is due: punctuations, and commits of input without records.

        Called about once a second, or when ``next_tick_s`` says, while no batch runs, so that it must return soon
        where nothing is due.
        """


def is_alive(query: Query) -> bool:
    """Returns whether the streaming query runs; ``False`` if its engine is gone and cannot answer."""
    try:
        return query.is_active
    except Exception as error:
        log.warning("query cannot be asked", query=query.name, problem=f"{type(error).__name__}: {error}")
        return False


def cause_of_death(query: Query) -> BaseException | None:
    """Returns the error of the query, or the error with which its engine failed to answer."""
    try:
        return query.exception
    except Exception as error:
        return error
