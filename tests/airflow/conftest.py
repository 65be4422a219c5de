"""One real Airflow for all tests of this directory, and one application whose driver is the fake job."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from millrace.ops import Home, JobRecord, Observation, observe, read_record, stop
from millrace.ops.airflow_service import AirflowClient, AirflowService, start_airflow
from millrace.ops.driver import UNRESPONSIVE
from millrace.ops.files import now_text, read_journal, read_json

FAKE_JOB = Path(__file__).with_name("fake_job.py")
APPLICATION = "payments"
SUPERVISE = f"millrace_supervise_{APPLICATION}"
T = TypeVar("T")


@dataclass(frozen=True)
class Platform:
    """Airflow and an installation."""

    home: Home
    airflow: AirflowService
    client: AirflowClient

    @property
    def pid(self) -> int:
        """Of the driver; 0 while one is being launched."""
        process = self.record.process
        return process.pid if process else 0

    def try_number(self, run_id: str) -> int:
        return int(self.client.task(SUPERVISE, run_id, "supervise")["try_number"])

    @property
    def record(self) -> JobRecord:
        record = read_record(self.home.application(APPLICATION))
        assert record is not None
        return record

    def observe(self) -> Observation:
        return observe(self.home, APPLICATION)

    def is_well(self) -> bool:
        return self.observe().verdict == "healthy"

    def starts(self) -> int:
        path = self.home.application(APPLICATION).path / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def journal(self, what: str) -> list[dict[str, Any]]:
        return [line for line in read_journal(self.home.application(APPLICATION)) if line["what"] == what]

    def set_mood(self, mood: str) -> None:
        (self.home.application(APPLICATION).path / "mood").write_text(mood)

    def run(self, dag_id: str, run_id: str, conf: dict[str, Any] | None = None, *, limit_s: float = 120) -> str:
        """Trigger a DAG and wait for its end."""
        self.client.trigger(dag_id, run_id, conf)
        wait_for(lambda: self.client.run_state(dag_id, run_id) in {"success", "failed"}, limit_s=limit_s)
        return self.client.run_state(dag_id, run_id)

    def supervising_run(self) -> str:
        """The active run of the supervise DAG, once its task is deferred and its trigger looks after the job.

        Airflow calls nothing of a trigger that was killed before it ran.
        """

        def deferred() -> str:
            for run in self.client.request("GET", f"/dags/{SUPERVISE}/dagRuns?state=running")["dag_runs"]:
                if self.client.task(SUPERVISE, run["dag_run_id"], "supervise")["state"] == "deferred":
                    return str(run["dag_run_id"])
            return ""

        def is_watched() -> bool:
            seen = read_json(self.home.application(APPLICATION).supervision) or {}
            return bool(seen["watcher"] == self.record.owner and seen["written_at"] > begin)

        run = wait_for(deferred, limit_s=90)
        begin = now_text()
        wait_for(is_watched, limit_s=90)
        return run

    def deploy(self, run_id: str) -> str:
        """Deploy the application; the run that supervises it."""
        assert self.run("millrace_deploy", run_id, {"application": APPLICATION}) == "success"
        return self.supervising_run()


def wait_for(condition: Callable[[], T], *, limit_s: float = 60.0) -> T:
    """What ``condition`` gives as soon as it is true."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.3)
    return found


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    root = tmp_path_factory.mktemp("millrace")
    home = Home(root=root / "home", specs=root / "apps")
    home.specs.mkdir()
    home.spec_path(APPLICATION).write_text(
        yaml.safe_dump(
            {
                "name": APPLICATION,
                "module": "apps.nothing:build",
                "config": {"bootstrap.servers": "localhost:1"},
                "launcher": {"command": ["{python}", str(FAKE_JOB), "{run_directory}"]},
                "preflight": {"enabled": False},
                "restart": {"initial_backoff_s": 0.0, "max_attempts": 20},
                "health": {
                    "no_answer_timeout_s": 3,
                    "no_progress_timeout_s": 3,
                    "poll_interval_s": 0.5,
                    "stop_timeout_s": 10,
                },
            }
        )
    )
    # A token life far below the time that the supervising task is deferred: see case A01.
    airflow = start_airflow(home, settings={"AIRFLOW__EXECUTION_API__JWT_EXPIRATION_TIME": "60"})
    try:
        client = airflow.client()
        wait_for(lambda: {SUPERVISE, "millrace_deploy"} <= set(dag_ids(client)), limit_s=120)
        yield Platform(home=home, airflow=airflow, client=client)
    finally:
        airflow.stop()
        stop(home, APPLICATION, limits=UNRESPONSIVE)


def dag_ids(client: AirflowClient) -> list[str]:
    return [dag["dag_id"] for dag in client.request("GET", "/dags")["dags"]]
