"""The supervising task without Airflow around it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import StopCause, read_record, write_record
from millrace.launch import observe
from millrace.operations import stop
from millrace_airflow.operators import MillraceSuperviseOperator
from tests.waiting import kill_process

NAME = "payments"
EVENT: dict[str, Any] = {"kind": "act", "text": "", "observation": {}}


class Store(dict[str, Any]):
    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        self[key] = value


@pytest.fixture
def supervise(home: Home, monkeypatch: pytest.MonkeyPatch) -> MillraceSuperviseOperator:
    monkeypatch.setenv("MILLRACE_HOME", str(home.root))
    monkeypatch.setenv("MILLRACE_CONFIG_DIR", str(home.specs))
    return MillraceSuperviseOperator(task_id="supervise", application=NAME)


def context(*, run_id: str = "manual__1", try_number: int = 1) -> dict[str, Any]:
    return {"ti": SimpleNamespace(run_id=run_id, try_number=try_number), "task_state_store": Store()}


def owner(home: Home) -> str:
    record = read_record(home.application(NAME))
    assert record is not None
    return record.owner


def kill(home: Home) -> int:
    record = read_record(home.application(NAME))
    assert record is not None
    assert record.process is not None
    kill_process(record.process.pid)
    return record.process.pid


def test_a_new_try_adopts_the_job_that_runs(home: Home, supervise: MillraceSuperviseOperator) -> None:
    """Case A04: a retry starts no second driver."""
    before = observe(Application(home, NAME)).process
    with pytest.raises(TaskDeferred):
        supervise.execute(context(try_number=2))
    assert owner(home) == "manual__1/2"
    assert observe(Application(home, NAME)).process == before


def test_a_try_that_comes_back_after_another_took_over_does_nothing(
    home: Home, supervise: MillraceSuperviseOperator
) -> None:
    """Case A11."""
    with pytest.raises(TaskDeferred):
        supervise.execute(context(try_number=2))
    kill(home)
    assert supervise.resume(context(try_number=1), EVENT)["ended"] == "superseded"
    assert observe(Application(home, NAME)).verdict == "dead"


def test_the_event_of_another_tries_trigger_does_not_end_the_watch(
    home: Home, supervise: MillraceSuperviseOperator
) -> None:
    """Case A02, 3: a trigger's number is used again, and the old one's last event arrives at the new try."""
    with pytest.raises(TaskDeferred):
        supervise.resume(context(), {**EVENT, "kind": "superseded"})


def test_a_restart_is_counted_with_its_reason(home: Home, supervise: MillraceSuperviseOperator) -> None:
    before, now = kill(home), context()
    with pytest.raises(TaskDeferred):
        supervise.resume(now, EVENT)
    counters = now["task_state_store"]["counters"]
    assert counters["restarts"] == 1
    assert f"process {before} ended" in counters["last_reason"]


def test_the_restart_limit_fails_the_task_for_good(home: Home, supervise: MillraceSuperviseOperator) -> None:
    record = read_record(home.application(NAME))
    assert record is not None
    kill(home)
    write_record(home.application(NAME), record.with_changes(restarts=2))
    with pytest.raises(AirflowFailException, match="2 restarts in a row did not help"):
        supervise.resume(context(), EVENT)


def test_a_planned_stop_ends_the_task_and_a_queued_run_starts_nothing(
    home: Home, supervise: MillraceSuperviseOperator
) -> None:
    """Case A07."""
    stop(Application(home, NAME))
    assert supervise.resume(context(), EVENT)["ended"] == "stopped"
    assert supervise.execute(context(run_id="manual__2"))["action"] == "stopped"
    assert observe(Application(home, NAME)).verdict == "stopped"


def test_clearing_a_task_whose_kill_stopped_the_job_starts_it_again(
    home: Home, supervise: MillraceSuperviseOperator
) -> None:
    stop(Application(home, NAME), cause=StopCause.TASK_KILLED, only_owner="manual__1/1")
    with pytest.raises(TaskDeferred):
        supervise.execute(context(try_number=2))
    assert observe(Application(home, NAME)).desired == "running"
