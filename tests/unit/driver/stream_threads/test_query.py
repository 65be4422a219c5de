"""A sub-topology on stream threads, as the driver sees it: what reports make of its progress, pauses and failures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import pytest

from millrace.config import StreamsConfig
from millrace.driver.stream_threads import query as query_module
from millrace.driver.stream_threads.query import StreamThreadsQuery
from millrace.driver.stream_threads.threads import StreamThreads
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import (
    BrokerUnavailableError,
    DriverFencedError,
    OperationError,
    ProcessingError,
    TransactionAbortedError,
)
from millrace.kafka.topics import TopicDescription
from millrace.metrics import Phase, TaskStatistics
from millrace.serdes import StringSerde
from millrace.spark.plan import QueryPlan
from millrace.spark.query_hooks import QueryHooks
from millrace.spark.stream_threads.messages import TaskReport, TaskState

COMMITTED = {("in", 0): 5, ("in", 1): 7}


class PlayedThreads:
    """The application's stream threads."""

    def __init__(self) -> None:
        self.journal: list[str] = []
        self.is_active = False
        self.exception: BaseException | None = None
        self.reason = ""
        self.while_opening: Callable[[], None] = lambda: None
        self.stand = True

    def add(self, sub_topology: int, listener: Any, digest: str, plan: bytes) -> None:
        self.listener = listener

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
        self.journal.append(f"start {','.join(tasks)}{' paused' if paused else ''}")
        self.is_active = True

    def wait_until_open(self, tasks: Collection[str], or_until: Callable[[], bool]) -> None:
        self.while_opening()

    def pause(self, tasks: Collection[str]) -> None:
        self.journal.append(f"pause {','.join(tasks)}")

    def wait_until_paused(self, tasks: Collection[str], timeout_s: float) -> bool:
        self.journal.append(f"wait for {','.join(sorted(tasks))}")
        return self.stand

    def resume(self, tasks: Collection[str]) -> None:
        self.journal.append(f"resume {','.join(tasks)}")

    def stop(self, sub_topology: int, timeout_s: float) -> None:
        self.journal.append("stop")

    def abandon(self, error: DriverFencedError) -> None:
        self.journal.append("abandon")

    def tick(self) -> None:
        self.journal.append("tick")


class World:
    """A query over a topic of two partitions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        builder = StreamsBuilder()
        texts = (StringSerde(), StringSerde())
        builder.stream("in", Consumed.with_(*texts)).to("out", Produced.with_(*texts))
        config = StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "localhost:1"})
        plan = QueryPlan(
            sub_topology=builder.build().sub_topologies[0],
            config=config,
            run_id=1,
            input_partitions={"in": 2},
            topic_ids={},
        )
        self.threads = PlayedThreads()
        self.statistics: list[TaskStatistics] = []
        self.batches: list[tuple[int, float]] = []
        self.fences: list[DriverFencedError] = []
        hooks = QueryHooks(
            on_statistics=self.statistics.append,
            on_batch=lambda number, seconds: self.batches.append((number, seconds)),
            on_fenced=self.fences.append,
        )
        self.query = StreamThreadsQuery(cast(StreamThreads, self.threads), plan, hooks)
        monkeypatch.setattr(query_module, "read_committed", lambda _admin, _plan, **_: dict(COMMITTED))

    def report(self, task: str = "0_0", **values: Any) -> None:
        """A thread reports of a task."""
        self.query.reported("host/7", TaskReport(task, values.pop("state", TaskState.RUNNING), **values))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A query that is not started."""
    return World(monkeypatch)


def row(task: str, seconds: Mapping[Phase, float]) -> str:
    return TaskStatistics(task, 1, "r", "host", 7, phases=seconds).to_bytes().decode()


def test_a_start_returns_when_all_tasks_are_open_and_shows_the_committed_offsets(world: World) -> None:
    world.threads.while_opening = lambda: world.threads.journal.append(str(dict(world.query.progress.task_states)))
    world.query.start()
    assert world.threads.journal == ["start 0_0,0_1", "{'0_0': 'RESTORING', '0_1': 'RESTORING'}"]
    assert world.query.is_active
    assert world.query.progress.positions == COMMITTED
    assert set(world.query.progress.task_states.values()) == {"RUNNING"}


def test_a_task_that_fails_while_it_is_opened_fails_the_start(world: World) -> None:
    world.threads.while_opening = lambda: world.query.failed("0_1", ProcessingError("No.", remedy="fix it"))
    with pytest.raises(ProcessingError, match="No"):
        world.query.start()
    assert not world.query.is_active


