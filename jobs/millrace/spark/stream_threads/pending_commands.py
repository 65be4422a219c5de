"""Commands of the driver that some tasks have not executed yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millrace.spark.stream_threads.messages import Act, Answer, CommitNow
from millrace.spark.stream_threads.problems import problem_of
from millrace.spark.stream_threads.thread_task import Activity, Ended, ThreadTask


@dataclass
class _Command:
    message: Act | CommitNow
    remaining: set[str]
    answers: dict[str, object] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    problem: Exception | None = None


class PendingCommands:
    """The commands that tasks have not executed yet.

    Each is answered once, when all its tasks have executed it or are gone.

    Args:
        send: sends an answer to the driver.
    """

    def __init__(self, send: Callable[[Answer], None]) -> None:
        self._send = send
        self._commands: list[_Command] = []

    def add(self, message: Act | CommitNow, tasks: Mapping[str, ThreadTask], now: float) -> None:
        """Adds a command.

        Args:
            message: the command.
            tasks: the thread's tasks.
            now: the loop's clock, seconds.
        """
        command = _Command(message, set())
        for name in message.tasks:
            task = tasks.get(name)
            if task is None or task.leaving:
                command.missing.add(name)
            elif isinstance(message, Act):
                command.remaining.add(name)
            elif task.activity is Activity.PROCESSING or (task.has_uncommitted(now) and not task.paused):
                command.remaining.add(name)
                task.ask_for_commit()
        self._commands.append(command)
        self._answer()

    def action_for(self, name: str) -> Act | None:
        """Returns the next action for a task, in the order of the commands; ``None`` if there is none."""
        for command in self._commands:
            if isinstance(command.message, Act) and name in command.remaining:
                return command.message
        return None

    def acted(self, name: str, ended: Ended) -> None:
        """Records the result of the action that :meth:`action_for` returned."""
        for command in self._commands:
            if isinstance(command.message, Act) and name in command.remaining:
                command.remaining.discard(name)
                command.problem = command.problem or ended.error
                command.answers[name] = ended.answer
                break
        self._answer()

    def committed(self, name: str) -> None:
        """Records that a task has committed."""
        for command in self._commands:
            if isinstance(command.message, CommitNow):
                command.remaining.discard(name)
        self._answer()

    def discard(self, name: str) -> None:
        """Records that the thread has released a task."""
        for command in self._commands:
            if name in command.remaining:
                command.remaining.discard(name)
                command.missing.add(name)
        self._answer()

    def end(self) -> None:
        """Answers all commands, without the tasks that have not executed them."""
        for command in self._commands:
            command.missing |= command.remaining
            command.remaining.clear()
        self._answer()

    def _answer(self) -> None:
        for command in [each for each in self._commands if not each.remaining]:
            self._commands.remove(command)
            self._send(
                Answer(
                    command.message.command,
                    answers={} if command.problem is not None else command.answers,
                    missing=tuple(sorted(command.missing)),
                    problem=None if command.problem is None else problem_of(command.problem),
                )
            )
