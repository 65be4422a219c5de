"""Airflow on this host as processes of this installation: settings, start, stop, and its REST interface.

Airflow itself is not imported: it runs in processes of its own.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from millrace.embedded.broker import free_ports
from millrace.embedded.record import read_record
from millrace.errors import ConfigurationError, OperationError
from millrace.install.files import write_json
from millrace.install.home import Home
from millrace.install.references import interpolate
from millrace.processes import ProcessIdentity
from millrace.tls import tls_context

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "config" / "airflow" / "airflow.env"
LOCAL_SETTINGS = SETTINGS.with_name("local.env")
HEALTH_PATH = "/api/v2/monitor/health"
BROKER_VARIABLE = "MILLRACE_BOOTSTRAP_SERVERS"
_POLL_S = 0.2
_KILL_LIMIT_S = 10.0
_BUSY_LIMIT_S = 60.0
_ANSWER_LIMIT_S = 120.0
_HEALTH_ANSWER_LIMIT_S = 30.0
_MOST_ATTEMPTS = 3
_LOG_GROUPS = ("::group::", "::endgroup::")
_DATABASE_ERROR = "Database error"


@dataclass(frozen=True, kw_only=True)
class AirflowService:
    """A running Airflow.

    Args:
        process: leader of its session.
        address: ``http://host:port`` of UI and REST interface.
        directory: its ``AIRFLOW_HOME``.
        password: password of the user ``admin``.
    """

    process: ProcessIdentity
    address: str
    directory: Path
    password: str

    def stop(self, *, timeout_s: float = 20.0) -> None:
        """End the whole session: SIGTERM to all of it, then SIGKILL to what is left.

        Args:
            timeout_s: how long its components may take to end by themselves, seconds. The triggerer is the slowest.
        """
        members = self._session()
        for member in members:
            member.send_signal(signal.SIGTERM)
        _wait_until_gone(members, timeout_s)
        deadline = time.monotonic() + _KILL_LIMIT_S
        # Again and again, since a component may have been starting another process at that moment.
        while members := self._session():
            if time.monotonic() > deadline:
                break
            for member in members:
                member.send_signal(signal.SIGKILL)
            _wait_until_gone(members, 1.0)
        else:
            return
        raise OperationError(
            f"Airflow's processes {[member.pid for member in members]} survived SIGKILL.",
            remedy="look at their state with `ps`",
        )

    def _session(self) -> list[ProcessIdentity]:
        """The live processes of the session that it leads, recognised by this Airflow's directory as well.

        A component that sets its process title overwrites its environment with it; what is left is where it works.
        """
        members = []
        for pid in psutil.pids():
            try:
                if os.getsid(pid) != self.process.pid:
                    continue
                process = psutil.Process(pid)
                places = (process.environ().get("AIRFLOW_HOME"), process.cwd())
                if str(self.directory) not in places:
                    continue
            except (ProcessLookupError, PermissionError, psutil.Error):
                # It ended meanwhile, or belongs to another user: not one of ours.
                continue
            if (identity := ProcessIdentity.of(pid)) is not None:
                members.append(identity)
        return members

    def client(self) -> AirflowClient:
        """A client with the rights of ``admin``."""
        return AirflowClient(self.address, password=self.password)


def read_settings(path: Path, places: Mapping[str, str]) -> dict[str, str]:
    """Read a file of ``NAME=value`` lines; ``${NAME}`` is filled in from ``places``.

    Raises:
        ConfigurationError: a line has no ``=``, or a place is not known.
    """
    settings = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationError(f"{path}:{number} has no `=`.", remedy="write NAME=value")
        settings[name.strip()] = str(interpolate(value.strip(), places))
    return settings


def start_airflow(
    home: Home,
    *,
    port: int = 0,
    settings: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
    progress: Callable[[str], None] | None = None,
) -> AirflowService:
    """Start Airflow's components in a session of their own and wait until its REST interface answers.

    See ``millrace_airflow.standalone``, which is what runs; it takes 15 to 40 s on two cores.

    Args:
        home: the installation; Airflow lives in its ``airflow`` directory, and its DAGs see this installation.
        port: port of the UI; 0 takes a free one.
        settings: variables that win over those of ``config/airflow``.
        timeout_s: how long it may take to answer, seconds.
        progress: gets a line of text now and then while it waits.

    Raises:
        OperationError: it ended, or did not answer in time; the end of its log is in the message.
    """
    directory = home.root / "airflow"
    directory.mkdir(parents=True, exist_ok=True)
    port = port or free_ports(1)[0]
    password = secrets.token_urlsafe(12)
    write_json(directory / "passwords.json", {"admin": password, "viewer": secrets.token_urlsafe(12)})
    (directory / "passwords.json").chmod(0o600)
    places = {
        "HOME_DIR": str(directory),
        "ROOT": str(ROOT),
        "PORT": str(port),
        "SECRET": secrets.token_urlsafe(32),
    }
    environment = {
        **os.environ,
        **read_settings(SETTINGS, places),
        **read_settings(LOCAL_SETTINGS, places),
        "MILLRACE_HOME": str(home.root),
        "MILLRACE_CONFIG_DIR": str(home.specs),
        **_embedded_broker(home),
        # For what tasks start.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        **(settings or {}),
    }
    log = directory / "standalone.log"
    with log.open("ab") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "millrace_airflow.standalone"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
    process = ProcessIdentity.of(started.pid)
    # No process waits for it: it outlives the caller on purpose.
    started.returncode = 0
    if process is None:
        raise OperationError(f"Airflow ended at once: {_end_of(log)}", remedy=f"read {log}")
    service = AirflowService(
        process=process, address=f"http://127.0.0.1:{port}", directory=directory, password=password
    )
    try:
        _wait_until_it_answers(service, log, timeout_s, progress)
    except BaseException:
        service.stop()
        raise
    return service


def _wait_until_gone(processes: Sequence[ProcessIdentity], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    for each in processes:
        each.wait_until_gone(max(0.0, deadline - time.monotonic()))


def _wait_until_it_answers(
    service: AirflowService, log: Path, timeout_s: float, progress: Callable[[str], None] | None
) -> None:
    begin = said = time.monotonic()
    while True:
        try:
            answer = httpx.get(
                f"{service.address}{HEALTH_PATH}", timeout=_HEALTH_ANSWER_LIMIT_S, trust_env=False, verify=tls_context()
            )
            health = answer.json() if answer.is_success else {}
        except (httpx.HTTPError, json.JSONDecodeError):
            health = {}
        parts = {name: (health.get(name) or {}).get("status") for name in ("scheduler", "triggerer", "dag_processor")}
        if all(status == "healthy" for status in parts.values()):
            return
        waited = time.monotonic() - begin
        if not service.process.is_alive() or waited > timeout_s:
            why = "ended" if not service.process.is_alive() else f"was not healthy after {timeout_s:.0f} s: {parts}"
            raise OperationError(f"Airflow {why}. The end of its log: {_end_of(log)}", remedy=f"read {log}")
        if progress is not None and time.monotonic() - said > 5:
            said = time.monotonic()
            progress(f"Airflow starts ({waited:.0f} s)")
        time.sleep(_POLL_S)


def _embedded_broker(home: Home) -> dict[str, str]:
    # Specifications refer to it; a caller that names another broker wins.
    record = None if os.environ.get(BROKER_VARIABLE) else read_record(home.root / "broker")
    return {BROKER_VARIABLE: record[1]} if record is not None and record[0].is_alive() else {}


def _end_of(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-5:])


class AirflowClient:
    """Airflow's REST interface, as far as it is needed.

    Args:
        address: ``http://host:port``.
        username: who asks.
        password: the password.
    """

    def __init__(self, address: str, *, password: str, username: str = "admin") -> None:
        self._client = httpx.Client(base_url=address, timeout=_ANSWER_LIMIT_S, trust_env=False, verify=tls_context())
        self._credentials = {"username": username, "password": password}
        self._token = ""

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """One request; the JSON of the answer. It is made again for some seconds while the database is busy.

        Args:
            method: HTTP method.
            path: below ``/api/v2``.
            body: JSON of the request.

        Raises:
            OperationError: the answer is an error; its text is in the message. Or there was none, for what only asks at
                the third attempt.
        """
        answer = self._answer(method, path, body)
        deadline = time.monotonic() + _BUSY_LIMIT_S
        # SQLite has one writer; a statement that it refused has changed nothing.
        while answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR and _DATABASE_ERROR in answer.text:
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
            answer = self._answer(method, path, body)
        if answer.is_error:
            raise OperationError(
                f"Airflow answered {answer.status_code} to {method} {path}: {answer.text[:500]}",
                remedy="see the API server's part of standalone.log",
            )
        return answer.json() if answer.content else None

    def _answer(self, method: str, path: str, body: Any) -> httpx.Response:
        for _ in range(2):
            if not self._token:
                answer = self._sent("POST", "/auth/token", self._credentials, attempts=_MOST_ATTEMPTS)
                answer.raise_for_status()
                self._token = str(answer.json()["access_token"])
            answer = self._sent(method, f"/api/v2{path}", body, attempts=_MOST_ATTEMPTS if method == "GET" else 1)
            if answer.status_code != httpx.codes.UNAUTHORIZED:
                break
            # The token lives for a day; a longer watch needs a new one.
            self._token = ""
        return answer

    def _sent(self, method: str, path: str, body: Any, *, attempts: int) -> httpx.Response:
        retrying = Retrying(
            retry=retry_if_exception_type(httpx.TimeoutException), stop=stop_after_attempt(attempts), reraise=True
        )
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            return retrying(self._client.request, method, path, json=body, headers=headers)
        except httpx.TimeoutException as error:
            raise OperationError(
                f"Airflow did not answer {method} {path} within {_ANSWER_LIMIT_S:g} s.",
                remedy="see the API server's part of standalone.log, and whether the machine is overloaded",
            ) from error

    def trigger(self, dag_id: str, run_id: str, conf: Mapping[str, Any] | None = None) -> None:
        """Start a run; the DAG must have been parsed."""
        self.request(
            "POST",
            f"/dags/{dag_id}/dagRuns",
            {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf or {})},
        )

    def run_state(self, dag_id: str, run_id: str) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        return str(self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """The task instance."""
        return dict(self.request("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"))

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The log of one try, one event a line, without the lines that only group the others."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        content = self.request("GET", path)["content"]
        lines = (str(line.get("event", line)) if isinstance(line, dict) else str(line) for line in content)
        return "\n".join(line for line in lines if not line.startswith(_LOG_GROUPS))
