"""The trigger without Airflow around it: it must never block the event loop that it shares with others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from millrace.driver.ending import Ending, ExitCode
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import read_record, write_record
from millrace.launch import observe
from millrace.operations import stop
from millrace_airflow.triggers import SuperviseTrigger, supervise
from tests.waiting import kill_process, stop_process

NAME = "payments"
OWNER = "manual__1/1"


def trigger(home: Home, *, owner: str = OWNER, checkpoint_s: float = 600) -> SuperviseTrigger:
    return SuperviseTrigger(
        home=str(home.root),
        specs=str(home.specs),
        application=NAME,
        owner=owner,
        checkpoint_s=checkpoint_s,
        least_deferral_s=0,
    )


def pid_of(home: Home) -> int:
    record = read_record(home.application(NAME))
    assert record is not None
    assert record.process is not None
    return record.process.pid


async def first_event(watched: SuperviseTrigger, limit_s: float = 20) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async for event in watched.run():
            return dict(event.payload)
        raise AssertionError("the trigger ended without an event")

    return await asyncio.wait_for(run(), limit_s)


def test_it_is_rebuilt_from_what_it_serialises(home: Home) -> None:
    path, arguments = trigger(home).serialize()
    assert path == "millrace_airflow.triggers.supervise.SuperviseTrigger"
    assert SuperviseTrigger(**arguments).serialize() == (path, arguments)


def test_it_fires_for_a_job_that_died(home: Home) -> None:
    kill_process(pid_of(home))
    event = asyncio.run(first_event(trigger(home)))
    assert event["kind"] == "act"
    assert event["observation"]["reason"] == "process_died"


def test_it_leaves_a_fenced_job_alone_and_has_the_task_look_now_and_then(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task asks the broker whether the driver that took over still works."""
    monkeypatch.setattr(supervise, "FENCED_CHECKPOINT_S", 0.3)
    record = read_record(home.application(NAME))
    assert record is not None
    assert record.process is not None
    Ending(
        pid=record.process.pid,
        start_time=record.process.start_time,
        session=record.process.pid,
        exit_code=ExitCode.FENCED,
        reason="fenced by driver 2 on other-host",
        at=time.time(),
    ).write(home.application(NAME).ended)
    kill_process(record.process.pid)
    event = asyncio.run(first_event(trigger(home)))
    assert event["kind"] == "checkpoint"
    assert event["observation"]["reason"] == "fenced"
    assert event["observation"]["text"] == "fenced by driver 2 on other-host"


def test_it_fires_for_a_planned_stop(home: Home) -> None:
    stop(Application(home, NAME))
    assert asyncio.run(first_event(trigger(home)))["kind"] == "stopped"


def test_it_ends_when_another_task_took_the_job_over(home: Home) -> None:
    """Case A11: a try that was declared dead and comes back does nothing."""
    assert asyncio.run(first_event(trigger(home, owner="manual__0/1")))["kind"] == "superseded"
    assert observe(Application(home, NAME)).verdict == "healthy"


def test_it_fires_now_and_then_so_that_a_missing_triggerer_is_noticed(home: Home) -> None:
    """Case A10: without a triggerer the task's timeout is not renewed."""
    event = asyncio.run(first_event(trigger(home, checkpoint_s=0.2)))
    assert event["kind"] == "checkpoint"


def test_a_hung_job_blocks_no_other_trigger(home: Home) -> None:
    """Case A10: the event loop goes on while a job does not answer, until it counts as hung."""
    stop_process(pid_of(home))
    gaps: list[float] = []

    async def others() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    async def both() -> dict[str, Any]:
        beside = asyncio.create_task(others())
        try:
            return await first_event(trigger(home))
        finally:
            beside.cancel()

    event = asyncio.run(both())
    assert event["observation"]["reason"] == "hung"
    assert max(gaps) < 0.5


def test_a_kill_by_a_person_stops_only_a_job_that_it_still_owns(home: Home) -> None:
    record = read_record(home.application(NAME))
    assert record is not None
    write_record(home.application(NAME), record.with_changes(owner="manual__1/2"))
    asyncio.run(trigger(home).on_kill())
    assert observe(Application(home, NAME)).verdict == "healthy"
    asyncio.run(trigger(home, owner="manual__1/2").on_kill())
    assert observe(Application(home, NAME)).verdict == "stopped"
