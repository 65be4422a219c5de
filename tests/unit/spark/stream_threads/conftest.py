"""A stream thread without Spark, broker and time: its driver, its reader, its tasks and its clock are played."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millrace.errors import MillraceError, OperationError
from millrace.kafka.columns import PartitionColumns
from millrace.spark.stream_threads.conversation import Ended
from millrace.spark.stream_threads.messages import (
    Assign,
    Assignment,
    FromDriver,
    FromThread,
    Report,
    StandbyReport,
    TaskState,
)
from millrace.spark.stream_threads.thread import StreamThread
from millrace.spark.stream_threads.thread_limits import ThreadLimits
from millrace.spark.stream_threads.thread_task import TaskSettings
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.input import (
    InputBatch,
    OffsetRange,
    concat_inputs,
    decided_length,
    empty_input,
    in_stream_order,
    positions_after,
)
from millrace.topology.topic_partition import TopicPartition

INTERVAL_S = 0.1


class PlayedClock:
    """Time that passes where it is waited for, and when the test says."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


class LateExecutor(Executor):
    """Runs what it is given when the test says, or at once."""

    def __init__(self) -> None:
        self.at_once = True
        self.queued: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.queued.append((future, lambda: fn(*args, **kwargs)))
        if self.at_once:
            self.run_all()
        return future

    def run_all(self) -> None:
        while self.queued:
            future, call = self.queued.popleft()
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)


class PlayedDriver:
    """The driver's end of the connection."""

    def __init__(self, clock: PlayedClock) -> None:
        self._clock = clock
        self.said: list[FromThread] = []
        self.inbox: deque[FromDriver | Ended] = deque()
        self.lease_left_s = 10.0
        self.left: str | None = None
        self.abandoned: str | None = None
        self.generation = 0

    def send(self, message: FromThread) -> None:
        self.said.append(message)

    def take(self, timeout_s: float = 0.0) -> FromDriver | Ended | None:
        if self.inbox:
            return self.inbox.popleft()
        self._clock.pass_by(timeout_s)
        return None

    def leave(self, reason: str) -> None:
        self.left = reason

    def abandon(self, reason: str) -> None:
        self.abandoned = reason

    def assign(
        self, *tasks: str, paused: Collection[str] = (), plan: str = "p", standbys: Collection[str] = ()
    ) -> None:
        self.generation += 1
        self.inbox.append(
            Assign(
                self.generation,
                tuple(Assignment(task, plan, paused=task in paused) for task in tasks),
                tuple(Assignment(task, plan) for task in standbys),
            )
        )

    @property
    def last_report(self) -> Report:
        return [message for message in self.said if isinstance(message, Report)][-1]


@dataclass
class PlayedReader:
    """What the broker has, by topic-partition, and what is read of it."""

    clock: PlayedClock
    trouble: str = ""
    logs: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    paused: set[TopicPartition] = field(default_factory=set)
    problem: MillraceError | None = None
    failed: TopicPartition | None = None
    reported: set[TopicPartition] = field(default_factory=set)
    hides_end: bool = False
    closed: bool = False
    most: int = 1_000_000

    def put(self, topic_partition: TopicPartition, *timestamps: int, marker: bool = False) -> None:
        log = self.logs.setdefault(topic_partition, [])
        at = self.ends.get(topic_partition, 0)
        log.extend((at + number, timestamp) for number, timestamp in enumerate(timestamps))
        self.ends[topic_partition] = at + len(timestamps) + int(marker)
        self.reported.discard(topic_partition)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        self.positions.update(starts)
        self.reported -= starts.keys()

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        for topic_partition in partitions:
            self.positions.pop(topic_partition, None)
            self.paused.discard(topic_partition)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def poll(self, timeout_s: float, max_records: int) -> list[PartitionColumns]:
        if self.problem is not None:
            problem, self.problem = self.problem, None
            raise problem
        news = []
        for topic_partition, position in self.positions.items():
            if topic_partition in self.paused or topic_partition in self.reported:
                continue
            rows = [row for row in self.logs.get(topic_partition, []) if row[0] >= position][
                : min(max_records, self.most)
            ]
            end = self.ends.get(topic_partition, 0)
            whole = len(rows) < min(max_records, self.most) or not rows
            self.positions[topic_partition] = end if whole else rows[-1][0] + 1
            at_end = whole and not self.hides_end
            if whole:
                self.reported.add(topic_partition)
            news.append(
                PartitionColumns(
                    topic=topic_partition[0],
                    partition=topic_partition[1],
                    offsets=np.array([offset for offset, _ in rows], dtype=np.int64),
                    timestamps=np.array([timestamp for _, timestamp in rows], dtype=np.int64),
                    keys=pa.array([b"k"] * len(rows), type=pa.binary()),
                    values=pa.array([b"v"] * len(rows), type=pa.binary()),
                    position=self.positions[topic_partition],
                    end=end if at_end else None,
                    log_end=None if self.hides_end else end,
                )
            )
        if not news:
            self.clock.pass_by(max(timeout_s, 0.001))
        return news

    def close(self) -> None:
        self.closed = True


