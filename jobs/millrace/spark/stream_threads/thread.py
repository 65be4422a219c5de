"""The loop of a stream thread: polls, passes the rows to their tasks, runs the batches that are due, reports.

What a task is given is run beside the loop, one thing at a time for each task: while the transaction of one task is on
its way to the broker, another one is processed and the loop reads on. Tasks are opened and closed so, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

import structlog

from millrace.errors import MillraceError, OperationError
from millrace.kafka.columns.reader import PartitionReader
from millrace.spark.stream_threads.conversation import Ended as ConnectionEnded
from millrace.spark.stream_threads.messages import (
    Act,
    Assign,
    Assignment,
    CommitNow,
    End,
    Failed,
    Report,
    Welcome,
)
from millrace.spark.stream_threads.pending_commands import PendingCommands
from millrace.spark.stream_threads.problems import problem_of
from millrace.spark.stream_threads.standby_copies import NoStandbys, Standbys
from millrace.spark.stream_threads.surroundings import DriverConnection, TaskMaker
from millrace.spark.stream_threads.task_counts import TaskCounts, take_report
from millrace.spark.stream_threads.thread_limits import ThreadLimits
from millrace.spark.stream_threads.thread_task import Activity, Ended, ThreadTask
from millrace.spark.stream_threads.timing import LoopTiming
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.crash_points import CrashPoint, crash_here
from millrace.topology.topic_partition import TopicPartition

REPORT_S = 1.0
"""Time between two reports where nothing else calls for one, seconds."""

COMMIT_REPORT_S = 0.2
"""The same where something was committed: what follows the application need not lag behind it by more."""

_LONGEST_POLL_S = 0.05
_LONGEST_POLL_BUSY_S = 0.02
"""How long a poll may wait: what else may happen, the end of a batch or a message of the driver, is seen behind it."""

_PACE_S = 0.004
"""Rest between two polls that brought few records, seconds: with no batch due, more of them at once cost less."""

_FEW_RECORDS = 2_000

_log = structlog.get_logger(__name__)


class DriverLostError(OperationError):
    """The driver of a stream thread is gone, or considers the thread dead."""


class StreamThread:
    """A stream thread, from its connection to its end.

    Args:
        connection: to the driver.
        reader: of the input; the thread closes it.
        maker: makes tasks.
        executor: runs what takes long; as many things at a time as it likes, never two of one task.
        standbys: the standby copies that the thread keeps; the thread closes them.
        limits: what it may hold.
        clock: a monotonic clock, seconds.
        wall_clock: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        connection: DriverConnection,
        reader: PartitionReader,
        maker: TaskMaker,
        executor: Executor,
        standbys: Standbys | None = None,
        limits: ThreadLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._maker = maker
        self._executor = executor
        self._standbys = standbys or NoStandbys()
        self._limits = limits or ThreadLimits()
        self._clock = clock
        self._wall_clock = wall_clock
        self._tasks: dict[str, ThreadTask] = {}
        self._counts: dict[str, TaskCounts] = {}
        self._owners: dict[TopicPartition, ThreadTask] = {}
        self._commands = PendingCommands(connection.send)
        self._generation = 0
        self._next: Mapping[str, Assignment] = {}
        self._sequence = 0
        self._reported_at = float("-inf")
        self._has_news = False
        self._has_commits = False
        self._ending: str | None = None
        self._timing = LoopTiming(clock())
        self._paced = True

    def run(self) -> str:
        """Runs until the driver ends the thread.

        Returns:
            Why it ended.

        Raises:
            DriverLostError: the connection to the driver is broken; what ran has ended, perhaps with a commit.
        """
        try:
            while self._ending is None:
                self.turn()
            self._finish()
        except BaseException as error:
            self._connection.abandon(f"{type(error).__name__}: {error}")
            raise
        finally:
            self._standbys.close()
            self._reader.close()
        return self._ending

    def turn(self) -> None:
        """Runs one turn of the loop."""
        self._take_messages(0.0)
        self._take_ended()
        self._begin_due_work()
        if self._ending is None:
            self._read()
        self._report_if_due()

    def _finish(self) -> None:
        """Waits for all running work, then leaves; the tasks stay open in the process, for its next thread."""
        assert self._ending is not None
        for task in self._tasks.values():
            task.wait()
        self._take_ended()
        self._commands.end()
        self._report()
        self._connection.leave(self._ending)

    # What the driver says

    def _take_messages(self, timeout_s: float) -> None:
        while (message := self._connection.take(timeout_s)) is not None:
            timeout_s = 0.0
            if isinstance(message, ConnectionEnded):
                self._lost(message.reason)
            elif isinstance(message, Assign):
                self._assign(message)
            elif isinstance(message, Act | CommitNow):
                crash_here(CrashPoint.THREAD_COMMANDED)
                self._commands.add(message, self._tasks, self._clock())
            elif isinstance(message, End):
                self._ending = message.reason
                return
            else:
                assert isinstance(message, Welcome), message

    def _lost(self, reason: str) -> None:
        # Nothing begins any more; what runs is protected by its transactional id, like any zombie's.
        for task in self._tasks.values():
            task.wait()
        raise DriverLostError(
            f"The connection to the driver has ended: {reason}.",
            remedy="none needed: Spark starts the stream thread again as long as its driver lives",
        )

    def _assign(self, message: Assign) -> None:
        if message.generation <= self._generation:
            return
        crash_here(CrashPoint.THREAD_ASSIGNED)
        self._generation = message.generation
        self._has_news = True
        wanted = {each.task: each for each in message.tasks}
        for name, task in self._tasks.items():
            assignment = wanted.get(name)
            task.leaving = assignment is None or assignment.plan != task.plan
            task.paused = assignment is not None and assignment.paused
        # First: a copy that becomes the task here must be given back before the task is opened.
        self._standbys.keep(message.standbys)
        for assignment in message.tasks:
            if assignment.task not in self._tasks:
                self._make(assignment)
        self._next = wanted

    def _make(self, assignment: Assignment) -> None:
        try:
            made, settings = self._maker.make(assignment)
        except MillraceError as error:
            self._connection.send(Failed(assignment.task, self._generation, problem_of(error)))
            return
        task = ThreadTask(made, assignment.plan, settings, self._executor)
        task.paused = assignment.paused
        self._tasks[assignment.task] = task
        self._counts[assignment.task] = TaskCounts()

    # What tasks do

    def _take_ended(self) -> None:
        now = self._clock()
        for task in list(self._tasks.values()):
            ended = task.take_ended(now)
            if ended is not None:
                self._counts[task.name].busy_s += now - ended.began_at
                self._ended(task, ended)

    def _ended(self, task: ThreadTask, ended: Ended) -> None:
        if ended.activity is Activity.ACTING:
            self._commands.acted(task.name, ended)
        elif ended.activity is Activity.PROCESSING and ended.error is None:
            self._processed(task, ended)
        elif ended.activity is Activity.OPENING and ended.error is None:
            self._opened(task, ended)
        if task.activity is Activity.GONE:
            self._released(task)
        elif ended.error is not None and task.activity in (Activity.CLOSED, Activity.FAILED):
            self._failed(task, ended.error)

    def _opened(self, task: ThreadTask, ended: Ended) -> None:
        assert ended.outcome is not None
        self._count(task, ended.outcome)
        starts = {topic_partition: ended.outcome.positions[topic_partition] for topic_partition in task.task.inputs}
        self._owners.update(dict.fromkeys(starts, task))
        task.suspended.clear()
        self._reader.assign(starts)
        self._limits.share(self._tasks.values())
        self._has_news = True

    def _processed(self, task: ThreadTask, ended: Ended) -> None:
        assert ended.outcome is not None
        assert task.input is not None
        counts = self._counts[task.name]
        self._timing.processed(ended.outcome.durations)
        counts.records += ended.outcome.counts.get("read", 0)
        if "commit" in ended.outcome.durations:
            self._has_commits = True
            counts.commits += 1
            counts.committed_at = self._wall_clock()
        self._count(task, ended.outcome)
        if task.suspended:
            full = set(task.input.overflowing())
            if resumed := task.suspended - full:
                self._reader.resume(resumed)
                task.suspended &= full
        self._has_news |= task.paused
        self._commands.committed(task.name)

    def _count(self, task: ThreadTask, outcome: BatchOutcome) -> None:
        counts = self._counts[task.name]
        counts.statistics.append(self._maker.statistics(outcome, failed_attempts=counts.failed_attempts))
        counts.failed_attempts = 0

    def _failed(self, task: ThreadTask, error: Exception) -> None:
        """Handles that an error has closed a task. It is opened again, or released if that would not help."""
        self._counts[task.name].failed_attempts += 1
        self._read_no_more(task)
        known = isinstance(error, MillraceError)
        _log.warning(
            "task failed",
            task=task.name,
            attempt=task.attempts,
            error=error.message if isinstance(error, MillraceError) else f"{type(error).__name__}: {error}",
            opens_again=task.activity is Activity.CLOSED,
            exc_info=None if known else error,
        )
        if task.activity is Activity.FAILED:
            self._discard(task)
            self._connection.send(Failed(task.name, self._generation, problem_of(error)))
            self._has_news = True

    def _released(self, task: ThreadTask) -> None:
        self._read_no_more(task)
        crash_here(CrashPoint.THREAD_RELEASES)
        self._discard(task)
        self._has_news = True
        assignment = self._next.get(task.name)
        if assignment is not None:
            # With another plan: it is opened again.
            self._make(assignment)

    def _discard(self, task: ThreadTask) -> None:
        if self._counts[task.name].statistics:
            # A report has the tasks that were not released yet: this is the last one that can have its statistics.
            self._report()
        del self._tasks[task.name]
        del self._counts[task.name]
        self._commands.discard(task.name)

    def _read_no_more(self, task: ThreadTask) -> None:
        own = [topic_partition for topic_partition, owner in self._owners.items() if owner is task]
        for topic_partition in own:
            del self._owners[topic_partition]
        if own:
            self._reader.unassign(own)
            self._limits.share(self._tasks.values())

    def _begin_due_work(self) -> None:
        now = self._clock()
        for task in self._tasks.values():
            if task.is_busy:
                continue
            if task.leaving:
                task.close(now)
            elif task.activity is Activity.READY and (action := self._commands.action_for(task.name)) is not None:
                task.act(now, action.action, action.arguments)
            elif task.due_in(now) <= 0 and self._has_lease():
                if task.activity is Activity.CLOSED:
                    task.open(now)
                else:
                    task.run(now)

    def _has_lease(self) -> bool:
        """Returns whether no other thread can have these tasks."""
        if self._connection.lease_left_s > 0:
            return True
        self._lost("the driver has not been heard for too long, and may have given the tasks to others")
        return False

    # Reading

    def _read(self) -> None:
        now = self._clock()
        busy = any(task.is_busy for task in self._tasks.values())
        limit_s = _LONGEST_POLL_BUSY_S if busy else _LONGEST_POLL_S
        due_s = min((task.due_in(now) for task in self._tasks.values()), default=float("inf"))
        wait_s = max(0.0, min(limit_s, due_s, self._reported_at + REPORT_S - now))
        if not self._owners:
            self._take_messages(min(wait_s, limit_s))
            return
        if not self._paced:
            pace_s = min(_PACE_S, wait_s)
            self._paced = True
            if pace_s > 0:
                self._take_messages(pace_s)
                return
        self._poll(wait_s)

    def _poll(self, wait_s: float) -> None:
        began = self._clock()
        try:
            news = self._reader.poll(wait_s, self._limits.poll_records)
        except MillraceError as error:
            self._reading_failed(error)
            return
        now = self._clock()
        brought = 0
        for columns in news:
            task = self._owners.get((columns.topic, columns.partition))
            if task is None or task.input is None:
                continue
            brought += len(columns.offsets)
            task.input.add(columns)
            task.read(now)
            if full := set(task.input.overflowing()) - task.suspended:
                self._reader.pause(full)
                task.suspended |= full
        self._paced = not 0 < brought < _FEW_RECORDS
        self._timing.polled(now - began, brought_records=brought > 0)

    def _reading_failed(self, error: MillraceError) -> None:
        """Closes a task whose input cannot be read, with the reason that the broker reports."""
        failed = self._reader.failed
        tasks = (
            list(self._tasks.values()) if failed is None else [self._owners[failed]] if failed in self._owners else []
        )
        for task in tasks:
            if task.activity is Activity.READY or task.is_busy:
                task.wait()
        self._take_ended()
        now = self._clock()
        for task in tasks:
            if task.activity is Activity.READY:
                task.fail(now, error)

    # Reports

    def _report_if_due(self) -> None:
        limit_s = COMMIT_REPORT_S if self._has_commits else REPORT_S
        if self._has_news or self._clock() - self._reported_at >= limit_s:
            self._report()

    def _report(self) -> None:
        self._has_news = self._has_commits = False
        self._reported_at = self._clock()
        self._sequence += 1
        crash_here(CrashPoint.THREAD_REPORTS)
        self._connection.send(
            Report(
                sequence=self._sequence,
                generation=self._generation,
                tasks=tuple(take_report(task, self._counts[task.name]) for task in self._tasks.values()),
                standbys=self._standbys.reports(),
                timing=self._timing.take(self._reported_at),
            )
        )
