"""The running coordinator: its state machine, connected to a server, a clock and a broker, for any driver thread."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import structlog

from millrace.driver.coordinator.coordinator import Coordinator, CoordinatorSettings
from millrace.driver.coordinator.effects import CheckDead, Close, Effect, Fence, Heard, Send, TaskFailed
from millrace.driver.coordinator.server import CoordinatorServer
from millrace.driver.coordinator.thread_status import ThreadStatus, thread_statuses
from millrace.driver.periodic import Periodic
from millrace.errors import MillraceError, OperationError
from millrace.processes import ProcessIdentity
from millrace.spark.stream_threads.messages import FromThread, Hello, Report
from millrace.task.actions import to_named
from millrace.task.task import TaskAction

_TICK_S = 0.5
_FENCING_THREADS = 4
_CLOSE_S = 5.0
_END_S = 0.1
"""How long the process of a thread whose connection has ended may take to be gone, seconds."""

_log = structlog.get_logger(__name__)


class CoordinatorListener(Protocol):
    """A listener to stream threads, called by threads of the coordinator; it must return soon."""

    def heard(self, hello: Hello, report: Report) -> None:
        """Handles a report of a thread."""

    def task_failed(self, task: str, error: MillraceError) -> None:
        """Handles the final failure of a task, which no thread gets until it is added again."""


class CoordinatorService:
    """A coordinator that distributes an application's tasks over the stream threads that connect. Thread-safe.

    Args:
        settings: how it behaves.
        bind: the address that is listened on.
        port: its port; 0 takes a free one.
        host: the name or address at which workers reach the driver.
        run: identifies the driver's run.
        fence: takes the transactional ids of tasks over, whose names it gets; raises where it could not.
        listener: gets reports and failures of tasks.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        bind: str,
        port: int = 0,
        host: str,
        run: str,
        fence: Callable[[Sequence[str]], None],
        listener: CoordinatorListener,
    ) -> None:
        self._coordinator = Coordinator(settings)
        self._fence = fence
        self._listener = listener
        self._changed = threading.Condition(threading.RLock())
        self._fencing = ThreadPoolExecutor(_FENCING_THREADS, thread_name_prefix="fences-tasks")
        self._is_closed = False
        self.token = secrets.token_hex(32)
        """What stream threads must have; it goes to them with their Spark task."""
        self._server = CoordinatorServer(
            bind,
            host,
            self.token,
            port=port,
            application=settings.application,
            run=run,
            lease_s=settings.lease_s,
            events=self,
        )
        self._ticker = Periodic("coordinator", _TICK_S, self._tick, self._tick_failed)
        self._ticker.start()

    @property
    def address(self) -> str:
        """``host:port`` to which workers connect."""
        return self._server.address

    def close(self) -> None:
        """Closes all connections; threads that had not left process nothing more. Idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._ticker.stop(_CLOSE_S)
        self._server.close()
        self._fencing.shutdown(wait=False, cancel_futures=True)

    # Tasks and epochs

    def add_tasks(self, plans: Mapping[str, str], *, paused: bool = False, has_copies: bool = False) -> None:
        """Adds tasks to process, or replaces their plans; see :meth:`Coordinator.add_tasks`."""
        with self._working() as coordinator:
            coordinator.add_tasks(plans, paused=paused, has_copies=has_copies)

    def remove_tasks(self, tasks: Collection[str]) -> None:
        """Removes tasks: their threads hand them over, and no other thread gets them."""
        with self._working() as coordinator:
            coordinator.remove_tasks(tasks)

    def set_paused(self, tasks: Collection[str], *, paused: bool) -> None:
        """Makes tasks pause after their next commit, or resume; returns at once."""
        with self._working() as coordinator:
            coordinator.set_paused(tasks, paused=paused)

    def begin_epoch(self, slots: int, *, awaited: int | None = None) -> int:
        """Begins an epoch, whose Spark tasks are launched next; see :meth:`Coordinator.begin_epoch`."""
        with self._working() as coordinator:
            return coordinator.begin_epoch(slots, awaited=awaited)

    def end_epoch(self, reason: str) -> None:
        """Makes all threads commit and leave; returns at once."""
        with self._working() as coordinator:
            coordinator.end_epoch(reason)

    # Waiting

    def wait_until_paused(self, tasks: Collection[str], *, timeout_s: float) -> None:
        """Returns once all tasks have paused after a commit.

        Raises:
            OperationError: not in time.
        """
        self._wait(lambda known: known.not_paused(tasks), timeout_s, "have not stopped behind a commit")

    def wait_until_open(
        self, tasks: Collection[str], *, timeout_s: float, or_until: Callable[[], bool] = lambda: False
    ) -> None:
        """Returns once threads have opened the tasks and restored their stores, or once ``or_until`` returns true.

        Args:
            tasks: their names.
            timeout_s: how long to wait, seconds.
            or_until: asked at each change, and every half second.

        Raises:
            OperationError: not in time.
        """
        self._wait(lambda known: [] if or_until() else known.members.not_open(tasks), timeout_s, "have not been opened")

    def wait_until_handed_over(self, tasks: Collection[str], *, timeout_s: float) -> None:
        """Returns once no thread has the tasks any more, after :meth:`remove_tasks`.

        Raises:
            OperationError: not in time.
        """
        self._wait(lambda known: known.still_with_threads(tasks), timeout_s, "have not been handed over")

    def wait_until_all_left(self, *, timeout_s: float) -> None:
        """Returns once no thread is connected, after :meth:`end_epoch`.

        Raises:
            OperationError: not in time.
        """
        self._wait(lambda known: [each.thread for each in known.members], timeout_s, "are still connected")

    def act(self, action: TaskAction, tasks: Collection[str], *, timeout_s: float) -> dict[str, Any]:
        """Makes tasks execute an action between two of their commits.

        Args:
            action: a registered one (:mod:`millrace.task.actions`).
            tasks: with which tasks.
            timeout_s: how long to wait for the answers, seconds.

        Returns:
            the answer of each task.

        Raises:
            OperationError: a task has no thread, or did not answer in time.
            MillraceError: it failed.
        """
        name, arguments = to_named(action)
        return self._command(lambda coordinator: coordinator.act(name, arguments, tasks), timeout_s)

    def commit_now(self, tasks: Collection[str], *, timeout_s: float) -> None:
        """Makes tasks commit what they have processed, and returns once they have.

        Raises:
            OperationError: a task has no thread, or did not answer in time.
            MillraceError: it failed.
        """
        self._command(lambda coordinator: coordinator.commit_now(tasks), timeout_s)

    # What is known

    def threads(self) -> tuple[ThreadStatus, ...]:
        """Returns the status of each connected thread."""
        with self._changed:
            return thread_statuses(self._coordinator.members)

    @property
    def reason(self) -> str:
        """The reason why tasks have no thread; empty if all have one."""
        with self._changed:
            reason = self._coordinator.reason
        # What a worker on another host must be able to reach.
        return f"{reason} at {self.address}" if reason.endswith("to the coordinator") else reason

    @property
    def shortage(self) -> str:
        """The message that fewer threads than wanted run; empty if all do."""
        with self._changed:
            return self._coordinator.shortage

    @property
    def wanted(self) -> int:
        """The number of threads that the epoch should have; 0 before the first epoch."""
        with self._changed:
            return self._coordinator.wanted

    # What comes from the server

    def joined(self, connection: int, hello: Hello) -> None:
        """Adds a thread that has connected, see :meth:`Coordinator.joined`."""
        with self._working() as coordinator:
            coordinator.joined(connection, hello)

    def received(self, connection: int, message: FromThread) -> None:
        """Handles a message of a thread, see :meth:`Coordinator.received`."""
        with self._working() as coordinator:
            coordinator.received(connection, message)

    def left(self, connection: int, reason: str) -> None:
        """Removes the thread of an ended connection, see :meth:`Coordinator.left`."""
        with self._working() as coordinator:
            coordinator.left(connection, reason)

    # Inside

    @contextmanager
    def _working(self) -> Iterator[Coordinator]:
        """Locks the state machine while the body runs, then executes the effects."""
        later: list[Effect] = []
        with self._changed:
            try:
                yield self._coordinator
            finally:
                # In the order of the state machine: an older assignment must not follow a newer one.
                for effect in self._coordinator.take_effects():
                    if isinstance(effect, Send):
                        self._server.send(effect.connection, effect.message)
                    elif isinstance(effect, Close):
                        self._close_connection(effect)
                    else:
                        later.append(effect)
                self._changed.notify_all()
        for effect in later:
            self._do(effect)

    def _close_connection(self, effect: Close) -> None:
        if effect.at_once:
            self._server.break_connection(effect.connection, effect.reason)
        else:
            self._server.close_connection(effect.connection, effect.reason)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, Heard):
            self._listener.heard(effect.hello, effect.report)
        elif isinstance(effect, TaskFailed):
            self._listener.task_failed(effect.task, effect.error)
        elif isinstance(effect, CheckDead):
            self._check_dead(effect.hello)
        elif isinstance(effect, Fence) and not self._is_closed:
            self._fencing.submit(self._fence_tasks, effect)

    def _check_dead(self, hello: Hello) -> None:
        if _has_ended(hello):
            with self._working() as coordinator:
                coordinator.process_ended(hello.thread)

    def _fence_tasks(self, effect: Fence) -> None:
        # The next thread takes the ids over when it opens the tasks: what a dead one has begun is aborted then.
        ended = _has_ended(effect.hello, within_s=_END_S)
        try:
            if not ended:
                self._fence(effect.tasks)
        except Exception as error:
            known = isinstance(error, MillraceError)
            reason = error.message if isinstance(error, MillraceError) else f"{type(error).__name__}: {error}"
            _log.warning(
                "tasks of a stream thread that went away are not fenced yet",
                tasks=effect.tasks,
                thread=effect.hello.thread,
                reason=reason,
                exc_info=None if known else error,
            )
            with self._working() as coordinator:
                coordinator.not_fenced(effect.tasks, reason)
        else:
            _log.info(
                "tasks of a stream thread that went away are free",
                tasks=effect.tasks,
                thread=effect.hello.thread,
                by="the end of its process" if ended else "their transactional ids",
            )
            with self._working() as coordinator:
                coordinator.fenced(effect.tasks)

    def _tick(self) -> None:
        with self._working() as coordinator:
            coordinator.tick()

    def _tick_failed(self, error: Exception) -> None:
        _log.error("the coordinator's tick failed", exc_info=error)

    def _command(self, begin: Callable[[Coordinator], int], timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        with self._working() as coordinator:
            command = begin(coordinator)
        with self._changed:
            try:
                while (outcome := self._coordinator.outcome(command)) is None and not self._is_closed:
                    if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                        break
            finally:
                missing = self._coordinator.end_command(command)
        if outcome is None:
            raise OperationError(
                f"Tasks {', '.join(missing)} have not answered within {timeout_s:g} s.",
                remedy="see what their stream threads do in /tasks, then ask again",
            )
        if outcome.error is not None:
            raise outcome.error
        return dict(outcome.answers)

    def _wait(self, missing: Callable[[Coordinator], list[str]], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while found := missing(self._coordinator):
                left_s = deadline - time.monotonic()
                if self._is_closed or left_s <= 0:
                    reason = self._coordinator.reason
                    raise OperationError(
                        f"{', '.join(found)} {what} within {timeout_s:g} s{': ' if reason else ''}{reason}.",
                        remedy="see what the stream threads do in /tasks, then ask again",
                    )
                self._changed.wait(min(left_s, _TICK_S))


def _has_ended(hello: Hello, *, within_s: float = 0.0) -> bool:
    """Returns whether the process of a thread has certainly ended; ``False`` for one of another host."""
    if hello.host != socket.gethostname():
        return False
    return ProcessIdentity(hello.pid, hello.process_start).wait_until_gone(within_s)
