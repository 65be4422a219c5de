"""The notifier against a real server; mail is Airflow's own."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection

from millrace.errors import OperationError
from millrace_airflow.notifications import MillraceNotifier
from millrace_airflow.notifications.millrace import MAIL_VARIABLE, url_of
from tests.unit.airflow.lines import Lines


class Server(http.server.ThreadingHTTPServer):
    received: list[tuple[str, dict[str, Any], str]]
    answer = 204


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, Server)
        self.server.received.append((self.path, body, self.headers.get("Authorization", "")))
        self.send_response(self.server.answer)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Lines:
    """What the notifier logs."""
    log = Lines()
    monkeypatch.setattr(MillraceNotifier, "log", log)
    return log


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server(("127.0.0.1", 0), Handler)
    served.received = []
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def failed() -> dict[str, Any]:
    task = SimpleNamespace(application="payments")
    instance = SimpleNamespace(
        dag_id="millrace_reset", task_id="reset", run_id="manual__1", try_number=1, log_url="http://airflow/log"
    )
    return {"ti": instance, "task": task, "exception": ValueError("It runs. What to do: stop it"), "dag": None}


def use_connection(monkeypatch: pytest.MonkeyPatch, server: Server, **more: Any) -> None:
    document = {"conn_type": "http", "host": f"http://127.0.0.1:{server.server_port}/told", **more}
    monkeypatch.setenv("AIRFLOW_CONN_MILLRACE_WEBHOOK", json.dumps(document))


def test_it_posts_what_failed_and_ends_the_log_with_what_to_do(
    server: Server, monkeypatch: pytest.MonkeyPatch, told: Lines
) -> None:
    use_connection(monkeypatch, server, password="token")
    MillraceNotifier()(failed())
    ((path, body, authorization),) = server.received
    assert (path, authorization) == ("/told", "Bearer token")
    assert body == {
        "dag_id": "millrace_reset",
        "task_id": "reset",
        "run_id": "manual__1",
        "try_number": 1,
        "application": "payments",
        "error": "It runs. What to do: stop it",
        "log_url": "http://airflow/log",
    }
    assert told.lines[-2:] == ["What happened: It runs.", "What to do: stop it"]


def test_an_error_of_millrace_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch, told: Lines) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MILLRACE_WEBHOOK", raising=False)
    MillraceNotifier()({**failed(), "exception": OperationError("It runs.", remedy="stop it")})
    assert told.lines[-2:] == ["What happened: It runs.", "What to do: stop it"]


def test_a_server_that_refuses_is_said_and_the_log_still_ends_with_what_to_do(
    server: Server, monkeypatch: pytest.MonkeyPatch, told: Lines
) -> None:
    server.answer = 500
    use_connection(monkeypatch, server)
    MillraceNotifier()(failed())
    assert any("could not be told by webhook" in message for message in told.lines)
    assert told.lines[-1] == "What to do: stop it"


def test_with_nothing_configured_it_says_that_nobody_is_told(monkeypatch: pytest.MonkeyPatch, told: Lines) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MILLRACE_WEBHOOK", raising=False)
    MillraceNotifier()(failed())
    assert any("reported in this log only" in message for message in told.lines)
    assert told.lines[-2:] == ["What happened: It runs.", "What to do: stop it"]


@pytest.mark.parametrize(
    ("host", "schema", "port", "url"),
    [
        ("https://example.com/hook", None, None, "https://example.com/hook"),
        ("example.com", None, None, "https://example.com"),
        ("example.com", "http", 8080, "http://example.com:8080"),
    ],
)
def test_the_url_comes_from_the_connection(host: str, schema: str | None, port: int | None, url: str) -> None:
    assert url_of(Connection(conn_id="x", conn_type="http", host=host, schema=schema, port=port)) == url


def test_mail_goes_through_airflows_smtp_connection(monkeypatch: pytest.MonkeyPatch, told: Lines) -> None:
    """A server that no process runs: it is tried, and the failure said."""
    monkeypatch.setenv(f"AIRFLOW_VAR_{MAIL_VARIABLE.upper()}", "a@example.com, b@example.com")
    extra = {"from_email": "m@example.com", "disable_ssl": True, "disable_tls": True, "retry_limit": 1}
    smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": 1, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(smtp))
    MillraceNotifier()(failed())
    assert any("could not be told by mail" in message for message in told.lines)
