"""One task of a stream thread: what is due next, and what runs. At most one activity of a task runs at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from millrace.errors import (
    BrokerUnavailableError,
    MillraceError,
    StateDirectoryLockedError,
    TaskMigratedError,
    TransactionAbortedError,
)
from millrace.spark.stream_threads.cache_limit import CacheLimit
from millrace.spark.stream_threads.commit_schedule import BatchLimit, CommitSchedule
from millrace.spark.stream_threads.task_input import TaskInput
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.input import InputBatch, OffsetRange
from millrace.topology.topic_partition import TopicPartition

RETRIED = (BrokerUnavailableError, StateDirectoryLockedError, TaskMigratedError, TransactionAbortedError)
"""Errors after which opening the task again may help; every other one would only come again."""

MOST_ATTEMPTS = 4
"""At opening a task and running its next batch, before it is reported as failed."""

_FIRST_RETRY_S = 0.1


class OpenTask(Protocol):
    """A task as a stream thread uses it. Called by one thread at a time, not always by the same one."""

    @property
    def name(self) -> str:
        """The task's name, for example ``1_3``."""

    @property
    def inputs(self) -> tuple[TopicPartition, ...]:
        """The task's input partitions."""

    def open(self) -> BatchOutcome:
        """Opens the stores and the producer, and restores the stores to the committed offsets.

        Raises:
            MillraceError: see :meth:`millrace.task.task.Task.run_batch`.
        """

    def run(
        self, rows: list[InputBatch], ranges: Mapping[TopicPartition, OffsetRange], *, recommit: bool
    ) -> BatchOutcome:
        """Processes and commits a batch, see :meth:`millrace.task.task.Task.run_batch`. An error closes the task.

        Raises:
            MillraceError: nothing was committed, or it shows in the committed offsets.
        """

    def act(self, action: str, arguments: Mapping[str, object]) -> object:
        """Executes a named action on the open task."""

    def explain(self, error: MillraceError) -> None:
        """Closes the task, whose input cannot be read, and raises the reason: that error, or its cause.

        Raises:
            MillraceError: always.
        """

    def close(self) -> None:
        """Closes stores and producer. Does nothing if they are not open."""


class Activity(StrEnum):
    """The activity of a task."""

    CLOSED = "closed"
    """To be opened, perhaps after a wait."""
    OPENING = "opening"
    READY = "ready"
    """Open, and nothing of it runs."""
    PROCESSING = "processing"
    ACTING = "acting"
    EXPLAINING = "explaining"
    """Its input cannot be read: it is closed, and the reason looked for."""
    CLOSING = "closing"
    FAILED = "failed"
    """For good, as far as the thread is concerned."""
    GONE = "gone"
    """Closed because it belongs to another thread from now on."""


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The settings of a task's application that the loop needs.

    Args:
        commit_interval_s: time between the starts of two batches, seconds; it is shorter where the input is full.
        recommit_s: after how long offsets that have not moved are committed again, seconds.
        most_records: most records of one partition that a batch takes.
        wall_clock_ms: the clock of punctuations, milliseconds since the epoch.
        idle_s: how long records wait for producers of another input, see
            :class:`millrace.spark.stream_threads.task_input.TaskInput`.
        most_buffered: records of one partition that are buffered before it is read no further; ``None`` leaves it to
            the limits of batches and bytes.
        merges: whether the task has cached stores, so that it takes a share of the record cache.
    """

    commit_interval_s: float
    recommit_s: float
    most_records: int
    wall_clock_ms: Callable[[], float]
    idle_s: float = 0.0
    most_buffered: int | None = None
    merges: bool = False


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of an activity of a task.

    Args:
        activity: what it was.
        began_at: when it began, by the loop's clock.
        ended_at: when it was seen to have ended.
        outcome: of a batch, or of opening.
        answer: of an action.
        error: why it failed.
    """

    activity: Activity
    began_at: float
    ended_at: float
    outcome: BatchOutcome | None = None
    answer: object = None
    error: Exception | None = None


