from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.control.health import HealthLimits, HealthReason, assess
from millrace.control.lifecycle import ApplicationState
from millrace.control.status import SubTopologyStatus

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
