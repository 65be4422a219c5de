"""All stream threads of an application: what they are to do, what they say, and the Spark query that they run in."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from millrace.control.coordinator.server import CoordinatorServer
from millrace.errors import DriverFencedError, MillraceError, OperationError
from millrace.metrics import TaskStatistics
from millrace.spark.stream_threads.messages import (
    Act,
    Answer,
    Assign,
    Assignment,
    End,
    Failed,
    FromThread,
    Goodbye,
    Hello,
    Report,
    TaskReport,
    TaskState,
)
from millrace.spark.stream_threads.problems import error_of
from millrace.spark.stream_threads.run_thread import RunThread

LEASE_S = 30.0

_log = structlog.get_logger(__name__)


class EpochRunner(Protocol):
    """The Spark query, see :class:`millrace.spark.stream_threads.epochs.Epochs`."""

    threads: int

    @property
    def is_active(self) -> bool:
        """Whether the streaming query runs."""

    @property
    def exception(self) -> BaseException | None:
        """Why it failed."""

    def start(self) -> None:
        """Start the query."""

    def request_stop(self) -> None:
        """No further epoch begins."""

    def stop(self, timeout_s: float) -> None:
        """Stop the query."""


class TaskListener(Protocol):
    """What a sub-topology hears of its tasks. Called with no lock held, from the threads of the connections."""

    def reported(self, worker: str, report: TaskReport) -> None:
        """A thread has said how far a task is."""

    def failed(self, task: str, error: MillraceError) -> None:
        """A task failed, and is not run again before it is wanted again."""


@dataclass
class _Member:
    """A connected stream thread."""

    connection: int
    hello: Hello
    generation: int = 0
    tasks: dict[str, Assignment] = field(default_factory=dict)
    reported: dict[str, TaskReport] = field(default_factory=dict)
    followed: int = 0
    answers: dict[int, Answer] = field(default_factory=dict)

    @property
    def worker(self) -> str:
        return f"{self.hello.host}/{self.hello.pid}"


class StreamThreads:
    """Gives tasks to stream threads and has them act.

    Args:
        application: the application id.
        run: identifies the driver's run.
        bind: the address that is listened on.
        host: the name or address at which workers reach the driver.
        make_epochs: makes the Spark query, given what the threads of an epoch run by its number.
    """

    def __init__(
        self,
        *,
        application: str,
        run: str,
        bind: str,
        host: str,
        make_epochs: Callable[[Callable[[int], RunThread]], EpochRunner],
    ) -> None:
        self._application = application
        self._run = run
        self._token = secrets.token_hex(32)
        self._changed = threading.Condition()
        self._starting = threading.Lock()
        self._plans: dict[int, tuple[str, bytes]] = {}
        self._wanted: dict[str, str] = {}
        self._paused: set[str] = set()
        self._members: dict[int, _Member] = {}
        self._listeners: dict[int, TaskListener] = {}
        self._generations = itertools.count(1)
        self._commands = itertools.count(1)
        self._fenced: DriverFencedError | None = None
        self._epochs = make_epochs(self._function)
        self._server = CoordinatorServer(
            bind, host, self._token, application=application, run=run, lease_s=LEASE_S, events=self
        )

    def listen(self, sub_topology: int, listener: TaskListener) -> None:
        """Have a sub-topology hear of its tasks."""
        self._listeners[sub_topology] = listener

    # What the sub-topologies ask for

    def start(self, sub_topology: int, digest: str, plan: bytes, tasks: Sequence[str]) -> None:
        """Have tasks run, and the Spark query with them. Returns at once."""
        with self._starting:
            with self._changed:
                is_new = self._plans.get(sub_topology, ("",))[0] != digest
                self._plans[sub_topology] = (digest, plan)
            if self._epochs.is_active and is_new:
                # The threads of this epoch do not have the plan.
                self._end_threads("the plan has changed")
            with self._changed:
                for task in [task for task in self._wanted if _sub_topology(task) == sub_topology]:
                    del self._wanted[task]
                self._wanted.update(dict.fromkeys(tasks, digest))
                self._assign()
            if not self._epochs.is_active:
                self._epochs.start()

    def stop(self, sub_topology: int, timeout_s: float) -> None:
        """Have the tasks of a sub-topology closed, and, with the last of them, the Spark query stopped.

        Raises:
            OperationError: that took too long.
        """
        deadline = time.monotonic() + timeout_s
        with self._starting:
            with self._changed:
                for task in [task for task in self._wanted if _sub_topology(task) == sub_topology]:
                    del self._wanted[task]
                is_last = not self._wanted
                self._assign()
            if is_last:
                self._epochs.request_stop()
                self._end_threads("the application stops")
                self._epochs.stop(max(0.0, deadline - time.monotonic()))
                return
            released = self._wait(
                lambda: (
                    not any(
                        _sub_topology(task) == sub_topology
                        for member in self._members.values()
                        for task in member.reported
                    )
                ),
                deadline - time.monotonic(),
            )
        if not released:
            raise OperationError(
                f"The tasks of sub-topology {sub_topology} were not closed within {timeout_s:g} s.",
                remedy="end the driver's process",
            )

    def pause(self, tasks: Collection[str], timeout_s: float) -> bool:
        """Have tasks stop behind their next commits; whether all have within the time."""
        with self._changed:
            self._paused |= set(tasks)
            self._assign()
        return self._wait(lambda: self._is_standing(tasks), timeout_s)

    def resume(self, tasks: Collection[str]) -> None:
        """Have tasks go on. Returns at once."""
        with self._changed:
            self._paused -= set(tasks)
            self._assign()

    def act(
        self, tasks: Sequence[str], action: str, arguments: Mapping[str, object], *, timeout_s: float
    ) -> dict[str, object]:
        """Have each task do something between two commits.

        Raises:
            OperationError: a task is not run by any thread, or did not answer in time.
            MillraceError: it failed in a task.
        """
        with self._changed:
            command = next(self._commands)
            asked: dict[int, list[str]] = {}
            for task in tasks:
                owner = self._owner(task)
                if owner is None:
                    raise OperationError(f"Task {task} is not run by any stream thread now.", remedy="try again soon")
                asked.setdefault(owner.connection, []).append(task)
            for connection, names in asked.items():
                self._server.send(connection, Act(command, action, dict(arguments), tuple(names)))
        answered = self._wait(
            lambda: all(
                connection not in self._members or command in self._members[connection].answers for connection in asked
            ),
            timeout_s,
        )
        found: dict[str, object] = {}
        with self._changed:
            for connection in asked:
                member = self._members.get(connection)
                answer = None if member is None else member.answers.pop(command, None)
                if answer is None:
                    continue
                if answer.problem is not None:
                    raise error_of(answer.problem)
                found.update(answer.answers)
        if missing := sorted(set(tasks) - found.keys()):
            reason = "moved or failed meanwhile" if answered else f"did not answer within {timeout_s:g} s"
            raise OperationError(f"Tasks {', '.join(missing)} {reason}.", remedy="try again soon")
        return found

    def abandon(self, error: DriverFencedError) -> None:
        """A newer driver took over: the threads are left to themselves, and find that out. Returns at once."""
        self._fenced = error
        self._epochs.request_stop()
        self._server.close()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Stop listening. May be called more than once."""
        self._server.close()

    @property
    def is_active(self) -> bool:
        """Whether the Spark query runs."""
        return self._epochs.is_active

    @property
    def exception(self) -> BaseException | None:
        """Why the Spark query failed."""
        return self._epochs.exception

    def wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds, which is looked at whenever a thread has said something."""
        return self._wait(condition, timeout_s)

    # What the threads say

    def joined(self, connection: int, hello: Hello) -> None:
        """A thread is there."""
        with self._changed:
            self._members[connection] = _Member(connection, hello)
            _log.info(
                "stream thread joined",
                application=self._application,
                thread=hello.thread,
                slot=hello.slot,
                epoch=hello.epoch,
                attempt=hello.attempt,
            )
            self._assign()
            self._changed.notify_all()

    def received(self, connection: int, message: FromThread) -> None:
        """A thread has said something."""
        with self._changed:
            member = self._members.get(connection)
            if member is None:
                return
            if isinstance(message, Report):
                before = member.reported
                member.reported = {each.task: each for each in message.tasks}
                member.followed = message.generation
                if before.keys() - member.reported.keys():
                    self._assign()
            elif isinstance(message, Failed):
                member.reported.pop(message.task, None)
                self._wanted.pop(message.task, None)
                self._assign()
            elif isinstance(message, Answer):
                member.answers[message.command] = message
            elif isinstance(message, Goodbye):
                member.reported.clear()
                member.tasks.clear()
            self._changed.notify_all()
        if isinstance(message, Report):
            for each in message.tasks:
                self._listeners[_sub_topology(each.task)].reported(member.worker, each)
        elif isinstance(message, Failed):
            self._listeners[_sub_topology(message.task)].failed(message.task, error_of(message.problem))
        with self._changed:
            self._changed.notify_all()

    def left(self, connection: int, reason: str) -> None:
        """A thread is gone."""
        with self._changed:
            member = self._members.pop(connection, None)
            if member is not None:
                _log.info("stream thread left", thread=member.hello.thread, reason=reason)
            self._assign()
            self._changed.notify_all()

    # Who has what

    def _owner(self, task: str) -> _Member | None:
        return next((member for member in self._members.values() if task in member.tasks), None)

    def _assign(self) -> None:
        """Gives each wanted task to one thread; one that is held elsewhere waits until it is released there."""
        members = sorted(self._members.values(), key=lambda member: member.hello.slot)
        if not members:
            return
        target: dict[int, set[str]] = {member.connection: set() for member in members}
        most = -(-len(self._wanted) // max(len(members), 1))
        unowned = []
        for task in self._wanted:
            owner = self._owner(task)
            if owner is not None and len(target[owner.connection]) < most:
                target[owner.connection].add(task)
            else:
                unowned.append(task)
        for task in unowned:
            open_at = next(
                (
                    member
                    for member in members
                    if any(held.task == task and held.state == "open" for held in member.hello.held)
                    and len(target[member.connection]) < most
                ),
                None,
            )
            chosen = open_at or min(members, key=lambda member: (len(target[member.connection]), member.hello.slot))
            target[chosen.connection].add(task)
        for member in members:
            wanted = {
                task: Assignment(task, self._wanted[task], paused=task in self._paused)
                for task in sorted(target[member.connection])
                if not any(
                    task in other.reported or task in other.tasks and other.followed < other.generation
                    for other in members
                    if other is not member
                )
            }
            if wanted != member.tasks:
                member.tasks = wanted
                member.generation = next(self._generations)
                self._server.send(member.connection, Assign(member.generation, tuple(wanted.values())))

    def _is_standing(self, tasks: Collection[str]) -> bool:
        """Whether none of the tasks is inside a batch, and none will be before they are resumed."""
        return all(
            member.followed >= member.generation
            and all(report.state is not TaskState.RUNNING for task, report in member.reported.items() if task in tasks)
            for member in self._members.values()
        )

    def _end_threads(self, reason: str) -> None:
        """Has all threads leave, which ends the epoch, and waits until they have."""
        with self._changed:
            members = list(self._members)
            for connection in members:
                self._server.send(connection, End(reason))
        if not self._wait(lambda: not any(connection in self._members for connection in members), 60.0):
            raise OperationError("Stream threads did not end within 60 s.", remedy="see the workers' log")

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                if self._fenced is not None:
                    raise self._fenced
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, 0.5))
            return True

    def _function(self, epoch: int) -> RunThread:
        with self._changed:
            return RunThread(
                application=self._application,
                run=self._run,
                address=self._server.address,
                token=self._token,
                epoch=epoch,
                plans=dict(self._plans.values()),
            )


def statistics_of_report(report: TaskReport) -> list[TaskStatistics]:
    """The rows of statistics that a report has."""
    return [TaskStatistics.from_bytes(line.encode()) for line in report.statistics]


def _sub_topology(task: str) -> int:
    return int(task.partition("_")[0])
