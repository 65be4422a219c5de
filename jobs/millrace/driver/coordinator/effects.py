"""What the coordinator wants done: it has no sockets, no broker and no threads of its own."""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import MillraceError
from millrace.spark.stream_threads.messages import FromDriver, Hello, Report


@dataclass(frozen=True)
class Send:
    """Send a message to a thread.

    Args:
        connection: number of its connection.
        message: the message.
    """

    connection: int
    message: FromDriver


@dataclass(frozen=True)
class Close:
    """End a connection.

    Args:
        connection: its number.
        reason: why.
        at_once: not behind what was sent, since the thread may not read any more.
    """

    connection: int
    reason: str
    at_once: bool = False


@dataclass(frozen=True)
class Fence:
    """See to it that a thread commits nothing of tasks any more, then call ``fenced`` or ``not_fenced``.

    Its process has ended, or the transactional ids of the tasks are taken over.

    Args:
        tasks: names of the tasks.
        hello: of the thread that had them, and may still process.
    """

    tasks: tuple[str, ...]
    hello: Hello


@dataclass(frozen=True)
class CheckDead:
    """See whether a thread's process is gone, as far as that shows from here, and call ``process_ended`` if it is.

    Args:
        hello: who it is.
    """

    hello: Hello


@dataclass(frozen=True)
class TaskFailed:
    """A task failed for good, as far as its thread is concerned; it has no thread until it is given again.

    Args:
        task: its name.
        error: why.
    """

    task: str
    error: MillraceError


@dataclass(frozen=True)
class Heard:
    """A report that counts.

    Args:
        hello: whose.
        report: what.
    """

    hello: Hello
    report: Report


Effect = Send | Close | Fence | CheckDead | TaskFailed | Heard
