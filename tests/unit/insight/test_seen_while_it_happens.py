"""What an operator sees of a driver that is stopped, fenced, or has ended, while it happens."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from millrace.cli.application import run
from millrace.driver.ending import Ending, ExitCode
from millrace.insight.export.exported import Clusters, ExportedApplication
from millrace.insight.export.from_files import supervision
from millrace.insight.overview.assemble import overview
from millrace.insight.overview.model import Savepoints
from millrace.insight.overview.probe import probe_application
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import read_record
from millrace.launch import Reason, Verdict, observe
from millrace.processes import ProcessIdentity
from millrace.supervise import deploy, reconcile
from tests.waiting import kill_process, stop_process, wait_for

NAME = "payments"
FENCE = "Driver 1 of payments was fenced by a newer driver: driver 2 (process 7 on other-host, run r2, started then)."


@pytest.fixture
def job(home: Home, write_spec: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> ProcessIdentity:
    """A driver that runs and has been seen to."""
    write_spec(health={"no_answer_timeout_s": 60.0, "no_progress_timeout_s": 60.0, "stop_timeout_s": 5})
    deploy(Application(home, NAME), reason="for a test")
    wait_for(lambda: observe(Application(home, NAME)).verdict is Verdict.HEALTHY)
    record = read_record(home.application(NAME))
    assert record is not None
    assert record.process is not None
    monkeypatch.setenv("MILLRACE_HOME", str(home.root))
    monkeypatch.setenv("MILLRACE_CONFIG_DIR", str(home.specs))
    return record.process


def status_code() -> int:
    return run(["status", "--once"], verbose=False)


def test_a_stopped_driver_is_shown_as_what_it_is_with_what_was_heard_last(
    home: Home, job: ProcessIdentity, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_code() == 0
    stop_process(job.pid)
    began = time.time()
    try:
        seen = observe(Application(home, NAME))
        assert (seen.verdict, seen.reason) == (Verdict.STALLED, Reason.PROCESS_STOPPED)
        assert f"stopped by a signal (SIGSTOP; SIGCONT continues it): process {job.pid} (" in seen.text
        assert "last heard" in seen.text
        assert "RUNNING, lag 0" in seen.text
        assert seen.heard is not None
        assert seen.heard.at <= began
        assert seen.summary()["heard"]["state"] == "RUNNING"
        # Again, from what the look before has remembered: it is not heard of since.
        again = observe(Application(home, NAME))
        assert again.heard == seen.heard
        assert again.unanswered_since == pytest.approx(seen.unanswered_since, abs=0.01)
        page = overview(probe_application(Application(home, NAME), timeout_s=0.2), (), Savepoints())
        assert (page.verdict, page.reason) == ("stalled", "process_stopped")
        assert str(job.pid) in page.text
        assert page.remedy.startswith("continue it (kill -CONT)")
        capsys.readouterr()
        assert status_code() == 4
        assert "stopped by a signal" in capsys.readouterr().out
    finally:
        os.kill(job.pid, signal.SIGCONT)
    assert observe(Application(home, NAME)).verdict is Verdict.HEALTHY


def end_with(home: Home, job: ProcessIdentity, code: ExitCode, reason: str, remedy: str = "") -> None:
    """What a driver writes before it ends."""
    Ending(
        pid=job.pid,
        start_time=job.start_time,
        session=job.pid,
        exit_code=code,
        reason=reason,
        remedy=remedy,
        at=time.time(),
    ).write(home.application(NAME).ended)
    kill_process(job.pid)
    assert job.wait_until_gone(10)


def test_a_fenced_installation_says_by_whom_and_is_not_started_again(
    home: Home, job: ProcessIdentity, capsys: pytest.CaptureFixture[str]
) -> None:
    """Supervision that started it would fence the other installation, whose supervision would do the same."""
    end_with(home, job, ExitCode.FENCED, FENCE, "nothing, if the newer driver is meant")
    seen = observe(Application(home, NAME))
    assert (seen.verdict, seen.reason, seen.text) == (Verdict.FENCED, Reason.FENCED, FENCE)
    page = overview(probe_application(Application(home, NAME)), (), Savepoints())
    assert (page.verdict, page.text, page.remedy) == ("fenced", FENCE, "nothing, if the newer driver is meant")
    capsys.readouterr()
    assert status_code() == 1
    assert "process 7 on other-host" in capsys.readouterr().out
    # No broker can be asked whether the other one still works.
    assert reconcile(Application(home, NAME)).action == "nothing"
    assert verdicts(home) == [("fenced", "fenced")]


def verdicts(home: Home) -> list[tuple[str, ...]]:
    """What the export says of it."""
    exported = ExportedApplication(home=home, application=NAME, clusters=Clusters())
    return [sample.labels for sample in supervision(exported) if sample.metric.name == "millrace_application_verdict"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(ExitCode.FAILED, Reason.ENDED_IN_ERROR), (ExitCode.STOPPED, Reason.ENDED_BY_ITSELF)],
)
def test_why_a_driver_ended_is_shown_when_it_is_gone(
    home: Home, job: ProcessIdentity, code: ExitCode, reason: Reason
) -> None:
    end_with(home, job, code, "Topics are missing: in.", "create them")
    seen = observe(Application(home, NAME))
    assert (seen.verdict, seen.reason) == (Verdict.DEAD, reason)
    assert seen.text == "Topics are missing: in."
    assert seen.remedy == "create them"
    assert reconcile(Application(home, NAME)).action == "restart"


def test_the_end_of_another_driver_is_not_taken_for_that_of_this_one(home: Home, job: ProcessIdentity) -> None:
    end_with(home, ProcessIdentity(job.pid, job.start_time - 1), ExitCode.FENCED, FENCE)
    assert job.wait_until_gone(10)
    seen = observe(Application(home, NAME))
    assert (seen.verdict, seen.reason) == (Verdict.DEAD, Reason.PROCESS_DIED)
    assert seen.text == f"process {job.pid} ended without being asked to"
