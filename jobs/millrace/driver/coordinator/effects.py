"""The effects of the coordinator's state machine, which has no sockets, no broker and no threads of its own."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import MillraceError
from millrace.spark.stream_threads.messages import FromDriver, Hello, Report


@dataclass(frozen=True)
class Send:
    """A message that should be sent to a thread.

    Args:
        connection: number of its connection.
        message: the message.
    """

    connection: int
    message: FromDriver


@dataclass(frozen=True)
class Close:
    """A connection that should be closed.

    Args:
        connection: its number.
        reason: why.
        at_once: without sending queued messages first, since the thread may not read any more.
    """

    connection: int
    reason: str
    at_once: bool = False


@dataclass(frozen=True)
class Fence:
    """A thread that should be fenced from some tasks; ``fenced`` or ``not_fenced`` is called afterwards.

    It is fenced once its process has ended, or the transactional ids of the tasks were taken over.

    Args:
        tasks: names of the tasks.
        hello: of the thread that had them, and may still process.
    """

    tasks: tuple[str, ...]
    hello: Hello


@dataclass(frozen=True)
class CheckDead:
    """A thread whose process should be checked; ``process_ended`` is called if it is known to have ended.

    Args:
        hello: who it is.
    """

    hello: Hello


@dataclass(frozen=True)
class TaskFailed:
    """A task that failed for good on its thread; it has no thread until it is added again.

    Args:
        task: its name.
        error: why.
    """

    task: str
    error: MillraceError


@dataclass(frozen=True)
class Heard:
    """A report that was accepted.

    Args:
        hello: whose.
        report: what.
    """

    hello: Hello
    report: Report


Effect = Send | Close | Fence | CheckDead | TaskFailed | Heard
