"""Multi-step operations survive a kill at every point, and keep the application from being started meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.launchers.base import OPERATION_VARIABLE
from millrace.install.record import read_record
from millrace.operations import (
    OperationState,
    abandon,
    operations_of,
    perform,
    resume,
    unfinished_operation,
)
from millrace.supervise import deploy, reconcile
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import ROOT, SEARCH_PATH
from tests.unit.operations.stepwise import STEPS, plan_of


def killed_at(point: str, home: Home, diary: Path, tmp_path: Path) -> None:
    """Performs the operation in a process that dies at ``point``."""
    points = tmp_path / "points"
    points.mkdir()
    (points / point).write_text("")
    process = subprocess.run(
        [sys.executable, "-m", "tests.unit.operations.stepwise", str(home.root), str(diary)],
        cwd=ROOT,
        env={**os.environ, DIRECTORY_VARIABLE: str(points), "PYTHONPATH": SEARCH_PATH},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


def test_steps_run_in_order_and_see_what_the_ones_before_returned(home: Home, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    outcome = perform(home, plan_of(diary))
    assert diary.read_text().splitlines() == ["first after ", "second after first", "third after first,second"]
    assert outcome.results == {"first": {"number": 0}, "second": {"number": 1}, "third": {"number": 2}}
    assert [record.state for record in operations_of(home.application("payments"))] == [OperationState.COMPLETED]


def test_a_dry_run_prints_the_steps_and_leaves_no_trace(home: Home, tmp_path: Path) -> None:
    outcome = perform(home, plan_of(tmp_path / "diary"), dry_run=True)
    assert outcome.steps == ("Do the first thing.", "Do the second thing.", "Do the third thing.")
    assert outcome.dry_run
    assert not (tmp_path / "diary").exists()
    assert operations_of(home.application("payments")) == []


@pytest.mark.parametrize("moment", ["begins", "ends"])
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_operation_goes_on_at_the_step_that_it_did_not_complete(
    home: Home, tmp_path: Path, step: str, moment: str
) -> None:
    diary = tmp_path / "diary"
    killed_at(f"stepwise-{step}-{moment}", home, diary, tmp_path)
    unfinished = unfinished_operation(home.application("payments"))
    assert unfinished is not None
    assert unfinished.step == step
    assert list(unfinished.results) == list(STEPS[: STEPS.index(step)])
    resume(Application(home, "payments"))
    ran = [line.split()[0] for line in diary.read_text().splitlines()]
    # A step that was killed behind its work, before its line in the journal, runs again.
    again = [step] if moment == "ends" else []
    assert ran == [*STEPS[: STEPS.index(step)], *again, *STEPS[STEPS.index(step) :]]
    assert unfinished_operation(home.application("payments")) is None


def test_a_failed_step_is_told_and_can_be_run_again(home: Home, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    with pytest.raises(OperationError, match="second does not work"):
        perform(home, plan_of(diary, fails_at="second"))
    unfinished = unfinished_operation(home.application("payments"))
    assert unfinished is not None
    assert (unfinished.step, unfinished.error) == ("second", "second does not work.")
    diary.with_suffix(".fixed").touch()
    assert list(resume(Application(home, "payments")).results) == list(STEPS)


def test_no_other_operation_begins_before_an_unfinished_one_has_ended(home: Home, tmp_path: Path) -> None:
    with pytest.raises(OperationError):
        perform(home, plan_of(tmp_path / "diary", fails_at="first"))
    with pytest.raises(OperationError, match=r"Cannot stepwise payments: .*unfinished at step first"):
        perform(home, plan_of(tmp_path / "diary"))
    abandon(Application(home, "payments"), reason="not needed")
    assert [record.state for record in operations_of(home.application("payments"))] == [OperationState.ABANDONED]
    perform(home, plan_of(tmp_path / "diary"))


def test_resuming_nothing_is_refused(home: Home) -> None:
    with pytest.raises(OperationError, match="No operation of payments is unfinished"):
        resume(Application(home, "payments"))


def test_a_line_that_was_cut_by_a_crash_is_as_if_it_was_not_written(home: Home, tmp_path: Path) -> None:
    with pytest.raises(OperationError):
        perform(home, plan_of(tmp_path / "diary", fails_at="second"))
    (journal,) = home.application("payments").operations.glob("*.jsonl")
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"at": "2026-01')
    unfinished = unfinished_operation(home.application("payments"))
    assert unfinished is not None
    assert list(unfinished.results) == ["first"]
    journal.write_bytes(b'{"plan"\n' + whole)
    with pytest.raises(OperationError, match=r"Line 1 of .* is no JSON"):
        operations_of(home.application("payments"))


@pytest.mark.parametrize("holds", [True, False])
def test_an_application_is_started_only_when_the_operation_that_holds_it_has_ended(
    home: Home, tmp_path: Path, write_spec: Callable[..., Path], holds: bool
) -> None:
    write_spec()
    with pytest.raises(OperationError):
        perform(home, plan_of(tmp_path / "diary", holds=holds, fails_at="first"))
    if not holds:
        assert deploy(Application(home, "payments")).action == "start"
        return
    with pytest.raises(OperationError, match="Cannot deploy payments: stepwise"):
        deploy(Application(home, "payments"))
    unfinished = unfinished_operation(home.application("payments"))
    assert unfinished is not None
    assert deploy(Application(home, "payments"), within=unfinished.id).action == "start"
    record = read_record(home.application("payments"))
    assert record is not None
    assert record.process is not None
    environment = Path(f"/proc/{record.process.pid}/environ").read_text().split("\0")
    assert f"{OPERATION_VARIABLE}={unfinished.id}" in environment, "the driver knows that it may start"


def test_supervision_does_not_restart_an_application_that_an_operation_holds(
    home: Home, tmp_path: Path, write_spec: Callable[..., Path]
) -> None:
    write_spec()
    deploy(Application(home, "payments"))
    record = read_record(home.application("payments"))
    assert record is not None
    assert record.process is not None
    with pytest.raises(OperationError):
        perform(home, plan_of(tmp_path / "diary", fails_at="first"))
    record.process.send_signal(signal.SIGKILL)
    record.process.wait_until_gone(10)
    outcome = reconcile(Application(home, "payments"))
    assert outcome.action == "wait"
    assert "unfinished at step first" in outcome.text
    abandon(Application(home, "payments"), reason="a test")
    assert reconcile(Application(home, "payments")).action == "restart"
