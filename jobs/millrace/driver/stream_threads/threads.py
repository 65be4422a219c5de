"""All stream threads of an application: the Spark query that runs them, and the coordinator that they connect to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from millrace.driver.coordinator.coordinator import CoordinatorSettings
from millrace.driver.coordinator.service import CoordinatorService
from millrace.driver.coordinator.thread_status import ThreadStatus
from millrace.errors import DriverFencedError, MillraceError, OperationError
from millrace.metrics import TaskStatistics
from millrace.spark.stream_threads.launched import LaunchedThread, described, unconnected
from millrace.spark.stream_threads.messages import Hello, Report, TaskReport
from millrace.spark.stream_threads.run_thread import RunThread
from millrace.spark.stream_threads.slots import EpochSize
from millrace.task.task import TaskAction

EPOCH_LIMIT_S = 3_600.0
"""How long an epoch takes at most, seconds: then Spark's progress moves on, and its threads begin again."""

END_LIMIT_S = 60.0
"""How long threads may take to commit and leave, seconds."""

CONNECT_S = 5.0
"""How long a thread that Spark runs may take to connect before the status says that it cannot, seconds."""

LAUNCHED_S = 2.0
"""How old the answer of Spark may be which threads it runs, seconds; a question takes some milliseconds."""

_POLL_S = 0.5


class EpochRunner(Protocol):
    """The Spark query of epochs, see :class:`millrace.spark.stream_threads.epochs.Epochs`."""

    @property
    def is_active(self) -> bool:
        """Whether the streaming query runs."""

    @property
    def exception(self) -> BaseException | None:
        """The error of the query."""

    def start(self) -> None:
        """Starts the query."""

    @property
    def running(self) -> int | None:
        """The number of the running epoch."""

    def launched(self) -> Collection[LaunchedThread]:
        """Returns the threads that Spark runs at the moment for the epoch."""

    def end_remaining_tasks(self, epoch: int | None) -> None:
        """Cancels the Spark tasks of an epoch that never connected, after its threads have left."""

    def request_stop(self) -> None:
        """Lets no further epoch begin."""

    def stop(self, timeout_s: float) -> None:
        """Stops the query."""


class TaskListener(Protocol):
    """A listener to the tasks of a sub-topology, called by threads of the coordinator."""

    def reported(self, worker: str, report: TaskReport) -> None:
        """Handles a thread's report of a task's progress."""

    def failed(self, task: str, error: MillraceError) -> None:
        """Handles the failure of a task, which does not run again until it is added again."""


