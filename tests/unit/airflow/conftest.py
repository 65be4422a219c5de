from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import yaml

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.launch.driver import UNRESPONSIVE
from millrace.operations import stop
from millrace.supervise import deploy, wait_until_ready

FAKE_JOB = Path(__file__).resolve().parents[2] / "airflow" / "fake_job.py"
NAME = "payments"
OWNER = "manual__1/1"


@pytest.fixture(autouse=True)
def _log_to_a_file_that_stays_open() -> None:
    # Airflow sets structlog up once, for the standard output that pytest had in place then and has closed since.
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=sys.__stderr__))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """An installation where the fake job runs, owned by ``manual__1/1``."""
    home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
    home.specs.mkdir()
    home.spec_path(NAME).write_text(
        yaml.safe_dump(
            {
                "name": NAME,
                "module": "apps.nothing:build",
                "config": {"bootstrap.servers": "localhost:1"},
                "launcher": {"command": ["{python}", str(FAKE_JOB), "{run_directory}"]},
                "preflight": {"enabled": False},
                "restart": {"initial_backoff_s": 0, "max_attempts": 2},
                "health": {"poll_interval_s": 0.05, "no_answer_timeout_s": 0.5},
            }
        )
    )
    deploy(Application(home, NAME), owner=OWNER)
    wait_until_ready(Application(home, NAME), timeout_s=120)
    yield home
    stop(Application(home, NAME), limits=UNRESPONSIVE)
