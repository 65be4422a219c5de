"""Multi-step upgrades and the way back, on a real process: the fake job stands in for the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import OperationError
from millrace.install.application import Application
from millrace.install.files import read_journal
from millrace.install.home import ApplicationDirectory, Home
from millrace.install.record import JobRecord, read_record
from millrace.install.spec import SpecFile, load_spec_file
from millrace.launch import Verdict, observe
from millrace.operations import OperationPlan, Outcome, abandon, stop, unfinished_operation
from millrace.operations.journal import OperationJournal
from millrace.supervise import deploy, reconcile, rollback, wait_until_ready
from millrace.supervise.ownership import take_over_supervision
from millrace.supervise.readiness import last_good, previous_good
from millrace.supervise.upgrade import is_being_upgraded_to, upgrade
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import ROOT, SEARCH_PATH

WriteSpec = Callable[..., Path]
NAME = "payments"
BROKEN: dict[str, Any] = {"command": ["{python}", "-c", "import sys; sys.exit('the new version does not work')"]}
SILENT: dict[str, Any] = {"command": ["{python}", "-c", "import time; time.sleep(600)"]}
FENCED: dict[str, Any] = {
    "command": [
        "{python}",
        "-c",
        (
            "import sys; from pathlib import Path; from millrace.driver.ending import write_ending; "
            "path = Path(sys.argv[1], 'ended.json'); "
            "write_ending(path, exit_code=3, reason='fenced by driver 2 on other-host', remedy='')"
        ),
        "{run_directory}",
    ]
}


def record_of(home: Home) -> JobRecord:
    record = read_record(home.application(NAME))
    assert record is not None
    return record


def hash_of(home: Home) -> str:
    return load_spec_file(home.spec_path(NAME)).hash


@pytest.fixture
def good(home: Home, write_spec: WriteSpec) -> str:
    """Hash of a specification that runs and is healthy."""
    write_spec()
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    return hash_of(home)


def test_a_specification_is_good_once_it_was_healthy(home: Home, write_spec: WriteSpec) -> None:
    write_spec()
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    first = hash_of(home)
    write_spec(description="another one")
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    last, previous = last_good(home.application(NAME)), previous_good(home.application(NAME))
    assert last is not None
    assert previous is not None
    assert (last.hash, previous.hash) == (hash_of(home), first)


def test_supervision_that_sees_it_healthy_makes_a_specification_good(home: Home, write_spec: WriteSpec) -> None:
    write_spec()
    deploy(Application(home, NAME))
    assert last_good(home.application(NAME)) is None
    wait_until_ready(Application(home, NAME), timeout_s=240)
    home.application(NAME).last_good_spec.unlink()
    assert reconcile(Application(home, NAME)).action == "nothing"
    assert last_good(home.application(NAME)) is not None


def test_a_new_version_that_works_replaces_the_old_one(home: Home, write_spec: WriteSpec, good: str) -> None:
    write_spec(description="another one")
    outcome = deploy(Application(home, NAME), rollback_on_failure=True)
    assert outcome.action == "upgrade"
    assert record_of(home).spec_hash == hash_of(home) != good
    assert unfinished_operation(home.application(NAME)) is None
    assert observe(Application(home, NAME)).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("launcher", [BROKEN, SILENT])
def test_a_new_version_that_is_not_healthy_in_time_gives_way_to_the_last_good_one(
    home: Home, write_spec: WriteSpec, good: str, launcher: dict[str, Any]
) -> None:
    write_spec(launcher=launcher, health={"readiness_timeout_s": 3, "stop_timeout_s": 5}, rollback_on_failure=True)
    outcome = deploy(Application(home, NAME))
    assert outcome.action == "rolled_back"
    assert "supervision leaves" in outcome.text
    assert ("the new version does not work" in outcome.text) == (launcher is BROKEN)
    record = record_of(home)
    assert (record.spec_hash, record.rejected_hash) == (good, hash_of(home))
    assert observe(Application(home, NAME)).verdict is Verdict.HEALTHY


def test_a_new_version_that_another_installation_has_taken_over_from_is_not_rolled_back(
    home: Home, write_spec: WriteSpec, good: str
) -> None:
    """The former version, launched again, would end the driver that has taken over."""
    write_spec(launcher=FENCED, rollback_on_failure=True)
    outcome = deploy(Application(home, NAME))
    assert outcome.action == "stopped"
    assert "neither started again nor rolled back: fenced by driver 2 on other-host" in outcome.text
    assert record_of(home).spec_hash == hash_of(home) != good
    assert observe(Application(home, NAME)).verdict is Verdict.FENCED
    assert reconcile(Application(home, NAME)).action == "nothing"


def test_supervision_leaves_what_was_rolled_back_alone_until_it_changes(
    home: Home, write_spec: WriteSpec, good: str
) -> None:
    write_spec(launcher=BROKEN)
    assert deploy(Application(home, NAME), rollback_on_failure=True).action == "rolled_back"
    outcome = reconcile(Application(home, NAME))
    assert outcome.action == "nothing"
    assert "was rolled back; change it, or deploy it again" in outcome.text
    process = record_of(home).process
    assert process is not None
    process.send_signal(signal.SIGKILL)
    process.wait_until_gone(10)
    assert reconcile(Application(home, NAME)).action == "restart"
    assert record_of(home).spec_hash == good
    write_spec(description="corrected")
    assert reconcile(Application(home, NAME)).action == "upgrade"
    assert record_of(home).spec_hash == hash_of(home)


def test_what_was_rolled_back_is_tried_again_when_it_is_deployed_again(
    home: Home, write_spec: WriteSpec, good: str
) -> None:
    write_spec(launcher=BROKEN)
    assert deploy(Application(home, NAME), rollback_on_failure=True).action == "rolled_back"
    assert deploy(Application(home, NAME), rollback_on_failure=False).action == "upgrade"
    record = record_of(home)
    assert (record.spec_hash, record.rejected_hash) == (hash_of(home), "")
    assert good != record.spec_hash


def test_a_cleared_supervising_task_starts_the_good_one_and_not_the_one_that_was_rolled_back(
    home: Home, write_spec: WriteSpec, good: str
) -> None:
    from millrace.install.record import StopCause

    write_spec(launcher=BROKEN)
    deploy(Application(home, NAME), rollback_on_failure=True)
    stop(Application(home, NAME), cause=StopCause.TASK_KILLED)
    assert take_over_supervision(Application(home, NAME), owner="manual__1/2").action == "start"
    assert record_of(home).spec_hash == good


def test_supervision_goes_to_a_changed_specification_with_its_way_back(
    home: Home, write_spec: WriteSpec, good: str
) -> None:
    write_spec(launcher=BROKEN, rollback_on_failure=True)
    outcome = reconcile(Application(home, NAME))
    assert (outcome.operation, outcome.action) == ("reconcile", "rolled_back")
    assert record_of(home).spec_hash == good


def test_without_a_good_specification_there_is_no_way_back(home: Home, write_spec: WriteSpec) -> None:
    write_spec(launcher=BROKEN)
    deploy(Application(home, NAME), rollback_on_failure=True)
    with pytest.raises(OperationError, match="never been healthy with another specification"):
        rollback(Application(home, NAME))


def test_a_version_that_cannot_be_launched_gives_way_too(home: Home, write_spec: WriteSpec, good: str) -> None:
    write_spec(launcher={"command": ["/nonexistent/program"]})
    outcome = deploy(Application(home, NAME), rollback_on_failure=True)
    assert outcome.action == "rolled_back"
    assert record_of(home).spec_hash == good


def test_a_dry_run_prints_the_steps_and_the_way_back(home: Home, write_spec: WriteSpec, good: str) -> None:
    write_spec(launcher=BROKEN)
    plan = deploy(Application(home, NAME), rollback_on_failure=True, dry_run=True)
    new = hash_of(home)
    assert plan.steps[-7:] == (
        f"Stop what runs of {NAME}.",
        f"Launch it with specification {new}.",
        "Wait until it is healthy, up to 600 s after its launch.",
        f"If it is not: Stop what runs of {NAME}, and have supervision leave {new} alone from then on.",
        f"If it is not: Launch it with specification {good}.",
        "If it is not: Wait until it is healthy.",
        "Say what came of it.",
    )
    assert record_of(home).spec_hash == good


def test_a_rollback_goes_to_the_one_before_where_the_last_good_one_runs_and_not_back_again(
    home: Home, write_spec: WriteSpec, good: str
) -> None:
    write_spec(description="healthy, and wrong")
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    assert rollback(Application(home, NAME), dry_run=True).dry_run
    outcome = rollback(Application(home, NAME))
    assert outcome.action == "rolled_back"
    assert (record_of(home).spec_hash, record_of(home).rejected_hash) == (good, hash_of(home))
    assert reconcile(Application(home, NAME)).action == "nothing"
    with pytest.raises(OperationError, match="never been healthy with another specification"):
        rollback(Application(home, NAME))


def test_a_stop_during_the_wait_is_not_undone_by_the_way_back(home: Home, write_spec: WriteSpec, good: str) -> None:
    """The application is stopped as soon as the new version was launched."""
    write_spec(launcher=SILENT, health={"readiness_timeout_s": 120, "stop_timeout_s": 1})

    def stop_it(line: str) -> None:
        if line.startswith("waiting until"):
            stop(Application(home, NAME))

    outcome = deploy(Application(home, NAME), rollback_on_failure=True, progress=stop_it)
    assert outcome.action == "stopped"
    assert observe(Application(home, NAME)).verdict is Verdict.STOPPED
    assert record_of(home).spec_hash != good


def killed_at(point: str, home: Home, tmp_path: Path, call: str) -> None:
    points = tmp_path / "points"
    points.mkdir(exist_ok=True)
    (points / point).write_text("")
    script = (
        "import sys; from pathlib import Path; from millrace.install.application import Application; "
        "from millrace.install.home import Home; from millrace.supervise import deploy, rollback; "
        f"application = Application(Home(root=Path(sys.argv[1]), specs=Path(sys.argv[2])), 'payments'); {call}"
    )
    process = subprocess.run(
        [sys.executable, "-c", script, str(home.root), str(home.specs)],
        cwd=ROOT,
        env={**os.environ, DIRECTORY_VARIABLE: str(points), "PYTHONPATH": SEARCH_PATH},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


@pytest.mark.parametrize(
    "point", ["stop-ends", "launch-begins", "launch-ends", "ready-begins", "rollback-stop-ends", "rollback-launch-ends"]
)
def test_a_killed_upgrade_is_carried_on_by_supervision(
    home: Home, tmp_path: Path, write_spec: WriteSpec, good: str, point: str
) -> None:
    write_spec(launcher=BROKEN)
    killed_at(f"upgrade-{point}", home, tmp_path, "deploy(application, rollback_on_failure=True)")
    assert unfinished_operation(home.application(NAME)) is not None
    outcome = reconcile(Application(home, NAME))
    assert outcome.action == "rolled_back"
    assert record_of(home).spec_hash == good
    launches = [line for line in read_journal(home.application(NAME)) if line["what"] == "launch"]
    # Of the good one, the broken one, and the good one again; a broken one that has died by then is launched once more.
    assert len(launches) in ({3, 4} if point == "launch-ends" else {3})


def test_a_killed_upgrade_is_carried_on_by_deploying_the_same_again_and_refuses_another(
    home: Home, tmp_path: Path, write_spec: WriteSpec, good: str
) -> None:
    write_spec(description="another one")
    killed_at("upgrade-launch-begins", home, tmp_path, "deploy(application, rollback_on_failure=True)")
    new = hash_of(home)
    write_spec(description="yet another one")
    with pytest.raises(OperationError, match="Cannot deploy payments: upgrade"):
        deploy(Application(home, NAME))
    write_spec(description="another one")
    assert deploy(Application(home, NAME)).action == "upgrade"
    assert record_of(home).spec_hash == new != good


@pytest.mark.parametrize("launcher", [None, BROKEN], ids=["runs", "broken"])
def test_a_deployment_waits_for_another_to_the_same_specification(
    home: Home, write_spec: WriteSpec, good: str, launcher: dict[str, Any] | None
) -> None:
    """Supervision sees a changed file at the same moment as the one who deploys it."""
    write_spec(description="another one", **({"launcher": launcher} if launcher else {}))
    waits = threading.Event()
    others: list[Future[Outcome]] = []

    with ThreadPoolExecutor(1) as pool:

        def deploy_too(line: str) -> None:
            if line.startswith("Wait until it is healthy") and not others:
                others.append(pool.submit(deploy, Application(home, NAME), progress=lambda _: waits.set()))
                assert waits.wait(60)

        first = deploy(Application(home, NAME), rollback_on_failure=True, progress=deploy_too)
        second = others[0].result(120)
    assert (first.action, second.action) == (("rolled_back",) * 2 if launcher else ("upgrade", "nothing"))
    launches = [line for line in read_journal(home.application(NAME)) if line["what"] == "launch"]
    assert len(launches) == (3 if launcher else 2)


def test_a_deployment_waits_for_another_that_has_not_recorded_yet_what_it_executes(
    home: Home, write_spec: WriteSpec, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen the new specification; the one that executes it waits for the lock that the other one holds."""
    write_spec(description="another one")
    is_refused = threading.Event()
    begin = OperationJournal.begin

    def begin_late(journal: OperationJournal, plan: OperationPlan, **options: Any) -> None:
        assert is_refused.wait(60)
        begin(journal, plan, **options)

    def looks(directory: ApplicationDirectory, spec: SpecFile) -> bool:
        is_refused.set()
        return is_being_upgraded_to(directory, spec)

    monkeypatch.setattr(OperationJournal, "begin", begin_late)
    module = sys.modules[deploy.__module__]
    monkeypatch.setattr(module, "is_being_upgraded_to", looks)
    # Each takes the operation's lock for itself, only then the application's.
    both_have_planned = threading.Barrier(2)
    monkeypatch.setattr(
        module,
        "upgrade",
        lambda *arguments, **options: (both_have_planned.wait(60), upgrade(*arguments, **options))[1],
    )
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(deploy, Application(home, NAME), rollback_on_failure=True) for _ in range(2)]
        actions = {each.result(120).action for each in both}
    assert actions == {"upgrade", "nothing"}
    launches = [line for line in read_journal(home.application(NAME)) if line["what"] == "launch"]
    assert len(launches) == 2


def test_a_killed_upgrade_that_is_given_up_is_begun_anew_by_supervision(
    home: Home, tmp_path: Path, write_spec: WriteSpec, good: str
) -> None:
    write_spec(description="another one")
    killed_at("upgrade-stop-ends", home, tmp_path, "deploy(application, rollback_on_failure=True)")
    abandon(Application(home, NAME), reason="a test")
    assert reconcile(Application(home, NAME)).action == "upgrade"
    assert record_of(home).spec_hash == hash_of(home) != good


def test_a_killed_rollback_is_carried_on(home: Home, tmp_path: Path, write_spec: WriteSpec, good: str) -> None:
    write_spec(description="healthy, and wrong")
    deploy(Application(home, NAME))
    wait_until_ready(Application(home, NAME), timeout_s=240)
    killed_at("rollback-rollback-stop-ends", home, tmp_path, "rollback(application)")
    assert reconcile(Application(home, NAME)).action == "rolled_back"
    assert record_of(home).spec_hash == good
