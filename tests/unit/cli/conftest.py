"""Runs command lines in this process, in an installation of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import pytest

from millrace.cli.application import run


@dataclass(frozen=True)
class Result:
    """What a command line gave."""

    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty installation with an empty directory of specifications."""
    specs = tmp_path / "apps"
    specs.mkdir()
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MILLRACE_CONFIG_DIR", str(specs))
    monkeypatch.setenv("MILLRACE_BOOTSTRAP_SERVERS", "")
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open no session of Spark: ``millrace run`` begins to, in a thread, before it knows whether it can import the
    application. Its process ends then; this one here does not, so the thread would download the connector into the
    test's installation, write about it, and start a virtual machine, while later tests run.
    """
    session: Future[object] = Future()
    session.set_exception(AssertionError("a unit test has come as far as Spark's session"))
    monkeypatch.setattr("millrace.spark.session.open_session", lambda *_: session)


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """``cli("topology", "x")`` runs ``millrace topology x``."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, verbose: bool = False) -> Result:
        code = run(list(arguments), verbose=verbose)
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return call
