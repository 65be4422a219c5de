"""The stream threads of an application: epochs begin, end and change with plans; threads are played over sockets."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pytest

from millrace.driver.coordinator.coordinator import CoordinatorSettings
from millrace.driver.stream_threads import threads as module
from millrace.driver.stream_threads.threads import StreamThreads
from millrace.errors import DriverFencedError, MillraceError
from millrace.processes import ProcessIdentity
from millrace.spark.stream_threads.connection import CoordinatorConnection
from millrace.spark.stream_threads.launched import LaunchedThread
from millrace.spark.stream_threads.messages import Assign, End, FromDriver, Hello, Report, TaskReport, TaskState
from millrace.spark.stream_threads.run_thread import RunThread
from millrace.spark.stream_threads.slots import EpochSize

LIMIT_S = 10.0

M = TypeVar("M", bound=FromDriver)


class PlayedEpochs:
    """The Spark query; an epoch begins when the test says."""

    def __init__(self, function: Callable[[EpochSize], RunThread]) -> None:
        self.function = function
        self.spark_runs: list[LaunchedThread] = []
        self.running: int | None = None
        self.ended_rests: list[int | None] = []
        self.is_active = False
        self.exception: BaseException | None = None
        self.starts = 0
        self.stopped = threading.Event()

    def start(self) -> None:
        self.starts += 1
        self.is_active = True

    def begin(self, *, threads: int = 1) -> RunThread:
        """The next epoch begins."""
        self.running = (self.running or 0) + 1
        return self.function(EpochSize(threads, threads))

    def launched(self) -> list[LaunchedThread]:
        return self.spark_runs

    def end_remaining_tasks(self, epoch: int | None) -> None:
        self.ended_rests.append(epoch)

    def request_stop(self) -> None:
        pass

    def stop(self, timeout_s: float) -> None:
        self.is_active = False
        self.stopped.set()


class PlayedThread:
    """A stream thread that does what it is told."""

    def __init__(self, made: RunThread, process: int) -> None:
        began = ProcessIdentity.current().start_time + process
        hello = Hello(made.application, made.run, made.epoch, 0, 0, "h", os.getpid(), began, 1.0)
        self.plans = made.plans
        self.connection = CoordinatorConnection(made.address, made.token, hello)
        self.sequence = 0

    def awaits(self, kind: type[M]) -> M:
        """The next message of a kind."""
        while True:
            message = self.connection.take(LIMIT_S)
            assert message is not None, f"no {kind.__name__} came"
            if isinstance(message, kind):
                return message

    def reports(self, assigned: Assign, state: TaskState = TaskState.RUNNING) -> None:
        self.sequence += 1
        tasks = tuple(TaskReport(each.task, state) for each in assigned.tasks)
        self.connection.send(Report(self.sequence, assigned.generation, tasks))


class Heard:
    """What a sub-topology heard."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, TaskState]] = []

    def reported(self, worker: str, report: TaskReport) -> None:
        self.reports.append((report.task, report.state))

    def failed(self, task: str, error: MillraceError) -> None:
        raise AssertionError(f"{task} failed: {error}")


class World:
    """The stream threads of an application of one sub-topology with two tasks."""

    def __init__(self) -> None:
        self.fenced: list[str] = []
        self.epochs: list[PlayedEpochs] = []
        self.threads = StreamThreads(
            CoordinatorSettings(application="app", fences=True),
            run="r",
            bind="127.0.0.1",
            host="127.0.0.1",
            make_epochs=self._make,
            fence=self._fence,
        )
        self.heard = Heard()
        self.threads.add(0, self.heard, "digest of plan", b"plan")

    def _make(self, function: Callable[[EpochSize], RunThread]) -> PlayedEpochs:
        self.epochs.append(PlayedEpochs(function))
        return self.epochs[-1]

    def _fence(self, tasks: Sequence[str]) -> None:
        self.fenced += tasks

    def start(self, plan: bytes = b"plan", *, tasks: Sequence[str] = ("0_0", "0_1")) -> None:
        self.threads.start(0, f"digest of {plan.decode()}", plan, tasks, paused=False)

    def thread(self, *, process: int = 0) -> PlayedThread:
        """The thread of a new epoch, in a process of that number."""
        return PlayedThread(self.epochs[0].begin(), process)


@pytest.fixture
def world() -> Iterator[World]:
    """The threads of an application, closed after the test."""
    made = World()
    yield made
    made.threads.close()


