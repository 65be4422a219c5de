"""A real Airflow looks after a job. The tests share one Airflow and come in the order of the file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from demo.airflow_service import AirflowClient
from millrace.processes import ProcessIdentity
from tests.waiting import PATIENCE, wait_for

from .conftest import APPLICATION, ROOT, SUPERVISE, Platform, dag_ids


def test_every_dag_is_imported_and_has_tags_and_documentation(platform: Platform) -> None:
    assert platform.client.request("GET", "/importErrors")["total_entries"] == 0
    files = {path.stem for path in (ROOT / "dags").glob("millrace_*.py")} - {"millrace_supervise"}
    supervised = {f"millrace_supervise_{path.stem}" for path in platform.home.specs.glob("*.yaml")}
    ours = {dag_id for dag_id in dag_ids(platform.client) if dag_id.startswith("millrace_")}
    # That of an application whose specification was removed stays in the list until Airflow has looked again.
    assert {dag_id for dag_id in ours if not dag_id.startswith("millrace_supervise_")} == files
    assert supervised <= ours
    for dag_id in ours:
        details = platform.client.request("GET", f"/dags/{dag_id}/details")
        assert details["doc_md"]
        assert "millrace" in {tag["name"] for tag in details["tags"]}


def test_a_dry_run_of_the_deployment_starts_nothing(platform: Platform) -> None:
    assert platform.run("millrace_deploy", "dry", {"application": APPLICATION, "dry_run": True}) == "success"
    assert not platform.home.application(APPLICATION).record.exists()


def test_a_deployment_starts_the_job_and_its_supervision(platform: Platform) -> None:
    platform.deploy("first")
    assert platform.is_well()
    assert platform.starts() == 1


def test_a_second_deployment_starts_neither_a_job_nor_a_supervision(platform: Platform) -> None:
    """Case A07: one active run per application."""
    run = platform.supervising_run()
    assert platform.deploy("second") == run
    assert platform.starts() == 1
    assert platform.client.request("GET", f"/dags/{SUPERVISE}/dagRuns")["total_entries"] == 1


@pytest.mark.kills
def test_a_killed_job_is_restarted_by_the_same_try(platform: Platform) -> None:
    run = platform.supervising_run()
    before, attempt = platform.pid, platform.try_number(run)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: platform.pid != before and platform.is_well())
    assert platform.supervising_run() == run
    assert platform.try_number(run) == attempt
    assert f"process {before} ended without being asked to" in platform.record.last_reason


@pytest.mark.kills
def test_a_hung_job_is_found_unhealthy_and_restarted(platform: Platform) -> None:
    before = platform.pid
    os.kill(before, signal.SIGSTOP)
    wait_for(lambda: platform.pid != before and platform.is_well())
    assert "no answer for" in platform.record.last_reason
    assert ProcessIdentity.of(before) is None


def test_a_job_without_progress_is_restarted(platform: Platform) -> None:
    platform.supervising_run()
    before = platform.pid
    platform.set_mood("stalled")
    wait_for(lambda: platform.pid != before)
    platform.set_mood("well")
    wait_for(platform.is_well)
    assert any("no progress" in line["reason"] for line in platform.journal("launch"))


def test_an_unreadable_status_does_not_end_the_watch(platform: Platform) -> None:
    """Case A04, variant b: an HTML page and an empty body, for several polls each."""
    run = platform.supervising_run()
    before, attempt = platform.pid, platform.try_number(run)
    for mood in ("html", "empty"):
        platform.set_mood(mood)
        wait_for(lambda: platform.observe().reason == "status_unreadable")
        time.sleep(3)
    platform.set_mood("well")
    wait_for(platform.is_well)
    assert platform.pid == before
    assert platform.supervising_run() == run
    assert platform.try_number(run) == attempt


@pytest.fixture(scope="module")
def new_triggerer(platform: Platform) -> Iterator[Callable[[], None]]:
    """Starts a triggerer beside the standalone, which does not replace its own; it lives until the tests have ended."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        with (Path(platform.airflow.directory) / "second_triggerer.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "airflow", "triggerer"],
                    env=psutil.Process(platform.airflow.process.pid).environ(),
                    cwd=platform.airflow.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10 * PATIENCE)