class ThreadTask:
    """A task that is assigned to a stream thread.

    Args:
        task: how it is used.
        plan: digest of the plan that it was made with.
        settings: what the loop must know.
        executor: runs what takes long.
    """

    def __init__(self, task: OpenTask, plan: str, settings: TaskSettings, executor: Executor) -> None:
        self.task = task
        self.plan = plan
        self.paused = False
        self.leaving = False
        self.activity = Activity.CLOSED
        self.input: TaskInput | None = None
        self.suspended: set[TopicPartition] = set()
        """Partitions whose reading is paused, since enough of them is buffered."""
        self.attempts = 0
        self.due_to_open_at = float("-inf")
        self._settings = settings
        self._executor = executor
        self._schedule = self._new_schedule()
        self._limit = BatchLimit(settings.most_records)
        self._cache: CacheLimit | None = None
        self._running: Future[object] | None = None
        self._began_at = 0.0
        self._took = 0

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    @property
    def merges(self) -> bool:
        """Whether the task takes a share of the record cache."""
        return self._settings.merges

    def share(self, *, partition_bytes: int, cache_bytes: int | None) -> None:
        """Sets the open task's shares of the memory of its thread.

        Args:
            partition_bytes: what may be buffered of each of its partitions.
            cache_bytes: what its updates that are merged for a commit may take; ``None`` where that is not bounded.
        """
        assert self.input is not None
        self.input.most_bytes = partition_bytes
        if cache_bytes is None:
            self._cache = None
        elif self._cache is None:
            self._cache = CacheLimit(cache_bytes)
        else:
            self._cache.share_bytes = cache_bytes
        self._limit_rows(self.input)

    def _limit_rows(self, read: TaskInput) -> None:
        read.most_records = self._limit.records
        read.most_rows = None if self._cache is None else self._cache.rows

    @property
    def is_busy(self) -> bool:
        """Whether an activity of the task runs."""
        return self._running is not None

    def open(self, now: float) -> None:
        """Begins to open the task."""
        self._start(Activity.OPENING, now, self.task.open)

    def run(self, now: float) -> None:
        """Begins the next batch."""
        assert self.input is not None
        rows, ranges = self.input.batch(now)
        self._took = sum(len(batch) for batch in rows)
        recommit = self._schedule.recommits(now)
        self._schedule.begin(now, takes_rows=self._took > 0)
        self._start(Activity.PROCESSING, now, lambda: self.task.run(rows, ranges, recommit=recommit))

    def act(self, now: float, action: str, arguments: Mapping[str, object]) -> None:
        """Begins an action."""
        self._start(Activity.ACTING, now, lambda: self.task.act(action, arguments))

    def fail(self, now: float, error: MillraceError) -> None:
        """Begins to close the task and to find the reason why its input cannot be read."""
        self._start(Activity.EXPLAINING, now, lambda: self.task.explain(error))

    def close(self, now: float) -> None:
        """Begins to close the task, for good."""
        self._start(Activity.CLOSING, now, self.task.close)

    def ask_for_commit(self) -> None:
        """Makes the read records be committed without waiting for the commit interval."""
        self._schedule.ask()

    def read(self, now: float) -> None:
        """Records that something was read for the task."""
        self._schedule.moved(now)

    def due_in(self, now: float) -> float:
        """Returns the seconds until an activity of the task is due; infinite if none is known."""
        if self.is_busy:
            return float("inf")
        if self.activity is Activity.CLOSED:
            return max(0.0, self.due_to_open_at - now)
        if self.activity is not Activity.READY or self.paused or self.input is None:
            return float("inf")
        return self._schedule.due_in(now, self.input)

    def has_uncommitted(self, now: float) -> bool:
        """Returns whether the task has read something that could be committed now."""
        return self.input is not None and (self.input.decidable_in(now) == 0 or self.input.has_passed_markers)

    def wait(self) -> None:
        """Waits until the running activity has ended, also with an error."""
        if self._running is not None:
            self._running.exception()

    def take_ended(self, now: float) -> Ended | None:
        """Returns the activity that has ended since the last call, with its result; ``None`` if none has."""
        if self._running is None or not self._running.done():
            return None
        future, self._running = self._running, None
        activity, error = self.activity, future.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        ended = Ended(
            activity=activity,
            began_at=self._began_at,
            ended_at=now,
            outcome=result if error is None and isinstance(result := future.result(), BatchOutcome) else None,
            answer=future.result() if error is None and activity is Activity.ACTING else None,
            error=error,
        )
        self._move(ended, now)
        return ended

    def _move(self, ended: Ended, now: float) -> None:
        if ended.activity is Activity.CLOSING:
            self.activity, self.input = Activity.GONE, None
        elif ended.activity is Activity.ACTING and isinstance(ended.error, MillraceError | None):
            # An action reads: one that failed says so to whoever asked, and the task goes on.
            self.activity = Activity.READY
        elif ended.error is not None:
            self._failed(ended.error, now)
        elif ended.activity is Activity.OPENING:
            self._opened(ended, now)
        else:
            self._processed(ended, now)

    def _opened(self, ended: Ended, now: float) -> None:
        assert ended.outcome is not None
        self.activity = Activity.READY
        self.input = TaskInput(
            self.task.inputs,
            ended.outcome.positions,
            most_records=self._limit.records,
            idle_s=self._settings.idle_s,
            most_buffered=self._settings.most_buffered,
        )
        self._schedule = self._new_schedule()
        self._schedule.open(now, punctuation_ms=ended.outcome.next_punctuation_ms)

    def _processed(self, ended: Ended, now: float) -> None:
        outcome = ended.outcome
        assert outcome is not None
        assert self.input is not None
        self.activity = Activity.READY
        self.attempts = 0
        self.input.commit_to(outcome.positions)
        self._limit.observe(self._took, now - ended.began_at)
        if self._cache is not None:
            self._cache.observe(outcome.counts.get("read", 0), outcome.merged_bytes)
        self._limit_rows(self.input)
        self._schedule.end(
            now,
            committed="commit" in outcome.durations,
            punctuation_ms=outcome.next_punctuation_ms,
            is_empty=not self.input.records and not self.input.has_passed_markers,
        )

    def _failed(self, error: Exception, now: float) -> None:
        self.input = None
        self.attempts += 1
        if isinstance(error, RETRIED) and self.attempts < MOST_ATTEMPTS:
            self.activity = Activity.CLOSED
            self.due_to_open_at = now + _FIRST_RETRY_S * 2 ** (self.attempts - 1)
        else:
            self.activity = Activity.FAILED

    def _start(self, activity: Activity, now: float, call: Callable[[], object]) -> None:
        assert self._running is None, f"{self.name} is {self.activity}"
        self.activity = activity
        self._began_at = now
        self._running = self._executor.submit(call)

    def _new_schedule(self) -> CommitSchedule:
        return CommitSchedule(
            interval_s=self._settings.commit_interval_s,
            recommit_s=self._settings.recommit_s,
            wall_clock_ms=self._settings.wall_clock_ms,
        )
