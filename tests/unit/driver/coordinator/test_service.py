from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from millrace.driver.coordinator.coordinator import CoordinatorSettings
from millrace.driver.coordinator.service import CoordinatorService
from millrace.errors import BrokerUnavailableError, OperationError, StateError
from millrace.processes import ProcessIdentity
from millrace.spark.stream_threads.connection import CoordinatorConnection
from millrace.spark.stream_threads.messages import (
    Act,
    Answer,
    Assign,
    CommitNow,
    Failed,
    Hello,
    Report,
    TaskReport,
    TaskState,
    ThreadTiming,
)
from millrace.spark.stream_threads.problems import problem_of
from millrace.task.actions import LinkDatabase
from tests.waiting import eventually

LIMIT_S = 10.0


class Listener:
    def __init__(self) -> None:
        self.reports: queue.SimpleQueue[tuple[Hello, Report]] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[tuple[str, Exception]] = queue.SimpleQueue()

    def heard(self, hello, report):
        self.reports.put((hello, report))

    def task_failed(self, task, error):
        self.failures.put((task, error))


class Broker:
    """Takes transactional ids over, when it is told to."""

    def __init__(self) -> None:
        self.fenced: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
        self.errors: list[Exception] = []
        self.may_fence = threading.Event()
        self.may_fence.set()

    def fence(self, tasks: Sequence[str]) -> None:
        assert self.may_fence.wait(LIMIT_S)
        if self.errors:
            raise self.errors.pop()
        self.fenced.put(tasks)


class Thread:
    """A stream thread that does what it is told, when it is told to look."""

    def __init__(
        self, service: CoordinatorService, epoch: int, slot: int, *, process: ProcessIdentity | None = None
    ) -> None:
        host, pid, start = "elsewhere", 1000 + slot, 1
        if process is not None:
            host, pid, start = socket.gethostname(), process.pid, process.start_time
        self.hello = Hello("app", "7", epoch, slot, 0, host, pid, start, 1.0)
        self.connection = CoordinatorConnection(service.address, service.token, self.hello)
        self.generation = 0
        self.sequence = 0
        self.tasks: dict[str, TaskState] = {}

    def take(self, kind: type[Any]) -> Any:
        """The next message of a kind, with assignments followed and reported on the way."""
        while True:
            message = self.connection.take(LIMIT_S)
            if isinstance(message, Assign):
                self.generation = message.generation
                self.tasks = {
                    each.task: TaskState.PAUSED if each.paused else TaskState.RUNNING for each in message.tasks
                }
                self.report()
            if isinstance(message, kind):
                return message
            assert message is not None, f"no {kind.__name__}"

    def report(self, **timing: Any) -> None:
        self.sequence += 1
        self.connection.send(
            Report(
                self.sequence,
                self.generation,
                tuple(TaskReport(task, state) for task, state in self.tasks.items()),
                timing=ThreadTiming(**timing),
            )
        )


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def listener() -> Listener:
    return Listener()


def service_of(broker: Broker, listener: Listener, *, fences: bool = True) -> CoordinatorService:
    return CoordinatorService(
        CoordinatorSettings(application="app", fences=fences, join_wait_s=0.0),
        bind="127.0.0.1",
        host="127.0.0.1",
        run="7",
        fence=broker.fence,
        listener=listener,
    )


@pytest.fixture
def service(broker, listener) -> Iterator[CoordinatorService]:
    made = service_of(broker, listener)
    yield made
    made.close()


def begin(service: CoordinatorService, *tasks: str) -> Thread:
    service.add_tasks(dict.fromkeys(tasks, "plan"))
    thread = Thread(service, service.begin_epoch(1), 0)
    thread.take(Assign)
    service.wait_until_open(tasks, timeout_s=LIMIT_S)
    return thread


def test_a_thread_gets_its_tasks_and_its_reports_are_heard(service, listener):
    thread = begin(service, "0_0", "0_1")
    hello, report = listener.reports.get(timeout=LIMIT_S)
    assert hello == thread.hello
    assert sorted(each.task for each in report.tasks) == ["0_0", "0_1"]
    assert [each.tasks for each in service.threads()] == [("0_0", "0_1")]


def test_it_says_where_threads_must_connect_to(service):
    service.add_tasks({"0_0": "plan"})
    service.begin_epoch(2)
    assert service.reason == f"0 of 2 stream threads have connected to the coordinator at {service.address}"


def test_a_thread_that_breaks_off_is_fenced_before_another_one_has_its_tasks(service, broker):
    first = begin(service, "0_0")
    broker.may_fence.clear()
    first.connection.abandon("killed")
    eventually(lambda: bool(service.reason), expected=True)
    second = Thread(service, first.hello.epoch, 1)
    with pytest.raises(OperationError, match="task 0_0 waits until its transactional id is"):
        service.wait_until_open(["0_0"], timeout_s=0.3)
    broker.may_fence.set()
    second.take(Assign)
    assert broker.fenced.get(timeout=LIMIT_S) == ("0_0",)
    assert second.tasks.keys() == {"0_0"}


