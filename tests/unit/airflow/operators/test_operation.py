"""The base of operators that execute multi-step operations, with an operation of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from millrace.install.home import Home
from millrace.operations import OperationState, Outcome, operations_of, perform, unfinished_operation
from millrace_airflow.hooks import MillraceHook
from millrace_airflow.operators import MillraceOperationOperator
from millrace_airflow.operators.operations import MillraceOperationsOperator
from tests.unit.airflow.lines import Lines
from tests.unit.operations.stepwise import plan_of

NAME = "payments"


class Stepwise(MillraceOperationOperator):
    """The operation of the tests, which writes a diary."""

    log = Lines()
    diary: Path
    fails_at = ""
    killed_after = ""

    def begin(self, hook: MillraceHook, *, dry_run: bool) -> Outcome:
        def progress(line: str) -> None:
            self.log_progress(line)
            if self.killed_after and self.killed_after in line:
                self.on_kill()

        return perform(hook.home, plan_of(self.diary, fails_at=self.fails_at), dry_run=dry_run, progress=progress)

    def facts(self, outcome: Outcome) -> Mapping[str, Any]:
        self.log.info("looked at the results")
        return {"last": outcome.results["third"]["number"]}

    def what_next(self, outcome: Outcome) -> str:
        return "read the diary"


class Store(dict[str, Any]):
    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        self[key] = value


class Try:
    """Tries of one task; each has an operator of its own and the same store."""

    def __init__(self, tmp_path: Path, *, map_index: int = -1) -> None:
        self.diary = tmp_path / "diary"
        self.store = Store()
        self.map_index = map_index

    def run(self, *, dry_run: bool | str = False, **attributes: str) -> dict[str, Any]:
        operator = Stepwise(task_id="do", application=NAME, dry_run=dry_run)
        operator.diary = self.diary
        for name, value in attributes.items():
            setattr(operator, name, value)
        instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="do", map_index=self.map_index)
        results: dict[str, Any] = operator.execute({"ti": instance, "task_state_store": self.store})
        return results

    @property
    def did(self) -> list[str]:
        return [line.split()[0] for line in self.diary.read_text().splitlines()]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An installation where nothing runs."""
    Stepwise.log.lines.clear()
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MILLRACE_CONFIG_DIR", str(tmp_path / "apps"))
    return Home.from_environment()


def test_it_returns_small_facts_and_ends_its_log_with_what_happened_and_what_to_do(empty: Home, tmp_path: Path) -> None:
    result = Try(tmp_path).run()
    assert result["last"] == 2
    assert result["results"] == {}
    assert result["operation_id"] == operations_of(empty.application(NAME))[0].id
    assert Stepwise.log.lines[-2:] == [
        "What happened: stepwise of payments: done (a test).",
        "What to do: read the diary.",
    ]
    assert "plan 3: Do the third thing." in Stepwise.log.lines
    assert "step 2 of 3: Do the second thing." in Stepwise.log.lines


def test_a_dry_run_logs_the_plan_and_begins_nothing(empty: Home, tmp_path: Path) -> None:
    Try(tmp_path).run(dry_run="True")
    assert "would do 1: Do the first thing." in Stepwise.log.lines
    assert "dry run switched off" in Stepwise.log.lines[-1]
    assert operations_of(empty.application(NAME)) == []


def test_a_failed_step_may_be_tried_again_and_the_next_try_goes_on(empty: Home, tmp_path: Path) -> None:
    task = Try(tmp_path)
    with pytest.raises(AirflowException, match=r"second does not work.* What to do: fix it; then clear this") as e:
        task.run(fails_at="second")
    assert not isinstance(e.value, AirflowFailException)
    (tmp_path / "diary.fixed").touch()
    task.run(fails_at="second")
    assert task.did == ["first", "second", "third"]


def test_a_killed_task_stops_before_the_next_step_and_goes_on_when_it_is_cleared(empty: Home, tmp_path: Path) -> None:
    task = Try(tmp_path, map_index=3)
    with pytest.raises(AirflowException, match="was stopped before step second"):
        task.run(killed_after="first")
    unfinished = unfinished_operation(empty.application(NAME))
    assert unfinished is not None
    assert unfinished.requested_by == "airflow dag/run/do/3"
    task.run()
    assert task.did == ["first", "second", "third"]


def test_clearing_a_task_that_succeeded_begins_another_operation(empty: Home, tmp_path: Path) -> None:
    task = Try(tmp_path)
    task.run()
    task.run()
    assert [each.state for each in operations_of(empty.application(NAME))] == [OperationState.COMPLETED] * 2


def test_a_task_that_died_behind_its_operation_does_not_do_it_again(empty: Home, tmp_path: Path) -> None:
    task = Try(tmp_path)
    task.run()
    task.store.clear()
    assert task.run()["last"] == 2
    assert task.did == ["first", "second", "third"]


def test_what_is_refused_fails_for_good_and_names_the_operation_in_the_way(empty: Home, tmp_path: Path) -> None:
    with pytest.raises(AirflowException):
        Try(tmp_path).run(fails_at="second")
    other = Try(tmp_path, map_index=1)
    with pytest.raises(AirflowFailException, match=r"unfinished at step second.*the DAG millrace_operations"):
        other.run()


@pytest.mark.parametrize("action", ["resume", "abandon"])
def test_what_somebody_left_is_carried_on_or_given_up(empty: Home, tmp_path: Path, action: str) -> None:
    task = Try(tmp_path)
    with pytest.raises(AirflowException):
        task.run(fails_at="second")
    (tmp_path / "diary.fixed").touch()
    for dry_run in (True, False):
        assert unfinished_operation(empty.application(NAME)) is not None
        MillraceOperationsOperator(task_id="end", application=NAME, action=action, dry_run=dry_run).execute({})
    assert unfinished_operation(empty.application(NAME)) is None
    assert task.did == (["first", "second", "third"] if action == "resume" else ["first"])
    nothing = MillraceOperationsOperator(task_id="end", application=NAME, action=action).execute({})
    assert nothing["action"] == "nothing"