class PlayedTask:
    """A task with the protocol of the real one: what is committed outlives its being closed."""

    def __init__(self, name: str, inputs: tuple[TopicPartition, ...], clock: PlayedClock) -> None:
        self.name = name
        self.inputs = inputs
        self._clock = clock
        self.committed = dict.fromkeys(inputs, 0)
        self.processed: list[tuple[str, int]] = []
        self.batches: list[int] = []
        self.recommits = 0
        self.is_open = False
        self.opened = 0
        self.fails: deque[Exception | None] = deque()
        self.open_fails: deque[Exception] = deque()
        self.batch_s = 0.0
        self.merged_bytes_per_row = 0
        self.acted: list[tuple[str, dict[str, object]]] = []
        self.act_fails: Exception | None = None
        self.next_punctuation_ms: int | None = None
        self.punctuated_at: list[float] = []
        self.explained: MillraceError | None = None

    def open(self) -> BatchOutcome:
        if self.open_fails:
            raise self.open_fails.popleft()
        self.is_open = True
        self.opened += 1
        return self._outcome({})

    def run(
        self, rows: list[InputBatch], ranges: Mapping[TopicPartition, OffsetRange], *, recommit: bool
    ) -> BatchOutcome:
        assert self.is_open
        assert all(ranges[topic_partition].start == offset for topic_partition, offset in self.committed.items())
        self._clock.pass_by(self.batch_s)
        if self.fails and (error := self.fails.popleft()) is not None:
            self.is_open = False
            raise error
        topics = tuple(sorted({topic for topic, _ in self.inputs}))
        ordered = in_stream_order(concat_inputs(rows) if rows else empty_input(topics))
        length = decided_length(ordered, ranges)
        self.processed += [(topic, offset) for topic, _, offset in map(ordered.position, range(length))]
        if ranges and all(offsets.start == offsets.end for offsets in ranges.values()) and not self._punctuates:
            self.recommits += recommit
            return self._outcome({"commit": 0.0} if recommit else {})
        if self._punctuates:
            self.punctuated_at.append(self._clock())
            self.next_punctuation_ms = int(self._clock() * 1000) + 10_000
        self.batches.append(length)
        self.committed.update(positions_after(ordered, length, ranges))
        return self._outcome({"process": self.batch_s, "commit": 0.0})

    @property
    def _punctuates(self) -> bool:
        return self.next_punctuation_ms is not None and self.next_punctuation_ms <= self._clock() * 1000

    def _outcome(self, durations: Mapping[str, float]) -> BatchOutcome:
        return BatchOutcome(
            task=self.name,
            positions=dict(self.committed),
            counts={"read": self.batches[-1]} if "process" in durations else {},
            durations=durations,
            merged_bytes=self.batches[-1] * self.merged_bytes_per_row if "process" in durations else 0,
            next_punctuation_ms=self.next_punctuation_ms,
        )

    def act(self, action: str, arguments: Mapping[str, object]) -> object:
        assert self.is_open
        self.acted.append((action, dict(arguments)))
        if self.act_fails is not None:
            raise self.act_fails
        return f"{self.name} did {action}"

    def explain(self, error: MillraceError) -> None:
        self.is_open = False
        raise self.explained or error

    def close(self) -> None:
        self.is_open = False


