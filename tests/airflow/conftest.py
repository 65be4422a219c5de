"""One real Airflow for all tests of this directory, with two applications: one whose driver is the fake job, and a real
one, which runs only once a test asks for it."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo.airflow_service import AirflowClient, AirflowService, start_airflow
from millrace.install.application import Application
from millrace.install.files import now_text, read_journal, read_json
from millrace.install.home import Home
from millrace.install.record import JobRecord, read_record
from millrace.launch import Observation, observe
from millrace.launch.driver import UNRESPONSIVE
from millrace.operations import stop
from millrace.task.crash_points import DIRECTORY_VARIABLE
from tests.application import SEARCH_PATH
from tests.waiting import wait_for

from .orders import NAME, SECRET, SECRET_VARIABLE, UNREADY, Orders

ROOT = Path(__file__).resolve().parents[2]
FAKE_JOB = Path(__file__).with_name("fake_job.py")
APPLICATION = "payments"
SUPERVISE = f"millrace_supervise_{APPLICATION}"
WEBHOOK_TOKEN = "token-of-the-webhook"
SCHEDULED = ("COMPACTION", "STATE_AUDIT", "SAVEPOINT", "STREAM_ASSETS", "RECOVERY_DRILL", "METRICS_EXPORT")


@dataclass(frozen=True)
class Platform:
    """Airflow and an installation."""

    home: Home
    airflow: AirflowService
    client: AirflowClient
    webhook: Webhook
    crash_points: Path
    metrics: StatsdListener

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
        return observe(Application(self.home, APPLICATION))

    def is_well(self) -> bool:
        return self.observe().verdict == "healthy"

    def starts(self) -> int:
        path = self.home.application(APPLICATION).path / "starts"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def journal(self, what: str) -> list[dict[str, Any]]:
        return [line for line in read_journal(self.home.application(APPLICATION)) if line["what"] == what]

    def set_mood(self, mood: str) -> None:
        (self.home.application(APPLICATION).path / "mood").write_text(mood)

    def kill_once_at(self, point: str) -> None:
        """The next process of Airflow that reaches a crash point dies there."""
        armed = self.crash_points / f".{point}"
        armed.write_text("")
        armed.rename(self.crash_points / point)

    def end_of_log(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1, lines: int = 8) -> str:
        """The last lines of a task's last try."""
        return "\n".join(self.log(dag_id, run_id, task_id, map_index=map_index).splitlines()[-lines:])

    def log(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> str:
        """The log of a task's last try."""
        task = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        mapped = f"/{map_index}" if map_index >= 0 else ""
        attempt = self.client.request("GET", f"{task}{mapped}")["try_number"]
        content = self.client.request("GET", f"{task}/logs/{attempt}?map_index={map_index}")["content"]
        return "\n".join(str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in content)

    def run(self, dag_id: str, run_id: str, conf: dict[str, Any] | None = None, *, limit_s: float = 240) -> str:
        """Trigger a DAG and wait for its end."""
        self.client.trigger(dag_id, run_id, conf)
        return self.wait_for_run(dag_id, run_id, limit_s=limit_s)

    def wait_for_run(self, dag_id: str, run_id: str, *, limit_s: float = 240) -> str:
        """Wait for the end of a run; how it ended. What failed tells why, which pytest shows where a test fails."""
        wait_for(lambda: self.client.run_state(dag_id, run_id) in {"success", "failed"}, limit_s=limit_s)
        state = self.client.run_state(dag_id, run_id)
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        for task in self.client.request("GET", path)["task_instances"] if state == "failed" else ():
            if task["state"] == "failed":
                end = self.end_of_log(dag_id, run_id, task["task_id"], map_index=task["map_index"], lines=20)
                sys.stderr.write(f"{dag_id} {run_id} {task['task_id']} failed:\n{end}\n")
        return state

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


class Webhook:
    """A server that keeps what is posted to it."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        received = self.received

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                received.append({**body, "authorization": self.headers.get("Authorization", "")})
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def connection(self) -> str:
        """The connection to it, as Airflow takes it from its environment."""
        host = f"http://127.0.0.1:{self._server.server_port}/told"
        return json.dumps({"conn_type": "http", "host": host, "password": WEBHOOK_TOKEN})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class StatsdListener:
    """Keeps the names and tags of what is sent to it, as statsd_exporter makes series of them."""

    def __init__(self) -> None:
        self.labels: dict[str, set[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def settings(self) -> dict[str, str]:
        """Settings of an Airflow that sends to it."""
        return {"AIRFLOW__METRICS__STATSD_PORT": str(self._socket.getsockname()[1])}

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        while True:
            try:
                data = self._socket.recv(65_536)
            except OSError:
                return
            if not data:
                return
            for line in data.decode().splitlines():
                name, *tags = line.partition(":")[0].split(",")
                series = re.sub(r"[^A-Za-z0-9_]", "_", name)
                self.labels.setdefault(series, set()).update(tag.partition("=")[0] for tag in tags)


def bundles() -> str:
    """The DAGs of the platform, and those of these tests."""
    kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
    paths = {"platform": ROOT / "dags", "tests": Path(__file__).with_name("dags")}
    return json.dumps(
        [
            {"name": name, "classpath": kind, "kwargs": {"path": str(path), "refresh_interval": 10}}
            for name, path in paths.items()
        ]
    )


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory, bootstrap_servers: str) -> Iterator[Platform]:
    root = tmp_path_factory.mktemp("millrace")
    home = Home(root=root / "home", specs=root / "apps")
    home.specs.mkdir()
    crash_points = root / "crash-points"
    crash_points.mkdir()
    # For what tests do themselves; Airflow's processes inherit it.
    os.environ[SECRET_VARIABLE] = SECRET
    Orders(home, bootstrap_servers).specify()
    Orders(home, bootstrap_servers, UNREADY, "totals_of_nothing").specify()
    webhook, metrics = Webhook(), StatsdListener()
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
    airflow = start_airflow(
        home,
        settings={
            # A token life far below the time that the supervising task is deferred: see case A01.
            "AIRFLOW__EXECUTION_API__JWT_EXPIRATION_TIME": "60",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": bundles(),
            "AIRFLOW_CONN_MILLRACE_WEBHOOK": webhook.connection,
            **metrics.settings,
            # What runs by itself would come in between; only the safety net does.
            **{f"MILLRACE_SCHEDULE_{name}": "none" for name in SCHEDULED},
            DIRECTORY_VARIABLE: str(crash_points),
            # Each file is parsed in a process of its own, twice: there are two Airflows.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "45",
            # Whatever else there is to import, it comes before what is installed.
            "PYTHONPATH": SEARCH_PATH,
        },
    )
    try:
        client = airflow.client()
        wait_for(lambda: {SUPERVISE, "millrace_deploy", "reads_what_came"} <= set(dag_ids(client)), limit_s=240)
        yield Platform(
            home=home, airflow=airflow, client=client, webhook=webhook, crash_points=crash_points, metrics=metrics
        )
    finally:
        airflow.stop()
        for application in (APPLICATION, NAME, UNREADY):
            stop(Application(home, application), limits=UNRESPONSIVE)
        webhook.close()
        metrics.close()
        del os.environ[SECRET_VARIABLE]


def dag_ids(client: AirflowClient) -> list[str]:
    return [dag["dag_id"] for dag in client.request("GET", "/dags")["dags"]]
