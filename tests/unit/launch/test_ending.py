"""What is said of a driver that is gone: its own words, or those of its log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millrace.driver.ending import Ending, ExitCode
from millrace.errors import OperationError, PreflightError
from millrace.install.application import Application
from millrace.install.home import ApplicationDirectory, Home
from millrace.launch import Reason, Verdict, observe
from millrace.launch.ending import last_line, telling_why_it_ends
from millrace.processes import ProcessIdentity
from millrace.supervise import deploy, wait_until_ready

WriteSpec = Callable[..., Path]
REASON = "Input topics do not exist: " + ", ".join(f"orders-{number}" for number in range(30)) + "."
# As `millrace run` fails; what Spark logs while it ends comes after it.
FAILING = f"""
import sys
from pathlib import Path
from millrace.errors import PreflightError
from millrace.launch.ending import telling_why_it_ends
from millrace.install.home import ApplicationDirectory
with telling_why_it_ends(ApplicationDirectory(Path(sys.argv[1]))):
    try:
        raise PreflightError({REASON!r}, remedy="create them")
    finally:
        print("26/11/29 INFO ShutdownHookManager: Deleting directory /tmp/spark-1", flush=True)
"""


def launched(home: Home, write_spec: WriteSpec, code: str, **changes: Any) -> Home:
    write_spec(launcher={"command": ["{python}", "-c", code, "{run_directory}"]}, **changes)
    deploy(Application(home, "payments"))
    return home


def test_the_reason_of_a_driver_that_dies_at_its_start_is_what_is_said(home: Home, write_spec: WriteSpec) -> None:
    launched(home, write_spec, FAILING)
    with pytest.raises(OperationError) as caught:
        wait_until_ready(Application(home, "payments"), timeout_s=240)
    assert caught.value.message == f"payments failed after its start: {REASON}"
    assert caught.value.remedy == "create them"
    observation = observe(Application(home, "payments"))
    assert (observation.verdict, observation.reason) == (Verdict.DEAD, Reason.ENDED_IN_ERROR)
    assert (observation.text, observation.remedy) == (REASON, "create them")


def test_a_rollback_says_why_the_new_version_failed(home: Home, write_spec: WriteSpec) -> None:
    write_spec()
    deploy(Application(home, "payments"))
    wait_until_ready(Application(home, "payments"), timeout_s=240)
    write_spec(launcher={"command": ["{python}", "-c", FAILING, "{run_directory}"]})
    outcome = deploy(Application(home, "payments"), rollback_on_failure=True)
    assert outcome.action == "rolled_back"
    assert f"was not healthy after its launch: {REASON}" in outcome.text


def test_the_ending_of_an_earlier_launch_is_not_that_of_this_one(home: Home, write_spec: WriteSpec) -> None:
    launched(home, write_spec, FAILING)
    with pytest.raises(OperationError):
        wait_until_ready(Application(home, "payments"), timeout_s=240)
    launched(home, write_spec, "import sys; sys.exit('another reason')")
    with pytest.raises(OperationError) as caught:
        wait_until_ready(Application(home, "payments"), timeout_s=240)
    assert "its log ends with: another reason" in caught.value.message
    assert "do not exist" not in caught.value.message


def test_an_error_that_is_none_of_ours_is_told_with_its_kind(tmp_path: Path) -> None:
    directory = ApplicationDirectory(tmp_path)
    with pytest.raises(ZeroDivisionError), telling_why_it_ends(directory):
        raise ZeroDivisionError("by zero")
    ending = Ending.read(directory.ended)
    assert ending is not None
    assert (ending.reason, ending.exit_code) == ("ZeroDivisionError: by zero", ExitCode.FAILED)
    assert str(directory.log) in ending.remedy
    assert ending.is_of(ProcessIdentity.current())


def test_what_ends_well_writes_nothing(tmp_path: Path) -> None:
    directory = ApplicationDirectory(tmp_path)
    with telling_why_it_ends(directory):
        pass
    assert Ending.read(directory.ended) is None


def test_a_cut_ending_is_none(tmp_path: Path) -> None:
    directory = ApplicationDirectory(tmp_path)
    with pytest.raises(PreflightError), telling_why_it_ends(directory):
        raise PreflightError("a", remedy="b")
    directory.ended.write_bytes(directory.ended.read_bytes()[:10])
    assert Ending.read(directory.ended) is None


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        ("/usr/bin/python3: No module named millrace\n", "/usr/bin/python3: No module named millrace"),
        ('Traceback (most recent call last):\n  File "a"\nValueError: 5\nINFO shutting down\n', "ValueError: 5"),
        ("error: There is no x. Remedy: write it\nINFO Utils: bye\n", "error: There is no x. Remedy: write it"),
        (
            '{"event": "application failed", "level": "error", "reason": "no topic", "remedy": "create it"}\nINFO bye',
            "application failed: no topic Remedy: create it",
        ),
        ('{"event": "paused", "level": "info"}\n', "paused"),
        ("{broken\n", "{broken"),
    ],
)
def test_the_last_error_of_a_log_says_why_it_ended(tmp_path: Path, log: str, words: str) -> None:
    directory = ApplicationDirectory(tmp_path)
    assert last_line(directory) == ""
    directory.log.write_text(log)
    assert last_line(directory) == words
