"""The interfaces of a stream thread's loop, which tests replace: its connection to the driver, its maker of tasks."""

from __future__ import annotations

from typing import Protocol

from millrace.spark.stream_threads.conversation import Ended as ConnectionEnded
from millrace.spark.stream_threads.messages import Assignment, FromDriver, FromThread
from millrace.spark.stream_threads.thread_task import OpenTask, TaskSettings
from millrace.task.batch_outcome import BatchOutcome


class DriverConnection(Protocol):
    """The loop's connection to its driver.

    See :class:`millrace.spark.stream_threads.connection.CoordinatorConnection`.
    """

    @property
    def lease_left_s(self) -> float:
        """Seconds for which no other process can get this thread's tasks."""

    def send(self, message: FromThread) -> None:
        """Sends a message; returns at once."""

    def take(self, timeout_s: float = 0.0) -> FromDriver | ConnectionEnded | None:
        """Returns the driver's next message; ``None`` if none came in time."""

    def leave(self, reason: str) -> None:
        """Sends the goodbye and ends the connection."""

    def abandon(self, reason: str) -> None:
        """Ends the connection without a goodbye."""


class TaskMaker(Protocol):
    """A maker of the tasks that a thread is assigned."""

    def make(self, assignment: Assignment) -> tuple[OpenTask, TaskSettings]:
        """Returns a task that is not open yet, and its settings for the loop.

        Raises:
            MillraceError: the thread does not have the plan of the task.
        """

    def statistics(self, outcome: BatchOutcome, *, failed_attempts: int) -> str:
        """Returns the row of statistics of a batch, for the driver."""
