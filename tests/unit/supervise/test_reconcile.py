"""Operations on a real process: the fake job stands in for the driver."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import ConfigurationError, OperationError
from millrace.install.application import Application
from millrace.install.files import read_journal
from millrace.install.home import Home
from millrace.install.launchers.local_process import LocalProcess
from millrace.install.record import DesiredState, JobRecord, StopCause, read_record, write_record
from millrace.launch import Reason, Verdict, observe
from millrace.launch.driver import StopLimits
from millrace.operations import stop
from millrace.processes import ProcessIdentity
from millrace.supervise import deploy, reconcile, wait_until_ready
from tests.waiting import kill_process, stop_process, wait_for

WriteSpec = Callable[..., Path]


def running(home: Home, name: str = "payments") -> JobRecord:
    record = read_record(home.application(name))
    assert record is not None
    assert record.process is not None
    return record


def pid_of(home: Home) -> int:
    process = running(home).process
    assert process is not None
    return process.pid


def starts(home: Home) -> int:
    return len((home.application("payments").path / "starts").read_text().splitlines())


@pytest.fixture
def deployed(home: Home, write_spec: WriteSpec) -> Home:
    write_spec()
    deploy(Application(home, "payments"))
    wait_until_ready(Application(home, "payments"), timeout_s=120)
    return home


def test_a_deployed_application_runs_in_its_own_session_and_is_healthy(deployed: Home) -> None:
    observation = observe(Application(deployed, "payments"))
    assert (observation.verdict, observation.reason) == (Verdict.HEALTHY, Reason.WORKING)
    assert os.getsid(pid_of(deployed)) == pid_of(deployed) != os.getsid(0)


def test_a_second_deployment_of_the_same_specification_changes_nothing(deployed: Home) -> None:
    before = pid_of(deployed)
    assert deploy(Application(deployed, "payments")).action == "nothing"
    assert pid_of(deployed) == before
    assert starts(deployed) == 1


def test_a_dry_run_says_what_would_be_done_and_does_nothing(home: Home, write_spec: WriteSpec) -> None:
    write_spec()
    plan = deploy(Application(home, "payments"), dry_run=True)
    assert plan.action == "start"
    assert any(step.startswith("launch ") for step in plan.steps)
    assert read_record(home.application("payments")) is None


def test_a_changed_specification_replaces_the_running_driver(deployed: Home, write_spec: WriteSpec) -> None:
    before = pid_of(deployed)
    write_spec(description="another one")
    assert deploy(Application(deployed, "payments")).action == "upgrade"
    assert pid_of(deployed) != before
    assert ProcessIdentity.of(before) is None


def test_an_invalid_new_specification_leaves_the_last_good_one_running(deployed: Home, write_spec: WriteSpec) -> None:
    before = pid_of(deployed)
    write_spec(upgrade_mod="stateless")
    with pytest.raises(ConfigurationError, match=r"unknown key 'upgrade_mod'; the nearest known one is 'upgrade_mode'"):
        deploy(Application(deployed, "payments"))
    outcome = reconcile(Application(deployed, "payments"))
    assert outcome.action == "nothing"
    assert "the last good specification stays" in outcome.text
    kill_process(before)
    wait_for(lambda: observe(Application(deployed, "payments")).verdict is Verdict.DEAD)
    assert reconcile(Application(deployed, "payments")).action == "restart"
    wait_until_ready(Application(deployed, "payments"), timeout_s=120)


def test_a_killed_driver_is_started_again_and_the_journal_says_why(deployed: Home) -> None:
    before = pid_of(deployed)
    kill_process(before)
    wait_for(lambda: observe(Application(deployed, "payments")).reason is Reason.PROCESS_DIED)
    outcome = reconcile(Application(deployed, "payments"))
    assert outcome.action == "restart"
    assert pid_of(deployed) != before
    launches = [line for line in read_journal(deployed.application("payments")) if line["what"] == "launch"]
    assert f"process {before} ended without being asked to" in launches[-1]["reason"]
    assert launches[-1]["restarts"] == 1


def test_a_hung_driver_is_killed_and_started_again(deployed: Home) -> None:
    before = pid_of(deployed)
    stop_process(before)
    assert observe(Application(deployed, "payments")).reason is Reason.PROCESS_STOPPED
    wait_for(lambda: observe(Application(deployed, "payments")).reason is Reason.HUNG)
    assert reconcile(Application(deployed, "payments")).action == "restart"
    assert ProcessIdentity.of(before) is None
    wait_until_ready(Application(deployed, "payments"), timeout_s=120)


def test_a_driver_without_progress_while_there_is_lag_is_started_again(deployed: Home) -> None:
    before = pid_of(deployed)
    mood = deployed.application("payments").path / "mood"
    mood.write_text("stalled")
    wait_for(lambda: observe(Application(deployed, "payments")).reason is Reason.NO_PROGRESS)
    mood.unlink()
    mood.write_text("stalled")
    assert reconcile(Application(deployed, "payments")).action == "restart"
    assert pid_of(deployed) != before


@pytest.mark.parametrize("mood", ["html", "empty"])
def test_an_unreadable_status_is_no_reason_to_restart(deployed: Home, mood: str) -> None:
    """Case A04, variant b."""
    before = pid_of(deployed)
    (deployed.application("payments").path / "mood").write_text(mood)
    for _ in range(3):
        assert observe(Application(deployed, "payments")).reason is Reason.STATUS_UNREADABLE
        assert reconcile(Application(deployed, "payments")).action == "nothing"
    assert pid_of(deployed) == before


def test_an_application_is_ready_only_when_each_sub_topology_has_processed_something(
    home: Home, write_spec: WriteSpec
) -> None:
    write_spec(health={"no_progress_timeout_s": 60})
    directory = home.application("payments")
    directory.path.mkdir(parents=True)
    (directory.path / "mood").write_text("untried")
    deploy(Application(home, "payments"))
    with pytest.raises(OperationError, match="sub-topologies 1 have input and have processed nothing yet"):
        wait_until_ready(Application(home, "payments"), timeout_s=3)
    assert observe(Application(home, "payments")).verdict is Verdict.HEALTHY
    reconcile(Application(home, "payments"))
    assert not directory.last_good_spec.exists(), "a rollback does not go to what is not proven"
    (directory.path / "mood").write_text("well")
    wait_until_ready(Application(home, "payments"), timeout_s=120)
    assert directory.last_good_spec.exists()


def test_restarts_end_at_the_limit_with_the_reason(home: Home, write_spec: WriteSpec) -> None:
    write_spec(restart={"max_attempts": 2, "initial_backoff_s": 0.0})
    home.application("payments").path.mkdir(parents=True)
    (home.application("payments").path / "mood").write_text("crashes")
    deploy(Application(home, "payments"))
    actions: list[str] = []
    while "give_up" not in actions and len(actions) < 10:
        wait_for(lambda: observe(Application(home, "payments")).verdict is Verdict.DEAD)
        actions.append(reconcile(Application(home, "payments")).action)
    assert actions == ["restart", "restart", "give_up"]
    with pytest.raises(OperationError, match="the fake job was told to crash"):
        wait_until_ready(Application(home, "payments"), timeout_s=5)


def test_a_restart_waits_for_its_backoff(home: Home, write_spec: WriteSpec) -> None:
    write_spec(restart={"initial_backoff_s": 60.0})
    deploy(Application(home, "payments"))
    kill_process(pid_of(home))
    wait_for(lambda: observe(Application(home, "payments")).verdict is Verdict.DEAD)
    assert reconcile(Application(home, "payments")).action == "wait"


def test_a_graceful_stop_asks_the_driver_and_stays_stopped(deployed: Home) -> None:
    outcome = stop(Application(deployed, "payments"))
    assert outcome.steps == ("asked to stop", "ended gracefully")
    observation = observe(Application(deployed, "payments"))
    assert (observation.verdict, observation.reason) == (Verdict.STOPPED, Reason.STOPPED_AS_ASKED)
    assert reconcile(Application(deployed, "payments")).action == "nothing"
    assert stop(Application(deployed, "payments")).action == "nothing"


def test_a_driver_that_ignores_every_request_is_killed_within_the_limits(home: Home, write_spec: WriteSpec) -> None:
    write_spec()
    home.application("payments").path.mkdir(parents=True)
    (home.application("payments").path / "mood").write_text("deaf")
    deploy(Application(home, "payments"))
    wait_until_ready(Application(home, "payments"), timeout_s=120)
    outcome = stop(Application(home, "payments"), limits=StopLimits(graceful_s=0.3, terminate_s=0.3))
    assert outcome.steps == ("asked to stop", "SIGTERM to 1 processes", "SIGKILL to 1 processes")
    assert outcome.observation is not None
    assert outcome.observation.verdict is Verdict.STOPPED


def test_only_its_owner_stops_a_job_of_a_killed_task(deployed: Home) -> None:
    """Case A02: a cleared task's old trigger must not stop the job that the new try adopted."""
    record = running(deployed)
    write_record(deployed.application("payments"), record.with_changes(owner="manual__1/2"))
    late = stop(Application(deployed, "payments"), only_owner="manual__1/1", cause=StopCause.TASK_KILLED)
    assert late.action == "nothing"
    assert running(deployed).is_driver_alive(deployed.application("payments"))
    assert (
        stop(Application(deployed, "payments"), only_owner="manual__1/2", cause=StopCause.TASK_KILLED).action == "stop"
    )