def in_background(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_start_has_the_query_started_and_its_threads_open_the_tasks(world: World) -> None:
    world.start()
    assert world.epochs[0].starts == 1
    thread = world.thread()
    assert thread.plans == {"digest of plan": b"plan"}
    assigned = thread.awaits(Assign)
    assert [(each.task, each.plan) for each in assigned.tasks] == [("0_0", "digest of plan"), ("0_1", "digest of plan")]
    thread.reports(assigned)
    world.threads.wait_until_open(["0_0", "0_1"], lambda: False)
    assert world.heard.reports == [("0_0", TaskState.RUNNING), ("0_1", TaskState.RUNNING)]


def test_tasks_stand_once_their_thread_says_that_they_are_paused(world: World) -> None:
    world.start()
    thread = world.thread()
    thread.reports(thread.awaits(Assign))
    world.threads.pause(["0_0", "0_1"])
    assert not world.threads.wait_until_paused(["0_0", "0_1"], 0.01)
    assigned = thread.awaits(Assign)
    assert all(each.paused for each in assigned.tasks)
    thread.reports(assigned, TaskState.PAUSED)
    assert world.threads.wait_until_paused(["0_0", "0_1"], LIMIT_S)


def test_the_first_epoch_has_the_plans_of_sub_topologies_that_start_after_it(world: World) -> None:
    """Queries start side by side, and the epoch begins with the first of them."""
    world.threads.add(1, world.heard, "digest of second", b"second")
    world.start()
    thread = world.thread()
    assert thread.plans == {"digest of plan": b"plan", "digest of second": b"second"}
    thread.reports(thread.awaits(Assign))
    world.threads.start(1, "digest of second", b"second", ["1_0"], paused=False)
    assert [each.task for each in thread.awaits(Assign).tasks] == ["0_0", "0_1", "1_0"]


def test_a_plan_that_comes_between_the_begin_of_an_epoch_and_its_threads_ends_it(world: World) -> None:
    world.start()
    made = world.epochs[0].begin()
    world.start(b"other")
    late = PlayedThread(made, 0)
    late.awaits(End)
    late.connection.leave("told to")
    assert [each.plan for each in world.thread().awaits(Assign).tasks] == ["digest of other"] * 2


def test_another_plan_ends_the_epoch_and_the_next_one_has_it(world: World) -> None:
    world.start()
    thread = world.thread()
    thread.reports(thread.awaits(Assign))
    starting = in_background(lambda: world.start(b"other", tasks=["0_0", "0_1", "0_2"]))
    assert thread.awaits(End).reason == "the plan has changed"
    thread.connection.leave("told to")
    starting.join(LIMIT_S)
    assert not starting.is_alive()
    following = world.thread()
    assert following.plans == {"digest of other": b"other"}
    assert [each.task for each in following.awaits(Assign).tasks] == ["0_0", "0_1", "0_2"]
    assert world.epochs[0].starts == 1


def test_an_epoch_that_is_old_ends_and_no_other_task_is_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    thread = world.thread()
    thread.reports(thread.awaits(Assign))
    world.threads.tick()
    monkeypatch.setattr(module, "EPOCH_LIMIT_S", 0.0)
    world.threads.tick()
    assert thread.awaits(End).reason == "its time is over"
    thread.connection.leave("told to")
    assert [each.task for each in world.thread().awaits(Assign).tasks] == ["0_0", "0_1"]
    assert world.fenced == []


def test_the_last_sub_topology_that_stops_ends_the_threads_and_the_query(world: World) -> None:
    world.start()
    thread = world.thread()
    thread.reports(thread.awaits(Assign))
    stopping = in_background(lambda: world.threads.stop(0, LIMIT_S))
    assert thread.awaits(End).reason == "the application stops"
    assert not world.epochs[0].stopped.is_set()
    thread.connection.leave("told to")
    stopping.join(LIMIT_S)
    assert world.epochs[0].stopped.is_set()


def test_a_thread_that_goes_without_a_goodbye_is_fenced_before_another_one_has_its_tasks(world: World) -> None:
    world.start()
    thread = world.thread()
    thread.reports(thread.awaits(Assign))
    world.threads.wait_until_open(["0_0"], lambda: False)
    thread.connection.abandon("killed")
    assert [each.task for each in world.thread(process=1).awaits(Assign).tasks] == ["0_0", "0_1"]
    assert world.fenced == ["0_0", "0_1"]


def test_without_any_thread_and_query_nothing_runs_that_a_barrier_would_wait_for(world: World) -> None:
    world.start()
    world.epochs[0].is_active = False
    assert world.threads.wait_until_paused(["0_0"], LIMIT_S)


def test_whoever_waits_for_tasks_hears_of_a_fence(world: World) -> None:
    world.start()
    world.threads.abandon(DriverFencedError("Driver 2 is there."))
    with pytest.raises(DriverFencedError):
        world.threads.wait_until_open(["0_0"], lambda: False)


def test_a_thread_that_spark_runs_and_that_does_not_connect_is_named_with_the_port_that_it_must_reach(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAUNCHED_S", 0.0)
    world.start()
    made = world.epochs[0].begin(threads=2)
    assert world.threads.reason == f"0 of 2 stream threads have connected to the coordinator at {made.address}"
    world.epochs[0].spark_runs = [LaunchedThread(0, "here", 9.0), LaunchedThread(1, "far.example", 4.9)]
    assert "stream thread 0 on here cannot reach the coordinator" in world.threads.reason
    assert "far.example" not in world.threads.reason, "it has still time"
    thread = PlayedThread(made, 0)
    world.epochs[0].spark_runs = [LaunchedThread(0, "here", 12.0), LaunchedThread(1, "far.example", 7.9)]
    assert [each.task for each in thread.awaits(Assign).tasks] == ["0_0", "0_1"], "they wait for no other thread"
    assert world.threads.reason == ""
    assert f"stream thread 1 on far.example cannot reach the coordinator at {made.address}: let" in (
        world.threads.shortage
    )
    assert "on here" not in world.threads.shortage
    assert (len(world.threads.threads), world.threads.wanted) == (1, 2)


def test_what_never_connected_is_cancelled_with_its_epoch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start()
    thread = world.thread()
    thread.reports(thread.awaits(Assign))
    monkeypatch.setattr(module, "EPOCH_LIMIT_S", 0.0)
    world.threads.tick()
    monkeypatch.undo()
    thread.awaits(End)
    world.threads.tick()
    assert world.epochs[0].ended_rests == [], "a thread commits still"
    thread.connection.leave("told to")
    deadline = time.monotonic() + LIMIT_S
    while not world.epochs[0].ended_rests and time.monotonic() < deadline:
        world.threads.tick()
    assert world.epochs[0].ended_rests == [1]