def test_a_spark_query_that_fails_meanwhile_fails_the_start(world: World) -> None:
    def fail() -> None:
        world.threads.is_active = False
        world.threads.exception = RuntimeError("no executor")

    world.threads.while_opening = fail
    with pytest.raises(RuntimeError, match="no executor"):
        world.query.start()


def test_reports_make_the_progress(world: World) -> None:
    world.query.start()
    line = row("0_0", {Phase.PROCESS: 0.5, Phase.COMMIT: 0.25})
    world.report(
        positions=(("in", 0, 9),), ends=(("in", 0, 11),), records=4, commits=1, committed_at=3.0, statistics=(line,)
    )
    progress = world.query.progress
    assert progress.positions == {("in", 0): 9, ("in", 1): 7}
    assert progress.end_offsets == {("in", 0): 11}
    assert (progress.batches, progress.records, progress.last_commit_at) == (1, 4, 3.0)
    assert progress.longest_batch_s == 0.75
    assert progress.task_hosts == {"0_0": "host/7"}
    assert [each.task_id for each in world.statistics] == ["0_0"]
    assert world.batches == [(0, 0.75)]


def test_counts_that_begin_again_in_another_thread_are_added(world: World) -> None:
    world.query.start()
    world.report(records=10, commits=2)
    world.report(records=15, commits=3)
    world.report(records=4, commits=1)
    assert (world.query.progress.records, world.query.progress.batches) == (19, 4)


def test_a_task_that_fails_is_why_the_query_failed_and_what_the_others_do_is_no_progress(world: World) -> None:
    world.query.start()
    world.query.failed("0_1", TransactionAbortedError("Aborted.", remedy="none"))
    assert not world.query.is_active
    assert isinstance(world.query.exception, TransactionAbortedError)
    world.report("0_0", commits=5)
    assert world.query.progress.batches == 0
    world.query.start()
    assert world.query.is_active
    world.report("0_0", commits=6)
    assert world.query.progress.batches == 0
    world.report("0_1", commits=1)
    world.report("0_0", commits=7)
    assert world.query.progress.batches == 2


def test_a_fence_that_a_task_finds_is_told_at_once(world: World) -> None:
    world.query.start()
    world.query.failed("0_0", DriverFencedError("Driver 2 is there."))
    assert [error.message for error in world.fences] == ["Driver 2 is there."]


def test_the_lock_waits_for_the_tasks_that_are_open(world: World) -> None:
    world.query.start()
    world.report("0_0", state=TaskState.RUNNING)
    world.report("0_1", state=TaskState.RESTORING)
    world.threads.journal.clear()
    with world.query.lock:
        assert world.threads.journal == ["pause 0_0,0_1", "wait for 0_0"]
    assert world.threads.journal[-1] == "resume 0_0,0_1"


def test_a_pause_outlasts_the_barrier_that_waited_for_it_and_holds_over_a_start(world: World) -> None:
    world.query.pause()
    world.query.start()
    assert world.threads.journal[-1] == "start 0_0,0_1 paused"
    with world.query.lock:
        pass
    assert "resume 0_0,0_1" not in world.threads.journal
    world.query.resume()
    assert world.threads.journal[-1] == "resume 0_0,0_1"


def test_a_query_that_does_not_run_keeps_no_barrier_waiting(world: World) -> None:
    world.threads.stand = False
    assert world.query.lock.acquire(timeout=0.1)
    world.query.lock.release()


def test_tasks_without_a_thread_are_what_the_application_waits_for(world: World) -> None:
    world.query.start()
    world.threads.reason = "task 0_0 waits until its transactional id is taken over"
    assert world.query.progress.waits_for == "task 0_0 waits until its transactional id is taken over"


def test_an_abandoned_query_starts_nothing(world: World) -> None:
    world.query.abandon(DriverFencedError("Driver 2 is there."))
    with pytest.raises(DriverFencedError):
        world.query.start()
    assert world.threads.journal == ["abandon"]


def test_tasks_go_on_while_new_partitions_cannot_be_looked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of one broker of three ended all threads of an application."""
    monkeypatch.setattr(query_module, "NEW_PARTITIONS_S", 0.0)
    asked = []

    def describe(topics: Collection[str]) -> Mapping[str, TopicDescription]:
        asked.append(set(topics))
        if len(asked) == 1:
            raise BrokerUnavailableError("No broker answered.")
        return {"in": TopicDescription(name="in", topic_id="t", partitions=3, replication_factor=1)}

    monkeypatch.setattr(world.query._admin, "describe_topics", describe)
    world.query.start()
    world.query.tick()
    assert world.query.is_active
    assert "stop" not in world.threads.journal
    with pytest.raises(OperationError, match="new partitions"):
        world.query.tick()
    assert asked == [{"in"}] * 2