def test_a_driver_that_the_record_does_not_know_is_adopted_and_not_doubled(deployed: Home) -> None:
    """Case A04: the operation was killed between starting the driver and writing its record."""
    before = running(deployed)
    write_record(deployed.application("payments"), before.with_changes(driver=None))
    assert deploy(Application(deployed, "payments")).action == "nothing"
    assert running(deployed).process == before.process
    assert starts(deployed) == 1


def test_a_process_number_that_somebody_else_has_now_is_not_our_driver(deployed: Home) -> None:
    record = running(deployed)
    stop(Application(deployed, "payments"))
    stranger = LocalProcess(ProcessIdentity(os.getpid(), 1))
    write_record(deployed.application("payments"), record.with_changes(driver=stranger, desired=DesiredState.RUNNING))
    assert observe(Application(deployed, "payments")).reason is Reason.PID_TAKEN
    assert reconcile(Application(deployed, "payments")).action == "restart"


def test_many_reconciles_at_once_start_one_driver(deployed: Home) -> None:
    """Cases A04 and A07."""
    kill_process(pid_of(deployed))
    wait_for(lambda: observe(Application(deployed, "payments")).verdict is Verdict.DEAD)
    actions: list[str] = []
    threads = [
        threading.Thread(target=lambda: actions.append(reconcile(Application(deployed, "payments")).action))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(actions) == ["nothing"] * 5 + ["restart"]
    wait_for(lambda: starts(deployed) == 2)


def test_a_suspended_application_is_stopped_and_comes_back(deployed: Home, write_spec: WriteSpec) -> None:
    write_spec(state="suspended")
    assert reconcile(Application(deployed, "payments")).action == "stop"
    assert reconcile(Application(deployed, "payments")).action == "nothing"
    assert observe(Application(deployed, "payments")).reason is Reason.SUSPENDED
    write_spec()
    assert reconcile(Application(deployed, "payments")).action == "restart"


def test_what_a_dead_driver_left_behind_is_ended_before_the_next_start(home: Home, write_spec: WriteSpec) -> None:
    child = "import subprocess, sys; subprocess.Popen(['sleep', '600']); "
    code = child + "sys.argv = sys.argv[1:]; import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    fake = Path(__file__).resolve().parents[2] / "airflow" / "fake_job.py"
    write_spec(launcher={"command": ["{python}", "-c", code, str(fake), "{run_directory}"]})
    deploy(Application(home, "payments"))
    wait_until_ready(Application(home, "payments"), timeout_s=120)
    pid = pid_of(home)
    children = subprocess.run(["pgrep", "-s", str(pid), "sleep"], capture_output=True, text=True, check=True)
    left = ProcessIdentity.of(int(children.stdout))
    assert left is not None
    kill_process(pid)
    wait_for(lambda: observe(Application(home, "payments")).verdict is Verdict.DEAD)
    assert reconcile(Application(home, "payments")).action == "restart"
    assert not left.is_alive()


def test_a_job_survives_the_process_that_started_it(home: Home, write_spec: WriteSpec) -> None:
    write_spec()
    script = (
        "import sys; from pathlib import Path; from millrace.install.application import Application; "
        "from millrace.install.home import Home; from millrace.supervise import deploy; "
        "deploy(Application(Home(root=Path(sys.argv[1]), specs=Path(sys.argv[2])), 'payments'))"
    )
    subprocess.run([sys.executable, "-c", script, str(home.root), str(home.specs)], check=True, timeout=60)
    wait_until_ready(Application(home, "payments"), timeout_s=120)


def test_a_summary_of_a_job_with_thousands_of_partitions_stays_small(deployed: Home) -> None:
    """Case A06."""
    (deployed.application("payments").path / "mood").write_text("wide")
    summary = observe(Application(deployed, "payments")).summary()
    assert summary["lag"] == sum(range(5000))
    assert len(str(summary)) < 2000
    assert list(summary["worst_partitions"]) == [f"payments-{number}" for number in (4999, 4998, 4997, 4996, 4995)]
