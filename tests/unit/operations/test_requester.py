"""An operation belongs to who had it begun: it is found again, and can be stopped between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.operations import (
    OperationState,
    OperationStoppedError,
    Outcome,
    Requester,
    on_behalf_of,
    operations_of,
    perform,
    resume_or,
    unfinished_operation,
)
from tests.unit.operations.stepwise import plan_of

NAME = "payments"


class Task:
    """A requester that counts how often it begins its operation."""

    def __init__(self, home: Home, diary: Path, name: str = "airflow reset/run/task", **decisions: str) -> None:
        self.home, self.diary, self.decisions = home, diary, decisions
        self.begun = 0
        self.plans: list[tuple[str, int]] = []
        self.told: list[str] = []
        self.stop_before = ""
        self.requester = Requester(
            name=name, is_cancelled=self.is_cancelled, on_plan=self.on_plan, progress=self.told.append
        )

    def is_cancelled(self) -> bool:
        return bool(self.stop_before) and self.diary.exists() and self.stop_before in self.diary.read_text()

    def on_plan(self, operation_id: str, steps: Sequence[str]) -> None:
        self.plans.append((operation_id, len(steps)))

    def run(self, *, reported: str = "") -> Outcome:
        def begin() -> Outcome:
            self.begun += 1
            return perform(self.home, plan_of(self.diary, holds=True, **self.decisions), progress=self.told.append)

        with on_behalf_of(self.requester):
            return resume_or(Application(self.home, NAME), begin, reported=reported)

    @property
    def did(self) -> list[str]:
        return [line.split()[0] for line in self.diary.read_text().splitlines()]


def test_a_caller_that_stops_ends_the_operation_between_two_steps_and_the_next_try_goes_on(
    home: Home, tmp_path: Path
) -> None:
    task = Task(home, tmp_path / "diary")
    task.stop_before = "first"
    with pytest.raises(OperationStoppedError, match="before step second"):
        task.run()
    assert task.did == ["first"]
    unfinished = unfinished_operation(home.application(NAME))
    assert unfinished is not None
    assert unfinished.requested_by == task.requester.name
    task.stop_before = ""
    outcome = task.run()
    assert task.did == ["first", "second", "third"]
    assert task.begun == 1
    assert outcome.results["third"] == {"number": 2}
    assert task.plans == [(unfinished.id, 3)] * 2
    assert "Do the second thing." in task.told


def test_a_failed_operation_is_carried_on_by_its_caller(home: Home, tmp_path: Path) -> None:
    task = Task(home, tmp_path / "diary", fails_at="second")
    with pytest.raises(OperationError, match="second does not work"):
        task.run()
    (tmp_path / "diary.fixed").touch()
    task.run()
    assert task.did == ["first", "second", "third"]
    assert task.begun == 1


def test_an_operation_of_somebody_else_is_not_carried_on(home: Home, tmp_path: Path) -> None:
    with pytest.raises(OperationError, match="second does not work"):
        Task(home, tmp_path / "diary", fails_at="second").run()
    other = Task(home, tmp_path / "other", name="airflow reset/run/another")
    with pytest.raises(OperationError, match="unfinished at step second"):
        other.run()
    assert not (tmp_path / "other").exists()


def test_one_that_completed_without_its_callers_knowledge_is_not_done_again(home: Home, tmp_path: Path) -> None:
    task = Task(home, tmp_path / "diary")
    task.run()
    outcome = task.run()
    assert task.begun == 1
    assert outcome.results["second"] == {"number": 1}


def test_one_whose_completion_was_reported_begins_anew(home: Home, tmp_path: Path) -> None:
    task = Task(home, tmp_path / "diary")
    task.run()
    task.run(reported=task.plans[-1][0])
    assert task.begun == 2
    assert [each.state for each in operations_of(home.application(NAME))] == [OperationState.COMPLETED] * 2


def test_without_a_name_every_call_begins(home: Home, tmp_path: Path) -> None:
    task = Task(home, tmp_path / "diary", name="")
    task.run()
    task.run()
    assert task.begun == 2
