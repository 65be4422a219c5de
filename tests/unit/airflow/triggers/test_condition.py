"""What sensors wait for, and the trigger that waits."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.launch import Observation, Reason, Verdict
from millrace.operations import stop
from millrace.supervise import deploy
from millrace_airflow.conditions import Condition
from millrace_airflow.sensors import LagBelowSensor, StreamReadySensor
from millrace_airflow.triggers import ConditionTrigger

NAME = "payments"


def trigger(home: Home, *, least_deferral_s: float = 0, **condition: Any) -> ConditionTrigger:
    return ConditionTrigger(
        home=str(home.root),
        specs=str(home.specs),
        application=NAME,
        condition=Condition(**condition).serialize(),
        poll_interval_s=0.05,
        least_deferral_s=least_deferral_s,
    )


async def event(watched: ConditionTrigger, limit_s: float = 20) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async for each in watched.run():
            return dict(each.payload)
        raise AssertionError("the trigger ended without an event")

    return await asyncio.wait_for(run(), limit_s)


def seen(verdict: Verdict = Verdict.HEALTHY, lag: int | None = 0) -> Observation:
    return Observation(application=NAME, verdict=verdict, reason=Reason.WORKING, text="as seen", lag=lag)


def set_mood(home: Home, mood: str) -> None:
    (home.application(NAME).path / "mood").write_text(mood)


@pytest.mark.parametrize(
    ("condition", "observation", "why_not"),
    [
        (Condition(), seen(), ""),
        (Condition(), seen(lag=None), ""),
        (Condition(), seen(Verdict.WAITING), "waiting: as seen"),
        (Condition(max_lag=5), seen(lag=5), ""),
        (Condition(max_lag=5), seen(lag=6), "it is 6 records behind"),
        (Condition(max_lag=5), seen(lag=None), "its lag is not known yet"),
        (Condition(max_lag=5), seen(Verdict.DEAD, lag=0), "dead: as seen"),
    ],
)
def test_a_condition_says_why_it_does_not_hold(condition: Condition, observation: Observation, why_not: str) -> None:
    assert condition.why_not(observation) == why_not


def test_it_is_rebuilt_from_what_it_serialises(home: Home) -> None:
    path, arguments = trigger(home, max_lag=3, for_s=2).serialize()
    assert path == "millrace_airflow.triggers.condition.ConditionTrigger"
    assert ConditionTrigger(**arguments).serialize() == (path, arguments)


def test_it_fires_once_the_application_is_near_enough(home: Home) -> None:
    set_mood(home, "stalled")

    async def run() -> dict[str, Any]:
        waiting = asyncio.create_task(event(trigger(home, max_lag=0)))
        done, _ = await asyncio.wait({waiting}, timeout=0.5)
        assert not done
        set_mood(home, "well")
        return await waiting

    assert asyncio.run(run())["lag"] == 0


def test_it_does_not_fire_before_the_scheduler_knows_that_the_task_waits(home: Home) -> None:
    begin = time.monotonic()
    assert asyncio.run(event(trigger(home, least_deferral_s=0.6)))["verdict"] == "healthy"
    assert time.monotonic() - begin >= 0.6


def test_it_fires_only_when_it_has_held_for_long_enough(home: Home) -> None:
    begin = time.monotonic()
    assert asyncio.run(event(trigger(home, for_s=0.6)))["verdict"] == "healthy"
    assert time.monotonic() - begin >= 0.6


def test_a_stopped_application_is_waited_for(home: Home) -> None:
    stop(Application(home, NAME))

    async def run() -> dict[str, Any]:
        waiting = asyncio.create_task(event(trigger(home)))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        await asyncio.to_thread(deploy, Application(home, NAME))
        return await waiting

    assert asyncio.run(run())["verdict"] == "healthy"


def test_the_sensors_defer_with_their_condition_or_look_themselves(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(home.root))
    monkeypatch.setenv("MILLRACE_CONFIG_DIR", str(home.specs))
    sensor = LagBelowSensor(task_id="wait", application=NAME, max_lag=4, for_s=1, poke_interval=2, timeout=30)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    assert deferred.value.trigger.condition == {"max_lag": 4, "for_s": 1}
    assert deferred.value.timeout.total_seconds() == 30
    assert deferred.value.trigger.least_deferral_s >= 5
    # What holds already is not deferred.
    ready = StreamReadySensor(task_id="ready", application=NAME, timeout=3)
    assert ready.execute({})["verdict"] == "healthy"
    look = StreamReadySensor(task_id="look", application=NAME, deferrable=False)
    assert look.poke({})
    stop(Application(home, NAME))
    assert not look.poke({})
    with pytest.raises(TaskDeferred):
        ready.execute({})
    record = home.application(NAME).record
    readable = record.read_text()
    record.write_text("{")
    assert not look.poke({})
    with pytest.raises(TaskDeferred):
        ready.execute({})
    record.write_text(readable)
