"""Ending Airflow: everything that it started goes, also what outlives its leader. And asking it while it is slow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psutil
import pytest

from demo.airflow_service import AirflowClient, AirflowService
from millrace.errors import OperationError
from millrace.processes import ProcessIdentity

# A leader that ends on SIGTERM, with a component that does not.
_LEADER = """
import subprocess, sys, time
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_component_that_outlives_the_leader_is_killed_within_the_limit(tmp_path: Path) -> None:
    leader = subprocess.Popen(
        [sys.executable, "-c", _LEADER],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert leader.stdout is not None
    component = int(leader.stdout.readline())
    process = ProcessIdentity.of(leader.pid)
    assert process is not None
    service = AirflowService(process=process, address="http://127.0.0.1:1", directory=tmp_path, password="")
    begin = time.monotonic()
    service.stop(timeout_s=1.0)
    assert time.monotonic() - begin < 8
    assert leader.wait(5) == -15
    assert not psutil.pid_exists(component) or psutil.Process(component).status() == psutil.STATUS_ZOMBIE
    leader.stdout.close()


def test_stopping_what_has_ended_does_nothing(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    identity = ProcessIdentity(ended.pid, 1)
    ended.wait()
    AirflowService(process=identity, address="", directory=tmp_path, password="").stop(timeout_s=1.0)


def client_of(answer: Callable[[httpx.Request], httpx.Response]) -> AirflowClient:
    """A client of a server that lets everyone in, and answers like this."""

    def answer_to(request: httpx.Request) -> httpx.Response:
        is_login = request.url.path == "/auth/token"
        return httpx.Response(201, json={"access_token": "t"}) if is_login else answer(request)

    client = AirflowClient("http://airflow", password="p")
    client._client = httpx.Client(base_url="http://airflow", transport=httpx.MockTransport(answer_to))
    return client


class SlowServer:
    """Answers nothing in time for some requests to the API, and everything afterwards."""

    def __init__(self, *, silent: int) -> None:
        self.silent = silent
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.method)
        if len(self.asked) <= self.silent:
            raise httpx.ReadTimeout("timed out", request=request)
        return httpx.Response(200, json={"state": "running"})

    def client(self) -> AirflowClient:
        return client_of(self)


def test_what_only_asks_is_asked_again_where_airflow_is_slow() -> None:
    server = SlowServer(silent=2)
    assert server.client().run_state("dag", "run") == "running"
    assert server.asked == ["GET"] * 3


def test_an_airflow_that_stays_silent_is_named_with_the_request() -> None:
    server = SlowServer(silent=9)
    with pytest.raises(OperationError, match="did not answer GET /api/v2/dags/dag/dagRuns/run within 120 s"):
        server.client().run_state("dag", "run")
    assert server.asked == ["GET"] * 3


@pytest.mark.parametrize(("silent", "is_answered"), [(2, True), (3, False)])
def test_a_login_is_asked_for_again_where_airflow_is_slow(silent: int, is_answered: bool) -> None:
    logins = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/auth/token":
            return httpx.Response(200, json={"state": "running"})
        logins.append(request)
        if len(logins) <= silent:
            raise httpx.ReadTimeout("timed out", request=request)
        return httpx.Response(201, json={"access_token": "t"})

    client = AirflowClient("http://airflow", password="p")
    client._client = httpx.Client(base_url="http://airflow", transport=httpx.MockTransport(answer))
    if is_answered:
        assert client.run_state("dag", "run") == "running"
    else:
        with pytest.raises(OperationError, match="did not answer POST /auth/token"):
            client.run_state("dag", "run")
    assert len(logins) == 3


def test_what_changes_something_is_sent_once() -> None:
    server = SlowServer(silent=9)
    with pytest.raises(OperationError, match="did not answer POST"):
        server.client().trigger("dag", "run")
    assert server.asked == ["POST"]


def test_the_log_of_a_task_is_what_it_has_said() -> None:
    content = [
        {"event": "::group::Log message source details"},
        {"event": "/logs/attempt=1.log"},
        {"event": "::endgroup::"},
        {"event": "::group::Pre Execute", "logger": "task"},
        {"event": "launched process 7"},
        "a line without fields",
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/api/v2/dags/dag/dagRuns/run/taskInstances/deploy/logs/1"
        return httpx.Response(200, json={"content": content})

    assert client_of(answer).task_log("dag", "run", "deploy").splitlines() == [
        "/logs/attempt=1.log",
        "launched process 7",
        "a line without fields",
    ]
