"""The tasks that a worker process keeps open between batches, and the requests of workers to each other.

Spark hands a partition to any of its Python workers. The one that had it last still holds the stores and the producer,
so each worker answers on a socket of its own. A small batch is sent to the holder, which runs it and returns the
outcome: that costs less than closing and opening the task. For a large one, which would keep the holder's interpreter
busy while the asking worker waits, the holder is asked to release the task; it does so once no batch of it runs. A
holder that does not answer in time is killed, if it is still the process that took the lock.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from millrace.errors import MillraceError, OperationError, StateDirectoryLockedError, TransactionAbortedError
from millrace.logs import configure_logs
from millrace.processes import ProcessIdentity
from millrace.spark.plan import plan_from_bytes
from millrace.spark.task_reports import TaskReporter
from millrace.spark.worker_socket import (
    ANSWER_LIMIT_S,
    GiveUp,
    connected,
    listen,
    pulse,
    receive,
    send,
    serve,
    socket_path,
)
from millrace.state import DirectoryLock, lock_holder
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.global_copy import GlobalCopies
from millrace.task.spec import TaskSpec
from millrace.task.task import Task, TaskAction

FORWARD_LIMIT_RECORDS = 20_000
"""Largest batch that is sent to the holder of its task. Sending costs about 0.1 microseconds a record, opening a task
elsewhere 0.1 to 0.6 seconds; but two large batches in one process share one interpreter."""

_LOCK_WAIT_S = 15.0
_RETRY_S = 0.02

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class BatchRequest:
    """A request to run a batch of a task, as one worker sends it to another.

    Args:
        plan: the encoded query plan.
        partition: the task's partition.
        batch: what the task processes and commits.
        action: what is done with the task afterwards.
    """

    plan: bytes
    partition: int
    batch: TaskBatch
    action: TaskAction | None = None

    @property
    def spec(self) -> TaskSpec:
        """The specification of the task."""
        return plan_from_bytes(self.plan).task_spec(self.partition)


class HeldTask:
    """A task that this process holds, and the lock of its use. Made by :meth:`WarmTasks.hold`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.in_use = threading.Lock()