class PlayedStandbys:
    """The standby copies of a thread."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, ...]] = []
        self.is_closed = False

    def keep(self, assignments: Sequence[Assignment]) -> None:
        self.kept.append(tuple(each.task for each in assignments))

    def reports(self) -> tuple[StandbyReport, ...]:
        return tuple(StandbyReport(task, position=7, lag=0) for task in (self.kept[-1] if self.kept else ()))

    def close(self) -> None:
        self.is_closed = True


class World:
    """A stream thread and everything around it."""

    def __init__(self, limits: ThreadLimits | None = None) -> None:
        self.clock = PlayedClock()
        self.driver = PlayedDriver(self.clock)
        self.reader = PlayedReader(self.clock)
        self.executor = LateExecutor()
        self.standbys = PlayedStandbys()
        self.tasks: dict[str, PlayedTask] = {}
        self.most_records = 1_000
        self.interval_s = INTERVAL_S
        self.most_buffered: int | None = None
        self.merges = False
        self.recommit_s = 1_000_000.0
        self.idle_s = 0.0
        self.thread = StreamThread(
            connection=self.driver,
            reader=self.reader,
            maker=self,
            executor=self.executor,
            standbys=self.standbys,
            limits=limits,
            clock=self.clock,
            wall_clock=self.clock,
        )

    def task(self, name: str, *topics: str) -> PlayedTask:
        """A task that the thread can be assigned, over the partition that its name ends with."""
        number = int(name.rpartition("_")[2])
        inputs = tuple((topic, number) for topic in (topics or ("in",)))
        self.tasks[name] = PlayedTask(name, inputs, self.clock)
        return self.tasks[name]

    def make(self, assignment: Assignment) -> tuple[PlayedTask, TaskSettings]:
        if assignment.task not in self.tasks:
            raise OperationError(f"{assignment.task} is not known.")
        return self.tasks[assignment.task], TaskSettings(
            commit_interval_s=self.interval_s,
            recommit_s=self.recommit_s,
            most_records=self.most_records,
            wall_clock_ms=lambda: self.clock() * 1000,
            idle_s=self.idle_s,
            most_buffered=self.most_buffered,
            merges=self.merges,
        )

    def statistics(self, outcome: BatchOutcome, *, failed_attempts: int) -> str:
        return f"{outcome.task} {outcome.counts.get('read', 0)} {failed_attempts}"

    def running(self, *names: str) -> None:
        """Has the thread open tasks."""
        self.driver.assign(*names)
        self.turn_until(
            lambda: (
                any(isinstance(said, Report) for said in self.driver.said)
                and [each.task for each in self.driver.last_report.tasks if each.state is TaskState.RUNNING]
                == list(names)
            )
        )

    def turn_until(self, condition: Callable[[], object], *, within_s: float = 5.0) -> float:
        """Turns the loop until a condition holds; the time that it took, seconds."""
        began = self.clock()
        while not condition():
            assert self.clock() - began < within_s, "it did not come to that"
            before = self.clock()
            self.thread.turn()
            if self.clock() == before:
                self.clock.pass_by(0.0001)
        return self.clock() - began

    def turn_for(self, seconds: float) -> None:
        """Turns the loop for a while."""
        end = self.clock() + seconds
        self.turn_until(lambda: self.clock() >= end, within_s=seconds + 5)


@pytest.fixture
def world() -> World:
    """A stream thread whose world is played."""
    return World()


@pytest.fixture
def make_world() -> Callable[..., World]:
    """``make_world(limits)`` makes such a thread that may hold so much."""
    return World
