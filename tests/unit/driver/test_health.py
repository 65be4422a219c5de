from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.driver.health import HealthLimits, HealthReason, assess
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import InputEnd, SubTopologyStatus

S = ApplicationState
R = HealthReason
LIMITS = HealthLimits(heartbeat_s=10, progress_s=60, start_s=100)


def behind(**changes: Any) -> dict[int, SubTopologyStatus]:
    fields = {"active": True, "lag": 7, "lag_since": 1000.0, "last_progress_at": 1000.0, "batches": 3, **changes}
    return {2: SubTopologyStatus(**fields)}


@pytest.mark.parametrize(
    ("changes", "age", "alive", "ready", "reason"),
    [
        ({}, 1, True, True, R.WORKING),
        ({"state": S.REBALANCING}, 1, True, False, R.STARTING),
        ({"state": S.CREATED}, 1, True, False, R.STARTING),
        ({"state": S.PENDING_SHUTDOWN}, 1, True, False, R.STOPPING),
        ({"state": S.PENDING_ERROR}, 1, True, False, R.STOPPING),
        ({"state": S.NOT_RUNNING}, 1, False, False, R.STOPPED),
        ({"state": S.NOT_RUNNING}, 99, False, False, R.STOPPED),
        ({"state": S.ERROR}, 1, False, False, R.FAILED),
        ({"paused": True}, 1, True, False, R.PAUSED),
        ({}, 10, True, True, R.WORKING),
        ({}, 11, False, False, R.HEARTBEAT_OVERDUE),
        ({"heartbeat_interval_ms": 10_000}, 29, True, True, R.WORKING),
        ({"heartbeat_interval_ms": 10_000}, 31, False, False, R.HEARTBEAT_OVERDUE),
    ],
)
def test_the_state_and_the_heartbeat_decide(
    make_status: Callable[..., Any], changes: dict[str, Any], age: float, alive: bool, ready: bool, reason: R
) -> None:
    health = assess(make_status(**changes), now=1000 + age, limits=LIMITS)
    assert (health.alive, health.ready, health.reason) == (alive, ready, reason)
    assert health.text


def test_lag_without_progress_for_longer_than_the_limit_is_unhealthy(make_status: Callable[..., Any]) -> None:
    status = make_status(progress=behind(), updated_at=1061.0)
    health = assess(status, now=1061, limits=LIMITS)
    assert (health.alive, health.reason) == (False, R.NO_PROGRESS)
    assert "sub-topology 2 is 7 records behind and has made no progress for 61 s" in health.text


@pytest.mark.parametrize(
    "changes",
    [
        {"lag_since": None, "lag": 0},
        {"last_progress_at": 1010.0},
        {"lag_since": 1010.0, "last_progress_at": 10.0},  # idle for long, then the first record
    ],
)
def test_progress_or_fresh_lag_is_healthy(make_status: Callable[..., Any], changes: dict[str, Any]) -> None:
    status = make_status(progress=behind(**changes), updated_at=1061.0)
    assert assess(status, now=1061, limits=LIMITS).alive


def test_a_paused_application_may_lag(make_status: Callable[..., Any]) -> None:
    status = make_status(progress=behind(), updated_at=2000.0, paused=True)
    assert assess(status, now=2000, limits=LIMITS).reason is R.PAUSED


def test_a_start_that_never_ends_is_unhealthy(make_status: Callable[..., Any]) -> None:
    status = make_status(state=S.REBALANCING, updated_at=1101.0, progress={0: SubTopologyStatus()})
    assert assess(status, now=1101, limits=LIMITS).reason is R.START_TIMEOUT
    restoring = status.model_copy(update={"progress": {0: SubTopologyStatus(last_progress_at=1100.0)}})
    assert assess(restoring, now=1101, limits=LIMITS).reason is R.STARTING


def working(**changes: Any) -> dict[int, SubTopologyStatus]:
    fields = {"active": True, "lag": 0, "batches": 3, "longest_batch_s": 0.5, "last_commit_at": 990.0, **changes}
    return {0: SubTopologyStatus(**fields)}


@pytest.mark.parametrize("state", [S.RUNNING, S.REBALANCING])
def test_a_broker_that_does_not_answer_is_named_within_seconds_and_is_no_reason_to_restart(
    make_status: Callable[..., Any], state: S
) -> None:
    status = make_status(state=state, progress=working(), broker_answered_at=1000.0, updated_at=1005.0)
    assert assess(status, now=1005.0, limits=LIMITS).progressing
    health = assess(status, now=1006.0, limits=LIMITS)
    assert (health.alive, health.ready, health.progressing) == (True, False, False)
    assert health.reason is R.BROKER_UNREACHABLE
    assert health.text == "no broker has answered for 6 s; the last commit was 16 s ago"