class StreamThreads:
    """The stream threads that run the tasks of an application. Thread-safe.

    Args:
        settings: how tasks are given to threads.
        run: identifies the driver's run.
        bind: the address that is listened on.
        port: its port; 0 takes a free one.
        host: the name or address at which workers reach the driver.
        make_epochs: makes the Spark query, given what the threads of an epoch run by their number.
        fence: takes the transactional ids of tasks over, whose names it gets; raises where it could not.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        run: str,
        bind: str,
        port: int = 0,
        host: str,
        make_epochs: Callable[[Callable[[EpochSize], RunThread]], EpochRunner],
        fence: Callable[[Sequence[str]], None],
    ) -> None:
        self._application = settings.application
        self._run = run
        self._starting = threading.Lock()
        self._planning = threading.Lock()
        self._plans: dict[int, tuple[str, bytes]] = {}
        self._plans_of_epoch: frozenset[str] | None = None
        """Digests of the plans that the threads of the epoch have; ``None`` before the first one."""
        self._tasks: dict[int, tuple[str, ...]] = {}
        self._listeners: dict[int, TaskListener] = {}
        self._fenced: DriverFencedError | None = None
        self._epoch_began_at = time.monotonic()
        self._epoch_ends_since: float | None = None
        self._unconnected: tuple[LaunchedThread, ...] = ()
        self._unconnected_at = float("-inf")
        self._epochs = make_epochs(self._function)
        self._coordinator = CoordinatorService(
            settings, bind=bind, port=port, host=host, run=run, fence=fence, listener=self
        )

    def add(self, sub_topology: int, listener: TaskListener, digest: str, plan: bytes) -> None:
        """Adds the plan of a sub-topology before any starts, so that the first epoch has all plans.

        Args:
            sub_topology: its number.
            listener: hears of its tasks.
            digest: of the plan.
            plan: what threads must know to run the tasks.
        """
        self._listeners[sub_topology] = listener
        with self._planning:
            self._plans[sub_topology] = (digest, plan)

    def start(
        self,
        sub_topology: int,
        digest: str,
        plan: bytes,
        tasks: Sequence[str],
        *,
        paused: bool,
        has_copies: bool = False,
    ) -> None:
        """Starts the tasks of a sub-topology, and the Spark query if it does not run. Returns at once.

        Args:
            sub_topology: its number.
            digest: of the plan.
            plan: what threads must know to run the tasks.
            tasks: names of all its tasks.
            paused: whether they are only opened.
            has_copies: whether they have stores of which standby copies are kept.
        """
        with self._starting:
            with self._planning:
                self._plans[sub_topology] = (digest, plan)
                is_unknown = self._plans_of_epoch is not None and digest not in self._plans_of_epoch
            if removed := set(self._tasks.get(sub_topology, ())) - set(tasks):
                self._coordinator.remove_tasks(removed)
            self._tasks[sub_topology] = tuple(tasks)
            if self._epochs.is_active and is_unknown:
                # Its threads do not have the plan. Those that have not connected yet leave as soon as they do.
                self._end_threads("the plan has changed")
            self._coordinator.add_tasks(dict.fromkeys(tasks, digest), paused=paused, has_copies=has_copies)
            if not self._epochs.is_active:
                self._epochs.start()

    def stop(self, sub_topology: int, timeout_s: float) -> None:
        """Closes the tasks of a sub-topology, and stops the Spark query with the last of them.

        Raises:
            OperationError: that took too long.
        """
        deadline = time.monotonic() + timeout_s
        with self._starting:
            tasks = self._tasks.pop(sub_topology, ())
            if self._tasks:
                self._coordinator.remove_tasks(tasks)
                self._coordinator.wait_until_handed_over(tasks, timeout_s=timeout_s)
                return
            self._epochs.request_stop()
            try:
                self._end_threads("the application stops")
            finally:
                self._epochs.stop(max(0.0, deadline - time.monotonic()))
                self._coordinator.remove_tasks(tasks)

    def pause(self, tasks: Collection[str]) -> None:
        """Makes tasks pause after their next commits. Returns at once."""
        self._coordinator.set_paused(tasks, paused=True)

    def wait_until_paused(self, tasks: Collection[str], timeout_s: float) -> bool:
        """Returns whether tasks have paused after a commit within the time; ``True`` if no thread runs at all."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._coordinator.wait_until_paused(tasks, timeout_s=min(_POLL_S, deadline - time.monotonic()))
            except OperationError:
                if not self._epochs.is_active and not self._coordinator.threads():
                    return True
                if self._fenced is not None:
                    raise self._fenced from None
                if time.monotonic() >= deadline:
                    return False
            else:
                return True

    def resume(self, tasks: Collection[str]) -> None:
        """Lets paused tasks resume. Returns at once."""
        self._coordinator.set_paused(tasks, paused=False)

    def wait_until_open(self, tasks: Collection[str], or_until: Callable[[], bool]) -> None:
        """Returns once threads have opened the tasks, ``or_until`` returns true, or the Spark query has failed.

        Raises:
            DriverFencedError: a newer driver took over meanwhile.
        """

        def is_over() -> bool:
            return or_until() or self._fenced is not None or not self._epochs.is_active

        # However long a restoration takes.
        self._coordinator.wait_until_open(tasks, timeout_s=threading.TIMEOUT_MAX, or_until=is_over)
        if self._fenced is not None:
            raise self._fenced

    def act(self, action: TaskAction, tasks: Collection[str], timeout_s: float) -> Mapping[str, Any]:
        """Makes each task execute an action between two commits.

        Raises:
            OperationError: a task is not run by any thread, or did not answer in time.
            MillraceError: it failed in a task.
        """
        return self._coordinator.act(action, tasks, timeout_s=timeout_s)

    def tick(self) -> None:
        """Ends an epoch that is old enough; the next one begins by itself."""
        now = time.monotonic()
        if now - self._epoch_began_at > EPOCH_LIMIT_S and self._epochs.is_active:
            self._epoch_began_at = self._epoch_ends_since = now
            self._coordinator.end_epoch("its time is over")
        elif self._epoch_ends_since is not None and not self._coordinator.threads():
            self._epoch_ends_since = None
            self._epochs.end_remaining_tasks(self._epochs.running)

    def abandon(self, error: DriverFencedError) -> None:
        """Lets nothing more begin, since a newer driver took over. Takes no lock and returns at once."""
        self._fenced = error
        self._epochs.request_stop()

    def close(self) -> None:
        """Stops listening. Idempotent."""
        self._coordinator.close()

    @property
    def is_active(self) -> bool:
        """Whether the Spark query runs."""
        return self._epochs.is_active

    @property
    def exception(self) -> BaseException | None:
        """The error of the Spark query."""
        return self._epochs.exception

    @property
    def reason(self) -> str:
        """The reason why tasks have no thread; empty if all have one."""
        reason = self._coordinator.reason
        return self._with_unconnected(reason) if reason else ""

    @property
    def shortage(self) -> str:
        """The message that fewer threads than wanted run; empty if all do."""
        shortage = self._coordinator.shortage
        return self._with_unconnected(shortage) if shortage else ""

    @property
    def wanted(self) -> int:
        """The number of threads that should run."""
        return self._coordinator.wanted

    @property
    def threads(self) -> tuple[ThreadStatus, ...]:
        """The threads that are connected."""
        return self._coordinator.threads()

    def heard(self, hello: Hello, report: Report) -> None:
        """Passes a report to the listeners of its tasks; called by the coordinator."""
        for each in report.tasks:
            self._listeners[sub_topology_of(each.task)].reported(f"{hello.host}/{hello.pid}", each)

    def task_failed(self, task: str, error: MillraceError) -> None:
        """Passes a failure to the listener of its task; called by the coordinator."""
        self._listeners[sub_topology_of(task)].failed(task, error)

    def _with_unconnected(self, text: str) -> str:
        """Returns a text, preceded by the threads that Spark runs but that have not connected."""
        now = time.monotonic()
        if now - self._unconnected_at >= LAUNCHED_S:
            self._unconnected_at = now
            connected = {each.slot for each in self._coordinator.threads()}
            self._unconnected = unconnected(self._epochs.launched(), connected, after_s=CONNECT_S)
        return "; ".join(filter(None, (described(self._unconnected, self._coordinator.address), text)))

    def _end_threads(self, reason: str) -> None:
        epoch = self._epochs.running
        self._coordinator.end_epoch(reason)
        self._coordinator.wait_until_all_left(timeout_s=END_LIMIT_S)
        self._epochs.end_remaining_tasks(epoch)

    def _function(self, size: EpochSize) -> RunThread:
        with self._planning:
            plans = dict(self._plans.values())
            self._plans_of_epoch = frozenset(plans)
            # Together: who finds that a plan is missing must end this epoch, and no earlier one.
            epoch = self._coordinator.begin_epoch(size.threads, awaited=size.awaited)
        self._epoch_began_at = time.monotonic()
        self._epoch_ends_since = None
        return RunThread(
            application=self._application,
            run=self._run,
            address=self._coordinator.address,
            token=self._coordinator.token,
            epoch=epoch,
            plans=plans,
        )


def statistics_of_report(report: TaskReport) -> list[TaskStatistics]:
    """Returns the statistics in a thread's report."""
    return [TaskStatistics.from_bytes(line.encode()) for line in report.statistics]


def sub_topology_of(task: str) -> int:
    """Returns the number of the sub-topology that a task belongs to."""
    return int(task.partition("_")[0])
