"""Which applications a scheduled run is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from millrace.insight.positions import TopicPosition
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.operations import perform, stop
from millrace.supervise import deploy
from millrace_airflow.operators import MillraceApplicationsOperator
from millrace_airflow.operators.stream_assets import has_moved
from tests.unit.operations.stepwise import plan_of

NAME = "payments"


@pytest.fixture(autouse=True)
def _here(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(home.root))
    monkeypatch.setenv("MILLRACE_CONFIG_DIR", str(home.specs))


def chosen(**arguments: Any) -> list[str]:
    names: list[str] = MillraceApplicationsOperator(task_id="choose", **arguments).execute({})
    return names


def hours(begin: timedelta, end: timedelta) -> str:
    now = datetime.now(UTC)
    return f"{now + begin:%H:%M}-{now + end:%H:%M}"


CLOSED = timedelta(hours=2), timedelta(hours=3)
OPEN = timedelta(hours=-1), timedelta(hours=1)


def test_all_are_those_that_shall_run(home: Home) -> None:
    assert chosen(run_type="manual") == [NAME]
    stop(Application(home, NAME))
    assert chosen(run_type="manual") == []
    assert chosen(run_type="manual", application=NAME) == [NAME]


def test_a_scheduled_run_works_in_off_peak_hours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, opened = hours(*CLOSED), hours(*OPEN)
    assert chosen(run_type="scheduled", default_window=closed) == []
    assert chosen(run_type="scheduled", default_window=opened) == [NAME]
    monkeypatch.setenv("AIRFLOW_VAR_MILLRACE_OFF_PEAK", opened)
    assert chosen(run_type="scheduled", default_window=closed) == [NAME]
    # By hand it begins at once, unless it is given hours.
    assert chosen(run_type="manual", default_window=closed) == [NAME]
    assert chosen(run_type="manual", application=NAME, window=closed) == []
    with pytest.raises(AirflowFailException, match="What to do: write it as 22:00-06:00"):
        chosen(run_type="manual", window="at night")


def test_a_scheduled_run_leaves_out_what_was_done_lately(home: Home, tmp_path: Path) -> None:
    arguments = {"operation": "stepwise", "least_interval_h": "20"}
    assert chosen(run_type="scheduled", **arguments) == [NAME]
    perform(home, plan_of(tmp_path / "diary"))
    assert chosen(run_type="scheduled", **arguments) == []
    assert chosen(run_type="scheduled", operation="stepwise", least_interval_h="0") == [NAME]
    assert chosen(run_type="manual", **arguments) == [NAME]


def test_savepoints_are_due_only_where_what_was_launched_says_so(home: Home) -> None:
    assert chosen(run_type="scheduled", only_due_savepoints=True) == []
    path = home.spec_path(NAME)
    path.write_text(path.read_text() + "savepoints: {interval_s: 60}\n")
    assert chosen(run_type="scheduled", only_due_savepoints=True) == []
    deploy(Application(home, NAME))
    assert chosen(run_type="scheduled", only_due_savepoints=True) == [NAME]


def test_a_topic_has_moved_when_an_offset_differs_from_the_last_event() -> None:
    position = TopicPosition(topic="out", offsets={0: 4, 1: 0})
    assert has_moved(position, {})
    assert not has_moved(position, {"0": 4, "1": 0})
    assert not has_moved(position, {"0": 4})
    assert has_moved(position, {"0": 3, "1": 0})
    # Created again: it begins at 0 again.
    assert has_moved(position, {"0": 9, "1": 0})