class WarmTasks:
    """The open tasks of this process. One per process: see :func:`warm_tasks`."""

    def __init__(self) -> None:
        self._entries: dict[Path, HeldTask] = {}
        self._copies = GlobalCopies()
        self._standbys: list[Callable[[Path], None]] = []
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._listen()

    def run(self, request: BatchRequest, reporter: TaskReporter) -> BatchOutcome:
        """Runs a batch of a task, here or in the worker that holds the task.

        An exception closes the task, wherever it ran.

        Args:
            request: the batch.
            reporter: tells the driver of the task, where it has to be opened here.

        Raises:
            StateDirectoryLockedError: a process that is not a worker of ours holds the task's directory.
            MillraceError: see :meth:`millrace.task.task.Task.run_batch`.
        """
        directory = request.spec.state_directory
        with self._guard:
            held_here = directory in self._entries
        if not held_here and request.batch.records <= FORWARD_LIMIT_RECORDS:
            holder = _other_holder(directory)
            outcome = None if holder is None else forward(holder, request)
            if outcome is not None:
                return outcome
        return self._run_here(self._take(request.spec, reporter), request)

    def hold(self, spec: TaskSpec, reporter: TaskReporter) -> HeldTask:
        """Makes this process hold a task; another worker that holds it closes it.

        The task is in use when this returns: the caller ends the use by :meth:`release` or :meth:`discard`. Between two
        uses another worker may ask for it.

        Args:
            spec: the task.
            reporter: tells the driver of the task, where it has to be opened here.

        Raises:
            StateDirectoryLockedError: a process that is not a worker of ours holds the task's directory.
        """
        return self._take(spec, reporter)

    def use(self, held: HeldTask) -> bool:
        """Begins to use a held task again; returns ``False`` if this process does not hold it any more."""
        if not held.in_use.acquire(timeout=ANSWER_LIMIT_S):
            return False
        with self._guard:
            current = self._entries.get(held.task.spec.state_directory) is held
        if not current:
            held.in_use.release()
        return current

    def release(self, held: HeldTask) -> None:
        """Ends a use; the task stays open."""
        held.in_use.release()

    def discard(self, held: HeldTask) -> None:
        """Ends a use, and closes the task."""
        directory = held.task.spec.state_directory
        with self._guard:
            if self._entries.get(directory) is held:
                del self._entries[directory]
        try:
            held.task.close()
        finally:
            held.in_use.release()

    @contextlib.contextmanager
    def releasing(self, release: Callable[[Path], None]) -> Iterator[None]:
        """Makes this process also release standby copies when another process asks for their directories.

        Args:
            release: closes the copy in a directory, if there is one, and returns once the directory is free.
        """
        with self._guard:
            self._standbys.append(release)
        try:
            yield
        finally:
            with self._guard:
                self._standbys.remove(release)

    def held(self) -> list[TaskSpec]:
        """Returns the tasks that are open in this process."""
        with self._guard:
            return [held.task.spec for held in self._entries.values()]

    def _run_here(self, entry: HeldTask, request: BatchRequest) -> BatchOutcome:
        try:
            outcome = entry.task.run_batch(request.batch)
            return outcome if request.action is None else replace(outcome, answer=request.action(entry.task))
        except BaseException:
            with self._guard:
                self._entries.pop(request.spec.state_directory, None)
            entry.task.close()
            raise
        finally:
            entry.in_use.release()

    def _take(self, spec: TaskSpec, reporter: TaskReporter) -> HeldTask:
        directory = spec.state_directory
        while True:
            with self._guard:
                entry = self._entries.get(directory)
                if entry is None:
                    break
            # Taken outside the guard: a batch of the same task that still runs here must be able to end.
            if not entry.in_use.acquire(timeout=ANSWER_LIMIT_S):
                raise StateDirectoryLockedError(
                    f"An older attempt of task {spec.name} still runs in this process.",
                    remedy="none needed: Spark tries again",
                )
            with self._guard:
                current = self._entries.get(directory) is entry
            if current and entry.task.spec.part.run_id == spec.part.run_id:
                return entry
            if current:
                entry.task.close()
                with self._guard:
                    self._entries.pop(directory, None)
            entry.in_use.release()
        take_from_holder(directory)
        task = Task(spec, reporter.restoring, on_lost_transaction=reporter.lost_transaction, copies=self._copies)
        entry = HeldTask(task)
        entry.in_use.acquire()
        with self._guard:
            self._entries[directory] = entry
        return entry

    def _listen(self) -> None:
        serve(listen(), self._answer, name="millrace-warm-tasks")

    def _answer(self, connection: socket.socket, asked: object) -> None:
        if isinstance(asked, GiveUp):
            self._release_standbys(Path(asked.directory))
            send(connection, True)
        elif isinstance(asked, BatchRequest):
            with pulse(connection) as guard:
                answer = self._run_for_other(asked)
                with guard:
                    send(connection, answer)

    def _run_for_other(self, request: BatchRequest) -> BatchOutcome | Exception | None:
        """Returns the outcome, the error, or ``None`` if the task is not held here any more."""
        with self._guard:
            entry = self._entries.get(request.spec.state_directory)
        if entry is None or not entry.in_use.acquire(timeout=ANSWER_LIMIT_S):
            return None
        with self._guard:
            current = self._entries.get(request.spec.state_directory) is entry
        if not current or entry.task.spec.part.run_id != request.spec.part.run_id:
            entry.in_use.release()
            return None
        try:
            return self._run_here(entry, request)
        except MillraceError as error:
            return error
        except Exception as error:
            # What is no error of ours may not survive the way; its text does.
            return OperationError(
                f"{type(error).__name__}: {error}", remedy="see the worker's output in the driver's log"
            )

    def _release_standbys(self, directory: Path) -> None:
        with self._guard:
            entry = self._entries.get(directory)
            standbys = list(self._standbys)
        for release in standbys:
            release(directory)
        if entry is None:
            return
        with entry.in_use:
            with self._guard:
                self._entries.pop(directory, None)
            entry.task.close()


