"""A stream thread within the bounds that are set for it: the real loop, reader, tasks and broker, without Spark."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import MillraceError
from millrace.kafka.columns import ReaderSettings, open_reader
from millrace.kafka.offsets import committed_offsets
from millrace.spark.plan import QueryPlan
from millrace.spark.stream_threads.conversation import Ended
from millrace.spark.stream_threads.messages import Assign, Assignment, CommitNow, FromDriver, FromThread
from millrace.spark.stream_threads.run_thread import task_settings
from millrace.spark.stream_threads.thread import StreamThread
from millrace.spark.stream_threads.thread_limits import ThreadLimits
from millrace.spark.stream_threads.thread_task import OpenTask, TaskSettings
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.input import InputBatch, OffsetRange
from millrace.task.task import Task
from millrace.topology.topic_partition import TopicPartition
from tests.application import PREFIX_VARIABLE
from tests.integration.standby.counting import PARTITIONS, Counting
from tests.waiting import PATIENCE

LIMIT_S = 60.0


class OwnTask:
    """A task of this process, and what came of its batches."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.name = task.spec.name
        self.inputs = task.spec.inputs
        self.batches: list[BatchOutcome] = []

    def open(self) -> BatchOutcome:
        return self.task.run_batch(TaskBatch([], {}))

    def run(
        self, rows: list[InputBatch], ranges: Mapping[TopicPartition, OffsetRange], *, recommit: bool
    ) -> BatchOutcome:
        outcome = self.task.run_batch(TaskBatch(rows, ranges, recommit=recommit))
        if outcome.counts.get("read"):
            self.batches.append(outcome)
        return outcome

    def act(self, action: str, arguments: Mapping[str, object]) -> object:
        raise AssertionError(f"{action} was not asked for")

    def explain(self, error: MillraceError) -> None:
        raise error

    def close(self) -> None:
        self.task.close()


class Driver:
    """Assigns all tasks, and never goes away."""

    lease_left_s = 10.0

    def __init__(self) -> None:
        self.inbox: deque[FromDriver] = deque()

    def send(self, message: FromThread) -> None:
        pass

    def take(self, timeout_s: float = 0.0) -> FromDriver | Ended | None:
        if not self.inbox and timeout_s > 0:
            time.sleep(timeout_s)  # as the connection does, which is the loop's rest
        return self.inbox.popleft() if self.inbox else None

    def leave(self, reason: str) -> None:
        pass

    def abandon(self, reason: str) -> None:
        pass


class InProcess:
    """The counting application on one stream thread of this process, whose clock can be set forward."""

    def __init__(self, counting: Counting, plan: QueryPlan, closing: ExitStack) -> None:
        self.counting, self.plan = counting, plan
        self.skew_s = 0.0
        self.driver = Driver()
        self.tasks = {spec.name: OwnTask(Task(spec)) for spec in map(plan.task_spec, range(PARTITIONS))}
        executor = closing.enter_context(ThreadPoolExecutor(PARTITIONS))
        reader = open_reader(
            ReaderSettings(
                bootstrap_servers=counting.bootstrap_servers,
                group=counting.name,
                settings=plan.config.client_settings("consumer."),
            )
        )
        closing.callback(reader.close)
        for task in self.tasks.values():
            closing.callback(task.close)
        self.loop = StreamThread(
            connection=self.driver,
            reader=reader,
            maker=self,
            executor=executor,
            limits=ThreadLimits.from_config(plan.config),
            clock=lambda: time.monotonic() + self.skew_s,
        )
        self.driver.inbox.append(Assign(1, tuple(Assignment(name, "plan") for name in self.tasks)))

    def make(self, assignment: Assignment) -> tuple[OpenTask, TaskSettings]:
        return self.tasks[assignment.task], task_settings(self.plan)

    def statistics(self, outcome: BatchOutcome, *, failed_attempts: int) -> str:
        return ""

    @property
    def processed(self) -> int:
        return sum(outcome.counts["read"] for task in self.tasks.values() for outcome in task.batches)

    @property
    def remaining(self) -> int:
        """Records that were read, that no batch has taken, and of which each task's fit into one."""
        inputs = [task.input for task in self.loop._tasks.values() if not task.is_busy]
        return sum(each.records for each in inputs if each is not None and not each.is_full)

    def commit_now(self) -> None:
        self.driver.inbox.append(CommitNow(1, tuple(self.tasks)))

    @property
    def state(self) -> str:
        """What was processed, and of each task what it does, has buffered, does not read and is to do."""
        return f"{self.processed} processed; " + ", ".join(
            f"{task.name} {task.activity}: {task.input and (task.input.records, task.input.positions)}, suspended "
            f"{task.suspended}, due in {task.due_in(self.loop._clock())} s"
            for task in self.loop._tasks.values()
        )

    def turn_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S * PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"it did not come to that: {self.state}"
            self.loop.turn()