def test_a_driver_with_rare_heartbeats_asks_the_broker_as_rarely(make_status: Callable[..., Any]) -> None:
    status = make_status(broker_answered_at=1000.0, heartbeat_interval_ms=20_000, updated_at=1020.0)
    assert assess(status, now=1021.0, limits=LIMITS).progressing
    assert not assess(status, now=1023.0, limits=LIMITS).progressing


@pytest.mark.parametrize(
    ("changes", "longest_s"),
    [
        ({"last_batch_started_at": 1000.0, "last_batch_finished_at": 999.0}, 0.5),
        ({"last_batch_started_at": 1000.0, "last_batch_finished_at": None}, 0.5),
        ({"lag": 7, "lag_since": 1000.0, "last_progress_at": 999.0}, 0.5),
        ({"lag": 7, "lag_since": 1000.0, "last_progress_at": 999.0}, 8.0),
    ],
)
def test_nothing_committed_for_longer_than_batches_take_is_named(
    make_status: Callable[..., Any], changes: dict[str, Any], longest_s: float
) -> None:
    limit = max(10.0, 3 * longest_s)
    progress = working(longest_batch_s=longest_s, **changes)
    status = make_status(progress=progress, updated_at=1000.0 + limit, broker_answered_at=1000.0 + limit)
    assert assess(status, now=1000.0 + limit, limits=LIMITS).reason is R.WORKING
    health = assess(status, now=1001.0 + limit, limits=LIMITS)
    assert (health.alive, health.ready, health.progressing) == (True, False, False)
    assert health.reason is R.NOT_COMMITTING
    assert f"{1 + limit:.0f} s" in health.text


def test_records_may_wait_for_the_time_between_two_commits(make_status: Callable[..., Any]) -> None:
    progress = working(lag=7, lag_since=1000.0, last_progress_at=999.0)
    seldom = make_status(progress=progress, updated_at=1040.0, commit_interval_ms=30_000)
    assert assess(seldom, now=1040.0, limits=LIMITS).reason is R.WORKING
    assert assess(seldom, now=1041.0, limits=LIMITS).reason is R.NOT_COMMITTING
    never = seldom.model_copy(update={"updated_at": 1091.0})
    assert assess(never, now=1090.0, limits=LIMITS).alive
    assert assess(never, now=1091.0, limits=LIMITS).reason is R.NO_PROGRESS


def test_a_first_batch_may_take_a_minute(make_status: Callable[..., Any]) -> None:
    progress = working(batches=0, longest_batch_s=0.0, last_batch_started_at=1000.0, last_commit_at=None)
    status = make_status(progress=progress, updated_at=1060.0, broker_answered_at=1060.0)
    assert assess(status, now=1060.0, limits=HealthLimits()).reason is R.WORKING
    health = assess(status, now=1061.0, limits=HealthLimits())
    assert health.text == "a batch of sub-topology 0 has run for 61 s; nothing was committed yet"


def test_an_idle_application_is_well_however_long_ago_it_committed(make_status: Callable[..., Any]) -> None:
    progress = working(last_batch_started_at=10.0, last_batch_finished_at=11.0, last_commit_at=11.0)
    status = make_status(progress=progress, updated_at=1060.0, broker_answered_at=1060.0)
    assert assess(status, now=1060.0, limits=LIMITS).reason is R.WORKING


def test_a_reader_behind_an_open_transaction_is_ready_and_says_where_and_since_when_it_waits(
    make_status: Callable[..., Any],
) -> None:
    ends = {"in": {0: held(None), 1: held(1000.0), 2: held(1003.0)}}
    status = make_status(progress=working(), input_ends=ends, updated_at=1010.0, broker_answered_at=1010.0)
    assert assess(status, now=1010.0, limits=LIMITS).reason is R.WORKING
    health = assess(status, now=1015.0, limits=LIMITS)
    assert (health.alive, health.ready, health.progressing) == (True, True, False)
    assert health.reason is R.HELD_BACK
    assert health.text == (
        "held back for 15 s at offset 40 of in-1 (and in 1 more): an open transaction of who writes it keeps 60 "
        "offsets behind it from being read"
    )


def held(since: float | None) -> InputEnd:
    return InputEnd(last_stable=40, high_watermark=100, held_back_since=since)
