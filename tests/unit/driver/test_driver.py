from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from millrace.driver.control_file import ControlFile, read_token
from millrace.driver.driver_options import ExitCode
from millrace.driver.health import HealthReason
from millrace.driver.lifecycle import ApplicationState
from millrace.errors import (
    BrokerUnavailableError,
    OffsetsMovedError,
    OperationError,
    PreflightError,
    ProcessingError,
    TopologyError,
)
from tests.waiting import wait_for

S = ApplicationState
Make = Callable[..., Any]


def test_older_attempts_are_fenced_before_offsets_are_read_and_queries_start_last(
    make_driver: Make, make_query: Make, make_status: Make
) -> None:
    last = make_status(driver_epoch=7, transactional_ids=["app-0_0", "app-9_9"])
    running = make_driver(make_query(1), make_query(0), last=last).start()
    running.wait_for(S.RUNNING)
    assert running.journal[:3] == ["open publisher", "fence", "prepare"]
    assert sorted(running.journal[3:]) == ["start app-0", "start app-1"]
    assert running.fenced_ids == [["app-0_0", "app-9_9"]]
    assert running.previous == [last]
    assert running.publisher.published[-1].driver_epoch == 8


def test_ids_and_offsets_of_the_run_before_are_published_until_they_are_fenced(
    make_driver: Make, make_status: Make
) -> None:
    last = make_status(transactional_ids=["app-9_9"], offsets={"old": {0: 3}}, topic_ids={"old": "u"})
    seen: list[Any] = []
    drivers: list[Any] = []
    drivers.append(make_driver(last=last, hooks={"fence": lambda _: seen.append(drivers[0].publisher.published[-1])}))
    running = drivers[0].start()
    running.wait_for(S.RUNNING)
    assert (seen[0].transactional_ids, seen[0].offsets, seen[0].topic_ids) == (
        ["app-9_9"],
        {"old": {0: 3}},
        {"old": "u"},
    )
    now = running.publisher.published[-1]
    assert (now.transactional_ids, now.offsets, now.topic_ids) == (["app-0_0"], {"in": {0: 5}}, {"in": "uuid"})


def test_a_graceful_stop_waits_for_the_batch_and_publishes_where_it_stopped(
    make_driver: Make, make_query: Make
) -> None:
    query = make_query()
    running = make_driver(query).start()
    running.wait_for(S.RUNNING)
    inside, leave = threading.Event(), threading.Event()

    def batch() -> None:
        with query.lock:
            inside.set()
            leave.wait(5)
            query.batch(positions={("in", 0): 9})

    thread = threading.Thread(target=batch)
    thread.start()
    inside.wait(5)
    running.driver.stop("enough")
    running.wait_for(S.PENDING_SHUTDOWN)
    wait_for(lambda: query.stop_requested)
    assert "stop app-0" not in running.journal
    leave.set()
    assert running.end() is ExitCode.STOPPED
    thread.join()
    assert running.journal[-3:] == ["request stop app-0", "stop app-0", "close publisher"]
    assert running.publisher.states == [S.REBALANCING, S.RUNNING, S.PENDING_SHUTDOWN, S.NOT_RUNNING]
    final = running.publisher.published[-1]
    assert (final.reason, final.offsets) == ("enough", {"in": {0: 9}})


def test_a_batch_that_never_ends_does_not_keep_the_driver_from_stopping(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query, barrier_timeout_s=0.05).start()
    running.wait_for(S.RUNNING)
    leave, inside = threading.Event(), threading.Event()

    def batch() -> None:
        with query.lock:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=batch)
    thread.start()
    inside.wait(5)
    running.driver.stop()
    assert running.end() is ExitCode.STOPPED
    leave.set()
    thread.join()
    assert "app-0 was still inside a batch" in running.publisher.published[-1].reason


def test_a_died_query_starts_again_and_the_state_says_so(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query).start()
    running.wait_for(S.RUNNING)
    query.die(RuntimeError("worker lost"))
    assert query.started.wait(60)
    wait_for(lambda: running.publisher.states == [S.REBALANCING, S.RUNNING, S.REBALANCING, S.RUNNING])
    assert query.starts == 2