@pytest.fixture
def start(
    bootstrap_servers: str, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., InProcess]]:
    """``start(settings)`` runs the application on one stream thread, whose loop the test turns."""
    monkeypatch.setenv(PREFIX_VARIABLE, unique)
    with ExitStack() as closing:

        def make(settings: Mapping[str, Any]) -> InProcess:
            counting = Counting(bootstrap_servers, unique, tmp_path, settings=settings)
            closing.callback(counting.delete_topics)
            return InProcess(counting, counting.plan("state"), closing)

        yield make


def test_bounds_of_records_and_of_the_cache_are_kept_and_all_of_the_input_is_counted(
    start: Callable[..., InProcess],
) -> None:
    share = 20 * 1_024
    thread = start(
        {
            "commit.interval.ms": 3_600_000,
            "buffered.records.per.partition": 500,
            "consumer.max.poll.records": 200,
            "cache.max.bytes.buffering": PARTITIONS * share,
        }
    )
    keys = [f"key-{number % 2_000:05d}" for number in range(12_000)]
    thread.counting.send((key, "v", 1) for key in keys)
    buffered: set[int] = set()
    paused: set[TopicPartition] = set()

    def almost_all_is_committed() -> bool:
        for task in thread.loop._tasks.values():
            buffered.add(task.input.records if task.input is not None else 0)
            paused.update(task.suspended)
        # No interval passes in this test: what is left fills no batch.
        return thread.processed > len(keys) - PARTITIONS * 500

    thread.turn_until(almost_all_is_committed)
    assert paused == {(thread.counting.topic, partition) for partition in range(PARTITIONS)}
    assert max(buffered) < 500 + 200
    for task in thread.tasks.values():
        merged = [outcome.merged_bytes for outcome in task.batches]
        rows = [outcome.counts["read"] for outcome in task.batches]
        # One for each KiB, of the whole cache for who is open first; and then at most twice as many as before.
        for number, taken in enumerate(rows):
            assert taken <= max(PARTITIONS * 20, 2 * max(rows[:number], default=0))
        assert 0.9 * share < max(merged) <= share
        # No two of so few rows have a key in common: the count and its window, each with key, time and 8 bytes.
        assert merged[0] == rows[0] * (2 * (len("key-00000") + 8 + 8))
    thread.turn_until(lambda: thread.processed + thread.remaining == len(keys))
    thread.commit_now()
    thread.turn_until(lambda: thread.processed == len(keys))
    for name, kept in (("counts", 0), ("windows", 1)):
        found: Counter[str] = Counter()
        for task in thread.tasks.values():
            store: Any = task.task.state.store(name)
            for key, *rest in store.all():
                found[key.decode()] = int.from_bytes(rest[kept], "big")
        assert found == Counter(keys)


def test_under_at_least_once_a_task_commits_what_came_after_its_first_batch_half_a_minute_later(
    start: Callable[..., InProcess],
) -> None:
    thread = start({"processing.guarantee": "at_least_once"})
    counting = thread.counting
    topic_partition = (counting.topic, 0)

    def committed() -> int:
        return committed_offsets(counting.admin, counting.name, [topic_partition])[topic_partition].offset

    def offset_read() -> int:
        task = next(each for each in thread.loop._tasks.values() if topic_partition in each.task.inputs)
        return 0 if task.input is None else task.input.positions[topic_partition]

    # A key of the first partition.
    counting.send([("key-1", "v", 1), ("key-0", "v", 1)])
    thread.turn_until(lambda: thread.processed == 2)
    first = committed()
    counting.send([("key-1", "v", 2), ("key-0", "v", 2)])
    thread.turn_until(lambda: offset_read() > first)
    assert first > 0
    assert not any(task.is_busy or task.due_in(thread.loop._clock()) < 20 for task in thread.loop._tasks.values())
    assert committed() == first
    thread.skew_s = 30.0
    thread.turn_until(lambda: thread.processed == 4)
    assert committed() > first