@pytest.mark.kills
def test_a_killed_triggerer_leaves_the_job_alone_and_the_next_one_finds_it(
    platform: Platform, new_triggerer: Callable[[], None]
) -> None:
    """Case A02, 1."""
    run = platform.supervising_run()
    before, starts = platform.pid, platform.starts()
    leader = psutil.Process(platform.airflow.process.pid)
    triggerers = [process for process in leader.children(recursive=True) if "triggerer" in command_of(process)]
    assert triggerers
    for process in triggerers:
        process.kill()
    psutil.wait_procs(triggerers, timeout=10 * PATIENCE)
    new_triggerer()
    written = platform.home.application(APPLICATION).supervision
    wait_for(lambda: time.time() - written.stat().st_mtime > 2, limit_s=20)
    assert platform.pid == before
    assert ProcessIdentity.of(before) is not None
    wait_for(lambda: time.time() - written.stat().st_mtime < 1, limit_s=90)
    assert platform.pid == before
    assert platform.starts() == starts
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: platform.pid != before and platform.is_well())
    assert platform.supervising_run() == run


def test_clearing_the_task_leaves_exactly_one_job(platform: Platform) -> None:
    """Case A02, 3: the next try adopts or restarts it, and the old trigger does not stop what it no longer owns."""
    run = platform.supervising_run()
    attempt = platform.try_number(run)
    platform.client.request(
        "POST",
        f"/dags/{SUPERVISE}/clearTaskInstances",
        {"dry_run": False, "only_failed": False, "dag_run_id": run, "task_ids": ["supervise"], "reset_dag_runs": True},
    )
    wait_for(lambda: platform.record.owner == f"{run}/{attempt + 1}", limit_s=90)
    assert platform.supervising_run() == run
    wait_for(platform.is_well)
    assert len(fake_jobs(platform)) == 1
    # The old trigger's end may come after the next try: nothing may change any more.
    pid = platform.pid
    time.sleep(5)
    assert platform.pid == pid
    assert platform.is_well()


def test_a_planned_stop_ends_the_task_in_success(platform: Platform) -> None:
    """Cases A01 and A06: it was deferred for longer than a token lives, and what it returns is small strict JSON."""
    run = platform.supervising_run()
    platform.set_mood("wide")
    assert platform.run("millrace_stop", "planned", {"application": APPLICATION}) == "success"
    wait_for(lambda: platform.client.run_state(SUPERVISE, run) == "success")
    assert fake_jobs(platform) == []
    platform.set_mood("well")
    path = f"/dags/{SUPERVISE}/dagRuns/{run}/taskInstances/supervise/xcomEntries/return_value"
    value = platform.client.request("GET", path)["value"]
    assert len(json.dumps(value, allow_nan=False)) < 48 * 1024
    assert value["reason"] == "stopped_as_asked"
    assert platform.run("millrace_reconcile", "after_stop") == "success"
    assert fake_jobs(platform) == []


def test_marking_the_task_failed_stops_the_job(platform: Platform) -> None:
    """Case A02, 2."""
    run = platform.deploy("third")
    assert len(fake_jobs(platform)) == 1
    platform.client.request(
        "PATCH", f"/dags/{SUPERVISE}/dagRuns/{run}/taskInstances/supervise", {"new_state": "failed"}
    )
    wait_for(lambda: not fake_jobs(platform))
    wait_for(lambda: platform.record.desired == "stopped")
    assert "was killed by a person" in platform.record.last_reason


@pytest.mark.kills
def test_a_job_of_a_paused_dag_is_healed_by_reconcile(platform: Platform) -> None:
    run = platform.deploy("fourth")
    platform.client.request("PATCH", f"/dags/{SUPERVISE}", {"is_paused": True})
    before = platform.pid
    os.kill(before, signal.SIGKILL)
    assert platform.run("millrace_reconcile", "heal") == "success"
    wait_for(lambda: platform.pid != before and platform.is_well())
    platform.client.request("PATCH", f"/dags/{SUPERVISE}", {"is_paused": False})
    assert platform.supervising_run() == run
    assert len(fake_jobs(platform)) == 1


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        # It has ended.
        return ""


def fake_jobs(platform: Platform) -> list[int]:
    directory = str(platform.home.application(APPLICATION).path)
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if directory in command and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def test_a_viewer_may_not_deploy(platform: Platform) -> None:
    passwords = json.loads((platform.airflow.directory / "passwords.json").read_text())
    viewer = AirflowClient(platform.airflow.address, username="viewer", password=passwords["viewer"])
    with pytest.raises(Exception, match="403"):
        viewer.trigger("millrace_deploy", "by_viewer", {"application": APPLICATION})