def take_from_holder(directory: Path) -> None:
    """Makes the process that holds a task's directory release it, also this process; returns once it is free.

    Raises:
        StateDirectoryLockedError: the holder is not a worker of ours, or does not go away.
    """
    deadline = time.monotonic() + _LOCK_WAIT_S
    while _is_locked(directory):
        holder = lock_holder(directory)
        if holder is None or not holder.is_alive():
            # The lock was given back, or its new owner has not signed it yet.
            time.sleep(_RETRY_S)
        elif not socket_path(holder.pid).exists():
            raise StateDirectoryLockedError(
                f"The state directory {directory} is in use by process {holder.pid}, which is not a worker of this "
                "application.",
                remedy="stop that process, or give this application a state.dir of its own",
            )
        elif not _ask(socket_path(holder.pid), directory):
            _log.warning("holder does not answer and is killed", directory=str(directory), pid=holder.pid)
            holder.send_signal(signal.SIGKILL)
        if time.monotonic() > deadline:
            raise StateDirectoryLockedError(
                f"The state directory {directory} is still in use by {holder} after {_LOCK_WAIT_S:g} s.",
                remedy="end that process; the application starts again by itself",
            )


def _is_locked(directory: Path) -> bool:
    try:
        DirectoryLock(directory).release()
    except StateDirectoryLockedError:
        return True
    return False


def _ask(path: Path, directory: Path) -> bool:
    try:
        with connected(path) as connection:
            send(connection, GiveUp(str(directory)))
            return receive(connection) is True
    except (OSError, EOFError):
        return False


def _other_holder(directory: Path) -> ProcessIdentity | None:
    """Returns the process of another live worker that holds a task's directory, or ``None``."""
    holder = lock_holder(directory)
    if holder is None or holder.pid == os.getpid() or not socket_path(holder.pid).exists() or not holder.is_alive():
        return None
    return holder


def forward(holder: ProcessIdentity, request: BatchRequest) -> BatchOutcome | None:
    """Makes another worker run a batch; returns ``None`` if it does not hold the task any more.

    Raises:
        MillraceError: the batch failed there.
        TransactionAbortedError: the holder died while it ran the batch, or was silent for too long and is killed;
            whether it had committed shows when the batch runs again.
    """
    try:
        with connected(socket_path(holder.pid)) as connection:
            send(connection, request)
            answer = receive(connection)
    except (OSError, EOFError) as error:
        if isinstance(error, TimeoutError):
            # It would keep the task's lock, and every further attempt would only wait for it again.
            _log.warning("holder does not answer and is killed", task=request.spec.name, pid=holder.pid)
            holder.send_signal(signal.SIGKILL)
        raise TransactionAbortedError(
            f"The worker that holds task {request.spec.name} went away in the middle of a batch ({error!r}).",
            remedy="none needed: the batch runs again",
        ) from error
    return None if answer is None else _result(answer)


def _result(answer: object) -> BatchOutcome:
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, BatchOutcome)
    return answer


_warm: WarmTasks | None = None
_warm_guard = threading.Lock()


def warm_tasks() -> WarmTasks:
    """Returns the open tasks of this process; a forked child starts without any."""
    global _warm  # noqa: PLW0603 - one per process is the point
    with _warm_guard:
        if _warm is None or _warm._pid != os.getpid():
            # A worker's output goes to the driver's log, so it has to look like it.
            configure_logs()
            _warm = WarmTasks()
            # Spark collects garbage after every task. What was imported until now stays anyway, and looking at it each
            # time costs 50 to 100 ms.
            gc.collect()
            gc.freeze()
        return _warm
