"""What steps of an upgrade return, as the journal keeps it, and what an operation came to."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from millrace.install.home import Home
from millrace.operations import OperationPlan, Outcome, StepContext
from millrace.operations.action import Action
from millrace.supervise.upgrade.results import (
    BACK_READY,
    LAUNCH,
    READY,
    Conclusion,
    DriverResult,
    all_driver_results,
    driver_result,
    misfit,
)


def context(home: Home, results: dict[str, Any]) -> StepContext:
    plan = OperationPlan(operation="upgrade", application="payments", reason="a test")
    return StepContext(home=home, id="1", plan=plan, results=results, progress=lambda _: None)


@pytest.mark.parametrize(
    "result",
    [
        DriverResult(),
        DriverResult(skipped=True),
        DriverResult(steps=("asked to stop", "ended"), driver="process 1"),
        DriverResult(healthy=False, stopped=True, fenced=True, text="another one has it"),
        DriverResult(failed="no such file"),
    ],
)
def test_a_result_is_read_from_the_journal_as_it_was_written(home: Home, result: DriverResult) -> None:
    assert driver_result(context(home, {LAUNCH: result.to_json()}), LAUNCH) == result


def test_a_step_that_has_not_run_has_no_result(home: Home) -> None:
    assert driver_result(context(home, {}), READY) is None


def test_a_journal_of_an_earlier_version_is_understood(home: Home) -> None:
    """Both wrote what they had to say as keys, present or not."""
    results = {
        "stop": {"steps": []},
        LAUNCH: {"driver": None},
        READY: {"healthy": False, "stopped": True, "text": "it was asked to stop"},
        BACK_READY: {"skipped": True},
        "rollback-fit": {"misfit": "store counts would not be used any more"},
        "conclude": {"action": "stopped", "text": "it stays stopped"},
    }
    found = all_driver_results(context(home, results))
    assert [(each.stopped, each.skipped) for each in found] == [(False, False), (True, False), (False, True)]
    assert misfit(context(home, results)) == "store counts would not be used any more"
    assert Conclusion.model_validate(results["conclude"]).action is Action.STOPPED


def test_results_of_other_steps_say_nothing_of_the_driver(home: Home) -> None:
    """A restoration lists the ids that it fenced; no driver was fenced by that, and nothing was asked to stop."""
    results = {"rollback-restore-fence": {"fenced": ["payments-0_0"]}, "savepoint-checkpoint": {"stopped": True}}
    assert all_driver_results(context(home, results)) == []


def test_a_conclusion_is_one_of_the_actions() -> None:
    with pytest.raises(ValidationError, match="action"):
        Conclusion.model_validate({"action": "rolled-back", "text": ""})


def test_only_what_does_not_run_afterwards_went_wrong() -> None:
    down = {Action.ROLLED_BACK, Action.FAILED, Action.STOPPED}
    assert {action for action in Action if action.leaves_new_one_down} == down


@pytest.mark.parametrize(("action", "done"), [(Action.PERFORM, "reset"), (Action.PLAN, "plan"), (Action.STOP, "stop")])
def test_what_was_done_of_a_multi_step_operation_is_its_name(action: Action, done: str) -> None:
    outcome = Outcome(application="payments", operation="reset", action=action, text="a test")
    assert outcome.done == outcome.summary()["action"] == done
