"""Commands to threads about their tasks, and the outcomes of these commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.errors import MillraceError, OperationError
from millrace.spark.stream_threads.messages import Answer
from millrace.spark.stream_threads.problems import error_of


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command.

    Args:
        answers: of each task.
        error: why there is not one of each.
    """

    answers: Mapping[str, Any]
    error: MillraceError | None = None


@dataclass
class _Pending:
    unanswered: dict[int, tuple[str, ...]]
    answers: dict[str, Any] = field(default_factory=dict)
    error: MillraceError | None = None


class Commands:
    """The commands that were sent. Each has its outcome once all threads have answered or are gone."""

    def __init__(self) -> None:
        self._numbers = 0
        self._pending: dict[int, _Pending] = {}

    def begin(self, unanswered: Mapping[int, tuple[str, ...]], without_thread: list[str]) -> int:
        """Records a command.

        Args:
            unanswered: the tasks by the connections whose answers are awaited.
            without_thread: tasks that no process can be asked for.

        Returns:
            its number.
        """
        self._numbers += 1
        error = None if not without_thread else _absent(without_thread, "no stream thread has them at the moment")
        self._pending[self._numbers] = _Pending(dict(unanswered), error=error)
        return self._numbers

    def answered(self, connection: int, answer: Answer) -> None:
        """Records an answer; ignores one that is not expected, or no longer."""
        pending = self._pending.get(answer.command)
        if pending is None or pending.unanswered.pop(connection, None) is None:
            return
        pending.answers.update(answer.answers)
        if answer.problem is not None:
            pending.error = pending.error or error_of(answer.problem)
        elif answer.missing:
            pending.error = pending.error or _absent(answer.missing, "their thread had handed them over")

    def connection_ended(self, connection: int) -> None:
        """Records that a thread sends no further answers."""
        for pending in self._pending.values():
            tasks = pending.unanswered.pop(connection, ())
            if tasks:
                pending.error = pending.error or _absent(tasks, "their thread went away")

    def outcome(self, number: int) -> Outcome | None:
        """Returns the outcome of a command; ``None`` until all answers are there."""
        pending = self._pending[number]
        return None if pending.unanswered else Outcome(pending.answers, pending.error)

    def end(self, number: int) -> tuple[str, ...]:
        """Discards a command, and returns the tasks whose answers are missing."""
        pending = self._pending.pop(number)
        return tuple(task for tasks in pending.unanswered.values() for task in tasks)


def _absent(tasks: tuple[str, ...] | list[str], why: str) -> OperationError:
    return OperationError(
        f"Tasks {', '.join(sorted(tasks))} could not be asked: {why}.",
        remedy="ask again once the application is RUNNING",
    )
