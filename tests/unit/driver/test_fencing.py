"""What a driver does, and leaves alone, once a newer one has taken over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from millrace.driver.driver_options import ExitCode
from millrace.driver.ending import Ending
from millrace.driver.lifecycle import ApplicationState
from millrace.errors import BrokerUnavailableError, DriverFencedError, OffsetsMovedError, ProcessingError, StateError
from tests.waiting import wait_for

S = ApplicationState
Make = Callable[..., Any]


def recorded(done: list[str]) -> Callable[..., dict[str, object]]:
    """An operation that only says that it was done."""

    def operation(*_: object) -> dict[str, object]:
        done.append("savepoint")
        return {}

    return operation


def ending_of(running: Any) -> Ending:
    found = Ending.read(running.control_file.with_name("ended.json"))
    assert found is not None
    return found


def test_a_fenced_driver_abandons_its_queries_and_waits_for_no_batch(make_driver: Make, make_query: Make) -> None:
    """While it waited for the batch, Spark tried its tasks again, which took ids back from the newer driver."""
    query = make_query()
    running = make_driver(query, barrier_timeout_s=60, stop_timeout_s=60).start()
    running.wait_for(S.RUNNING)
    leave, inside = threading.Event(), threading.Event()

    def batch() -> None:
        with query.lock:
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=batch)
    thread.start()
    inside.wait(5)
    running.publisher.fenced = True
    began = time.monotonic()
    with pytest.raises(DriverFencedError):
        running.driver.heartbeat_now()
    assert query.abandoned is not None
    assert running.end() is ExitCode.FENCED
    assert time.monotonic() - began < 2
    leave.set()
    thread.join()
    assert "stop app-0" not in running.journal
    assert running.driver.lifecycle.state is S.ERROR
    assert "fenced by a newer driver" in running.driver.status().reason


def test_a_fenced_driver_publishes_nothing_more(make_driver: Make) -> None:
    running = make_driver().start()
    running.wait_for(S.RUNNING)
    running.driver.fail(DriverFencedError("Task 0_0 found driver 2."))
    published = len(running.publisher.published)
    assert running.end() is ExitCode.FENCED
    # One that was under way when the fence became known.
    assert len(running.publisher.published) <= published + 1
    assert S.ERROR not in running.publisher.states


def test_jobs_are_cancelled_again_and_again_since_a_thread_may_be_about_to_launch_one(make_driver: Make) -> None:
    cancelled: list[float] = []
    running = make_driver(hooks={"cancel_jobs": lambda: cancelled.append(time.monotonic())}, fenced_limit_s=5).start()
    running.wait_for(S.RUNNING)
    running.publisher.fenced = True
    assert running.end() is ExitCode.FENCED
    wait_for(lambda: len(cancelled) >= 3)


def test_a_session_that_cannot_cancel_does_not_keep_a_fenced_driver(make_driver: Make) -> None:
    def cancel() -> None:
        raise ConnectionError("the virtual machine is gone")

    running = make_driver(hooks={"cancel_jobs": cancel}).start()
    running.wait_for(S.RUNNING)
    running.publisher.fenced = True
    assert running.end() is ExitCode.FENCED


def test_a_fenced_process_ends_in_time_whatever_its_threads_wait_for(make_driver: Make) -> None:
    hangs, ended = threading.Event(), threading.Event()
    codes: list[int] = []

    def prepare(_: object) -> Any:
        hangs.wait(30)
        raise AssertionError("nothing comes after it")

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    running = make_driver(hooks={"prepare": prepare, "end_process": end}, fenced_limit_s=0.3).start()
    wait_for(lambda: running.journal[-1:] == ["fence"])
    running.publisher.fenced = True
    assert ended.wait(60)
    assert codes == [ExitCode.FENCED]
    assert "fenced by a newer driver" in ending_of(running).reason, "the reason is written before the process ends"
    hangs.set()
    assert running.end() is ExitCode.FENCED


def test_a_driver_that_was_replaced_during_its_start_fences_nobody(make_driver: Make) -> None:
    """It slept after it had its number: the ids that it was about to take over are those of its successor."""
    running = make_driver()
    before = running.publisher.open

    def open_and_sleep() -> Any:
        last = before()
        running.publisher.fenced = True
        return last

    running.publisher.open = open_and_sleep
    running.start()
    assert running.end() is ExitCode.FENCED
    assert running.fenced_ids == []
    assert "prepare" not in running.journal


def test_a_driver_that_was_replaced_while_it_fenced_prepares_nothing(make_driver: Make) -> None:
    drivers: list[Any] = []

    def fence(_: object) -> None:
        drivers[0].publisher.fenced = True

    drivers.append(make_driver(hooks={"fence": fence}))
    drivers[0].start()
    assert drivers[0].end() is ExitCode.FENCED
    assert "prepare" not in drivers[0].journal


def test_a_driver_that_was_replaced_while_it_prepared_starts_no_query(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query)
    prepare = running.driver._hooks.prepare

    def slept(last: Any) -> Any:
        prepared = prepare(last)
        running.driver.fail(DriverFencedError("Driver 1 of app was fenced by a newer driver: 2."))
        return prepared

    object.__setattr__(running.driver._hooks, "prepare", slept)
    running.start()
    assert running.end() is ExitCode.FENCED
    assert query.starts == 0


def test_commands_to_a_fenced_driver_are_refused(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    done: list[str] = []
    running = make_driver(query, hooks={"operations": {"savepoint": recorded(done)}}).start()
    running.wait_for(S.RUNNING)
    running.driver.fail(DriverFencedError("fenced"))
    for command in (
        running.driver.pause,
        running.driver.resume,
        lambda: running.driver.operate("savepoint", {}),
        running.driver.before_batch,
        running.driver.confirm_newest,
    ):
        with pytest.raises(DriverFencedError):
            command()
    assert done == []
    assert not query.paused


def test_an_operation_begins_only_in_the_newest_driver(make_driver: Make) -> None:
    """One that slept and does not know yet would answer with the state of the past."""
    done: list[str] = []
    running = make_driver(hooks={"operations": {"savepoint": recorded(done)}}, heartbeat_interval_s=60.0).start()
    running.wait_for(S.RUNNING)
    running.publisher.fenced = True
    with pytest.raises(DriverFencedError):
        running.driver.operate("savepoint", {})
    assert done == []
    assert running.end() is ExitCode.FENCED


def test_what_a_task_has_found_ends_the_driver_at_once(make_driver: Make, make_query: Make) -> None:
    query, other = make_query(0), make_query(1)
    running = make_driver(query, other).start()
    running.wait_for(S.RUNNING)
    query.die(DriverFencedError("Driver 1 of app was fenced by a newer driver: 2, as task 0_0 found."))
    assert running.end() is ExitCode.FENCED
    assert other.abandoned is not None
    assert "as task 0_0 found" in ending_of(running).reason


@pytest.mark.parametrize(
    "consequence",
    [
        StateError("Changelog topics of app were deleted.", remedy="reset the application"),
        OffsetsMovedError("Another client committed.", remedy="reset the application"),
    ],
)
def test_what_a_successor_has_done_is_not_taken_for_damage(make_driver: Make, consequence: Exception) -> None:
    running = make_driver(heartbeat_interval_s=0.05)
    found = threading.Event()

    def watch() -> None:
        if found.is_set():
            running.publisher.fenced = True
            raise consequence

    object.__setattr__(running.driver._hooks, "watch", watch)
    running.start()
    running.wait_for(S.RUNNING)
    found.set()
    assert running.end() is ExitCode.FENCED
    end = ending_of(running)
    assert end.exit_code == ExitCode.FENCED
    assert "reset" not in end.reason + end.remedy


def test_a_failure_is_said_although_nobody_can_be_asked_for_a_newer_driver(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query, heartbeat_interval_s=60.0).start()
    running.wait_for(S.RUNNING)

    def publish(_: object) -> None:
        raise BrokerUnavailableError("No broker answered.")

    running.publisher.publish = publish
    query.die(ProcessingError("user code raised", remedy="correct it"))
    assert running.end() is ExitCode.FAILED
    assert ending_of(running).reason == "user code raised"


def test_a_fence_counts_more_than_a_failure_before_it(make_driver: Make) -> None:
    running = make_driver()
    running.driver.fail(RuntimeError("a job was cancelled"))
    running.driver.fail(DriverFencedError("fenced by 2"))
    running.start()
    assert running.end() is ExitCode.FENCED


def test_a_graceful_stop_that_meets_a_newer_driver_ends_as_fenced(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query, heartbeat_interval_s=60.0).start()
    running.wait_for(S.RUNNING)
    running.publisher.fenced = True
    running.driver.stop("enough")
    assert running.end() is ExitCode.FENCED
    assert query.abandoned is not None


def test_how_a_driver_ended_outlives_its_process(make_driver: Make, make_query: Make) -> None:
    stopped = make_driver().start()
    stopped.wait_for(S.RUNNING)
    assert Ending.read(stopped.control_file.with_name("ended.json")) is None
    stopped.driver.stop("enough")
    stopped.end()
    end = ending_of(stopped)
    assert (end.exit_code, end.reason) == (ExitCode.STOPPED, "enough")

    query = make_query()
    failed = make_driver(query).start()
    failed.wait_for(S.RUNNING)
    assert Ending.read(failed.control_file.with_name("ended.json")) is None, "that of an earlier driver is removed"
    query.die(ProcessingError("user code raised", remedy="correct it"))
    failed.end()
    end = ending_of(failed)
    assert (end.exit_code, end.reason, end.remedy) == (ExitCode.FAILED, "user code raised", "correct it")