def test_a_fence_that_the_broker_does_not_grant_is_tried_again(service, broker):
    first = begin(service, "0_0")
    broker.errors += [BrokerUnavailableError("no broker answers"), ValueError("not ours")]
    first.connection.abandon("killed")
    assert broker.fenced.get(timeout=LIMIT_S) == ("0_0",)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def begin_with(service: CoordinatorService, process: subprocess.Popen[bytes]) -> tuple[Thread, Thread]:
    """A thread in a process of this host, which has the task ``0_0``, and one on another host, which has none."""
    service.add_tasks({"0_0": "plan"})
    epoch = service.begin_epoch(2)
    first = Thread(service, epoch, 0, process=ProcessIdentity.of_child(process))
    first.take(Assign)
    return first, Thread(service, epoch, 1)


def test_a_killed_process_of_this_host_is_known_to_be_gone(broker, listener, sleeper):
    service = service_of(broker, listener, fences=False)
    first, second = begin_with(service, sleeper)
    first.connection.abandon("cut off")
    eventually(lambda: bool(service.reason), expected=True)
    with pytest.raises(OperationError, match="its process, or its lease, has ended"):
        service.wait_until_open(["0_0"], timeout_s=0.7)
    sleeper.kill()
    assert second.take(Assign).tasks[0].task == "0_0"
    service.close()


def test_tasks_of_a_killed_process_of_this_host_wait_for_no_fence(service, broker, sleeper):
    broker.may_fence.clear()
    first, second = begin_with(service, sleeper)
    sleeper.kill()
    first.connection.abandon("killed")
    second.take(Assign)
    assert second.tasks.keys() == {"0_0"}
    assert broker.fenced.empty()


def test_tasks_of_a_living_process_of_this_host_are_fenced(service, broker, sleeper):
    first, second = begin_with(service, sleeper)
    first.connection.abandon("cut off")
    second.take(Assign)
    assert second.tasks.keys() == {"0_0"}
    assert broker.fenced.get(timeout=LIMIT_S) == ("0_0",)


def test_tasks_are_paused_once_their_threads_say_so(service):
    thread = begin(service, "0_0")
    service.set_paused(["0_0"], paused=True)
    with pytest.raises(OperationError, match="0_0 have not stopped behind a commit"):
        service.wait_until_paused(["0_0"], timeout_s=0.05)
    thread.take(Assign)
    service.wait_until_paused(["0_0"], timeout_s=LIMIT_S)


def test_a_named_action_is_done_by_the_thread_and_its_answer_comes_back(service):
    thread = begin(service, "0_0")

    def answer() -> None:
        act = thread.take(Act)
        assert (act.action, act.arguments) == ("link-database", {"directory": "/copies"})
        thread.connection.send(Answer(act.command, {task: {"host": "h"} for task in act.tasks}))

    helper = threading.Thread(target=answer)
    helper.start()
    assert service.act(LinkDatabase(Path("/copies")), ["0_0"], timeout_s=LIMIT_S) == {"0_0": {"host": "h"}}
    helper.join()


def test_a_thread_that_goes_away_during_an_action_is_not_waited_for(service):
    thread = begin(service, "0_0")

    def go() -> None:
        thread.take(CommitNow)
        thread.connection.abandon("killed")

    helper = threading.Thread(target=go)
    helper.start()
    with pytest.raises(OperationError, match="went away"):
        service.commit_now(["0_0"], timeout_s=LIMIT_S)
    helper.join()


def test_an_answer_that_does_not_come_is_named_with_its_task(service):
    begin(service, "0_0")
    with pytest.raises(OperationError, match=r"Tasks 0_0 have not answered within 0\.05 s"):
        service.commit_now(["0_0"], timeout_s=0.05)


def test_a_task_that_failed_is_told_with_the_error_that_it_met(service, listener):
    thread = begin(service, "0_0")
    thread.tasks.clear()
    thread.connection.send(Failed("0_0", thread.generation, problem_of(StateError("0_0 is behind", remedy="restore"))))
    task, error = listener.failures.get(timeout=LIMIT_S)
    assert (task, type(error), error.remedy) == ("0_0", StateError, "restore")


def test_threads_leave_at_the_end_of_an_epoch(service):
    thread = begin(service, "0_0")
    service.end_epoch("an hour is over")
    with pytest.raises(OperationError, match="are still connected"):
        service.wait_until_all_left(timeout_s=0.05)
    thread.connection.leave("an hour is over")
    service.wait_until_all_left(timeout_s=LIMIT_S)
    service.remove_tasks(["0_0"])
    service.wait_until_handed_over(["0_0"], timeout_s=LIMIT_S)


def test_it_knows_what_threads_spend_their_time_on(service, listener):
    thread = begin(service, "0_0")
    thread.report(poll_s=1.0, process_s=2.0, commit_s=1.0, idle_s=4.0, commits=4, commit_latency_s=0.2)
    while listener.reports.get(timeout=LIMIT_S)[1].timing.commits != 4:
        pass
    (status,) = service.threads()
    assert (status.poll, status.process, status.commit, status.idle) == (0.125, 0.25, 0.125, 0.5)
    assert status.commit_latency_s == pytest.approx(0.05)
    assert status.commits_per_s > 0


def test_after_the_end_nobody_waits(service):
    begin(service, "0_0")
    failed: queue.SimpleQueue[Exception] = queue.SimpleQueue()

    def wait() -> None:
        try:
            service.commit_now(["0_0"], timeout_s=600)
        except OperationError as error:
            failed.put(error)

    helper = threading.Thread(target=wait)
    helper.start()
    service.close()
    helper.join(LIMIT_S)
    assert "0_0" in str(failed.get(timeout=LIMIT_S))