def test_while_a_query_is_started_again_the_status_says_what_it_died_of(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query).start()
    running.wait_for(S.RUNNING)
    query.die(
        RuntimeError(
            "Job aborted due to stage failure\nTraceback (most recent call last):\n"
            "millrace.spark.stream_threads.connection.CoordinatorUnreachableError: Worker h/12 cannot reach the "
            "coordinator of app at driver:4711: timed out (tried for 20 s). Remedy: let the workers' hosts connect"
        )
    )
    assert query.started.wait(60)
    wait_for(lambda: running.publisher.states == [S.REBALANCING, S.RUNNING, S.REBALANCING, S.RUNNING])
    reasons = [each.reason for each in running.publisher.published if each.state is S.REBALANCING]
    assert "app-0 is started again after CoordinatorUnreachableError: Worker h/12 cannot reach" in reasons[-1]
    assert "driver:4711" in reasons[-1]


def test_while_queries_start_the_status_says_why_no_process_runs_their_tasks(
    make_driver: Make, make_query: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = make_query()
    going_on, start = threading.Event(), query.start

    def start_slowly() -> None:
        query.progress = replace(query.progress, waits_for="stream thread 0 on h cannot reach the coordinator")
        assert going_on.wait(10)
        query.progress = replace(query.progress, waits_for="")
        start()

    monkeypatch.setattr(query, "start", start_slowly)
    running = make_driver(query, heartbeat_interval_s=0.05).start()
    wait_for(lambda: any("stream thread 0 on h cannot reach" in each.reason for each in running.publisher.published))
    assert running.publisher.states == [S.REBALANCING]
    going_on.set()
    running.wait_for(S.RUNNING)
    wait_for(lambda: running.publisher.published[-1].reason == "")


def test_a_query_that_never_gets_on_ends_the_application_with_its_last_error(
    make_driver: Make, make_query: Make
) -> None:
    query = make_query()
    query.start_errors = [RuntimeError(f"attempt {number}") for number in range(9)]
    running = make_driver(query).start()
    assert running.end() is ExitCode.FAILED
    assert query.starts == 3
    final = running.publisher.published[-1]
    assert final.state is S.ERROR
    assert "app-0 died and made no progress in 2 restarts; last: RuntimeError: attempt 2" in final.reason
    assert final.remedy
    assert running.publisher.states[-2:] == [S.PENDING_ERROR, S.ERROR]


def test_a_query_is_started_again_until_a_broker_answers(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    query.start_errors = [BrokerUnavailableError("No broker answered.") for _ in range(9)]
    running = make_driver(query).start()
    running.wait_for(S.RUNNING)
    assert query.starts == 10
    running.driver.stop("enough")
    assert running.end() is ExitCode.STOPPED


def test_an_error_that_a_restart_would_repeat_ends_the_application_at_once(make_driver: Make, make_query: Make) -> None:
    query, other = make_query(0), make_query(1)
    running = make_driver(query, other).start()
    running.wait_for(S.RUNNING)
    failure = RuntimeError("query terminated")
    failure.__cause__ = ProcessingError("task 0_0: user code raised", remedy="correct it")
    query.die(failure)
    assert running.end() is ExitCode.FAILED
    final = running.publisher.published[-1]
    assert (final.reason, final.remedy) == ("task 0_0: user code raised", "correct it")
    assert query.starts == 1
    assert "stop app-1" in running.journal


def test_an_idle_driver_learns_of_its_fence_from_its_own_heartbeat(make_driver: Make) -> None:
    running = make_driver().start()
    running.wait_for(S.RUNNING)
    running.publisher.fenced = True
    assert running.end() is ExitCode.FENCED


def test_heartbeats_come_without_batches(make_driver: Make) -> None:
    running = make_driver().start()
    running.wait_for(S.RUNNING)
    before = len(running.publisher.published)
    wait_for(lambda: len(running.publisher.published) > before + 3)


def test_a_broker_that_is_away_at_a_heartbeat_ends_nothing(make_driver: Make) -> None:
    broken = threading.Event()
    calls: list[int] = []

    def end_offsets(_: Any) -> dict[Any, int]:
        calls.append(1)
        if broken.is_set():
            raise BrokerUnavailableError("no answer")
        return {("in", 0): 8}

    running = make_driver(hooks={"end_offsets": end_offsets}).start()
    running.wait_for(S.RUNNING)
    wait_for(lambda: running.publisher.published[-1].lag == {"in": {0: 3}})
    broken.set()
    seen = len(calls)
    wait_for(lambda: len(calls) > seen + 3)
    assert running.driver.lifecycle.state is S.RUNNING


def test_a_live_member_of_the_group_is_refused_at_the_start_before_anything_is_fenced(make_driver: Make) -> None:
    running = make_driver(hooks={"live_members": lambda: ["console-consumer on /10.0.0.1"]}).start()
    assert running.end() is ExitCode.FAILED
    assert "fence" not in running.journal
    final = running.publisher.published[-1]
    assert final.state is S.ERROR
    assert "console-consumer on /10.0.0.1" in final.reason


def test_a_live_member_that_comes_later_ends_the_application(make_driver: Make) -> None:
    members: list[str] = []
    running = make_driver(hooks={"live_members": lambda: members}).start()
    running.wait_for(S.RUNNING)
    members.append("java-client")
    assert running.end() is ExitCode.FAILED
    assert "java-client" in running.publisher.published[-1].reason


@pytest.mark.parametrize("step", ["preflight", "live_members", "fence", "prepare", "warm_up"])
def test_a_start_waits_for_a_broker_that_does_not_answer_and_says_so(make_driver: Make, step: str) -> None:
    overloaded = threading.Event()
    overloaded.set()
    running = make_driver()
    answer = getattr(running.driver._hooks, step)

    def ask(*arguments: Any) -> Any:
        if overloaded.is_set():
            raise BrokerUnavailableError("No broker answered.", remedy="start it")
        return answer(*arguments)

    running.driver._hooks = replace(running.driver._hooks, **{step: ask})
    running.start()
    wait_for(lambda: "waiting for the broker: No broker answered." in running.driver.status().reason)
    assert running.driver.status().remedy == "start it"
    overloaded.clear()
    running.wait_for(S.RUNNING)
    assert running.driver.status().reason == ""


def test_a_start_gives_up_at_the_limit_with_what_the_last_request_met(make_driver: Make) -> None:
    def preflight() -> None:
        raise BrokerUnavailableError("No broker answered.")

    running = make_driver(hooks={"preflight": preflight}, broker_timeout_s=0.3).start()
    assert running.end() is ExitCode.FAILED
    assert running.driver.status().reason == "No broker answered."


def test_a_start_that_waits_for_the_broker_can_be_stopped(make_driver: Make) -> None:
    def preflight() -> None:
        raise BrokerUnavailableError("No broker answered.")

    running = make_driver(hooks={"preflight": preflight}).start()
    wait_for(lambda: "waiting for the broker" in running.driver.status().reason)
    running.driver.stop("no need")
    assert running.end() is ExitCode.STOPPED
    assert running.driver.status().reason == "no need"


def test_a_failed_preflight_leaves_a_healthy_older_driver_alone(make_driver: Make, make_status: Make) -> None:
    def preflight() -> None:
        raise PreflightError("topic in is missing", remedy="create it")

    healthy = make_status(updated_at=time.time(), started_at=time.time())
    running = make_driver(last=healthy, hooks={"preflight": preflight}).start()
    assert running.end() is ExitCode.FAILED
    assert "open publisher" not in running.journal
    assert running.publisher.published == []
    assert running.driver.status().reason == "topic in is missing"


def test_a_refused_topology_does_not_take_the_place_of_the_one_that_has_the_state(
    make_driver: Make, make_status: Make
) -> None:
    """Otherwise the next start, of the right topology, would be compared with the refused one."""

    def refuse(_: object) -> None:
        raise TopologyError("It does not fit.", remedy="give the stores their names back")

    last = make_status(topology_fingerprint="old", topology_summary={"stores": {}})
    running = make_driver(last=last, hooks={"prepare": refuse}).start()
    assert running.end() is ExitCode.FAILED
    published = running.publisher.published
    assert published[-1].state is ApplicationState.ERROR
    assert {(each.topology_fingerprint, str(each.topology_summary)) for each in published} == {
        ("old", "{'stores': {}}")
    }

    first = make_driver(hooks={"prepare": refuse}).start()
    assert first.end() is ExitCode.FAILED
    assert {each.topology_fingerprint for each in first.publisher.published} == {""}


def test_a_failed_preflight_is_published_where_no_driver_lives_and_keeps_what_the_last_one_left(
    make_driver: Make, make_status: Make
) -> None:
    def preflight() -> None:
        raise PreflightError("topic in is missing", remedy="create it")

    dead = make_status(updated_at=1.0, offsets={"in": {0: 4}}, transactional_ids=["app-0_0"])
    running = make_driver(last=dead, hooks={"preflight": preflight}).start()
    assert running.end() is ExitCode.FAILED
    final = running.publisher.published[-1]
    assert (final.state, final.reason, final.remedy) == (S.ERROR, "topic in is missing", "create it")
    assert (final.offsets, final.transactional_ids) == ({"in": {0: 4}}, ["app-0_0"])


def test_offsets_that_somebody_moved_end_the_start(make_driver: Make) -> None:
    def prepare(_: Any) -> Any:
        raise OffsetsMovedError("in-0 was moved to 3", remedy="reset it with the tool")

    running = make_driver(hooks={"prepare": prepare}).start()
    assert running.end() is ExitCode.FAILED
    assert running.publisher.published[-1].reason == "in-0 was moved to 3"


def test_a_programming_error_is_an_error_state_and_not_a_hang(make_driver: Make) -> None:
    def warm_up() -> None:
        raise KeyError("x")

    running = make_driver(hooks={"warm_up": warm_up}).start()
    assert running.end() is ExitCode.FAILED
    assert "KeyError" in running.publisher.published[-1].reason


def test_idle_queries_tick_and_busy_ones_do_not(make_driver: Make, make_query: Make) -> None:
    idle, busy = make_query(0), make_query(1)
    with busy.lock:
        running = make_driver(idle, busy, tick_interval_s=0.02).start()
        running.wait_for(S.RUNNING)
        wait_for(lambda: idle.ticks >= 3)
        assert busy.ticks == 0
    wait_for(lambda: busy.ticks >= 1)


def test_a_query_with_punctuations_ticks_when_they_are_due(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    query.next_tick_s = 0.0
    make_driver(query, tick_interval_s=60).start()
    wait_for(lambda: query.ticks >= 3)


def test_a_tick_that_fails_starts_its_query_again(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    query.tick_errors = [RuntimeError("transaction aborted")]
    running = make_driver(query, tick_interval_s=0.02).start()
    wait_for(lambda: query.starts == 2)
    running.wait_for(S.RUNNING)
    wait_for(lambda: query.ticks >= 2)


def test_pause_waits_for_the_batch_and_shows_while_running(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query).start()
    running.wait_for(S.RUNNING)
    running.driver.pause()
    assert query.paused
    assert running.driver.health().reason is HealthReason.PAUSED
    assert running.publisher.published[-1].paused
    assert running.driver.lifecycle.state is S.RUNNING
    running.driver.resume()
    assert not query.paused
    assert running.driver.health().reason is HealthReason.WORKING
    assert not running.publisher.published[-1].paused


def test_a_pause_that_a_batch_outlasts_says_so_and_stays_in_force(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query, barrier_timeout_s=0.05).start()
    running.wait_for(S.RUNNING)
    inside, leave = threading.Event(), threading.Event()

    def batch() -> None:
        with query.lock:
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=batch)
    thread.start()
    inside.wait(5)
    with pytest.raises(OperationError, match="still inside a batch"):
        running.driver.pause()
    leave.set()
    thread.join()
    assert query.paused


def test_a_pause_before_the_queries_exist_holds_them_from_their_start(make_driver: Make, make_query: Make) -> None:
    reached, go = threading.Event(), threading.Event()

    def fence(_: Any) -> None:
        reached.set()
        go.wait(5)

    query = make_query()
    running = make_driver(query, hooks={"fence": fence}).start()
    reached.wait(5)
    running.driver.pause()
    go.set()
    running.wait_for(S.RUNNING)
    assert query.paused


def test_lag_that_a_pause_made_counts_from_its_end(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    running = make_driver(query, hooks={"end_offsets": lambda _: {("in", 0): 50}}).start()
    running.wait_for(S.RUNNING)
    wait_for(lambda: running.driver.status().progress[0].lag == 45)
    running.driver.pause()
    resumed_at = time.time()
    running.driver.resume()
    assert running.driver.status().progress[0].lag_since >= resumed_at


def test_restoring_tasks_keep_the_application_from_running(make_driver: Make, make_query: Make) -> None:
    query = make_query()
    query.batch(restore_remaining={"0_0": 100})
    running = make_driver(query).start()
    assert query.started.wait(60)
    assert not running.driver.lifecycle.wait_for(S.RUNNING, timeout_s=0.2)
    query.batch(restore_remaining={"0_0": 0})
    running.wait_for(S.RUNNING)


def test_the_control_file_leads_to_the_control_plane_and_is_gone_at_the_end(make_driver: Make) -> None:
    running = make_driver(hooks={"describe": lambda: "Topologies:", "metrics": lambda: b"up 1.0\n"}).start()
    running.wait_for(S.RUNNING)
    control = ControlFile.read(running.control_file)
    assert httpx.get(f"{control.address}/health/ready").status_code == 200
    assert httpx.get(f"{control.address}/metrics").content == b"up 1.0\n"
    assert httpx.get(f"{control.address}/status").json()["control_address"] == control.address
    assert httpx.post(f"{control.address}/stop").status_code == 401
    token = read_token(Path(control.token_file))
    answer = httpx.post(f"{control.address}/stop", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 202
    assert running.end() is ExitCode.STOPPED
    assert not running.control_file.exists()


def test_a_token_file_that_is_missing_is_an_error_before_anything_starts(make_driver: Make, tmp_path: Path) -> None:
    running = make_driver(token_file=tmp_path / "none").start()
    assert running.end() is ExitCode.FAILED
    assert "prepare" not in running.journal
    assert "cannot be read" in running.publisher.published[-1].reason


def test_a_stop_during_the_start_starts_no_query(make_driver: Make, make_query: Make) -> None:
    reached, go = threading.Event(), threading.Event()

    def warm_up() -> None:
        reached.set()
        go.wait(5)

    query = make_query()
    running = make_driver(query, hooks={"warm_up": warm_up}).start()
    reached.wait(5)
    running.driver.stop()
    go.set()
    assert running.end() is ExitCode.STOPPED
    assert query.starts == 0
    assert running.publisher.published[-1].state is S.NOT_RUNNING


def test_queries_start_side_by_side_so_that_one_restore_does_not_wait_for_another(
    make_driver: Make, make_query: Make
) -> None:
    first, second = make_query(0), make_query(1)
    meeting = threading.Barrier(2, timeout=5)
    for query in (first, second):
        original = query.start

        def start(original: Callable[[], None] = original) -> None:
            meeting.wait()
            original()

        query.start = start
    running = make_driver(first, second).start()
    running.wait_for(S.RUNNING)


def test_a_query_whose_engine_is_gone_counts_as_dead(make_driver: Make, make_query: Make) -> None:
    restarted: list[int] = []
    query = make_query(3)

    class Gone(type(query)):  # type: ignore[misc]
        @property
        def is_active(self) -> bool:
            if self.starts:
                raise ConnectionError("the JVM is gone")
            return False

        @is_active.setter
        def is_active(self, _: bool) -> None: ...

    query.__class__ = Gone
    running = make_driver(query, hooks={"on_restart": restarted.append}).start()
    assert running.end() is ExitCode.FAILED
    assert restarted == [3, 3]
    assert running.driver.lifecycle.state is S.ERROR


def test_a_heartbeat_tells_when_the_broker_answered_and_both_ends_of_the_input(make_driver: Make) -> None:
    """The topic has the ends where they differ: a status of thousands of partitions must fit into a record."""
    gone = threading.Event()

    def end_offsets(_: Any) -> dict[Any, int]:
        if gone.is_set():
            raise BrokerUnavailableError("no answer")
        return {("in", 0): 5, ("in", 1): 9}

    running = make_driver(
        hooks={"end_offsets": end_offsets, "high_watermarks": lambda _: {("in", 0): 8, ("in", 1): 9}}
    ).start()
    running.wait_for(S.RUNNING)
    wait_for(lambda: running.driver.status().lag_at is not None)
    status = running.driver.status()
    assert status.lag == {"in": {0: 0}}
    assert {number: end.high_watermark for number, end in status.input_ends["in"].items()} == {0: 8, 1: 9}
    assert list(status.held_back) == [("in", 0)]
    wait_for(lambda: set(running.publisher.published[-1].input_ends.get("in", {})) == {0})

    def silent(_: Any) -> None:
        raise BrokerUnavailableError("no answer")

    gone.set()
    running.publisher.publish = silent
    wait_for(lambda: time.time() - (running.driver.status().lag_at or 0.0) > 0.2)
    later = running.driver.status()
    assert later.lag == {"in": {0: 0}}, "as it was last known"
    assert later.updated_at > (later.lag_at or 0.0), "the driver lives and says that it does not know better"
