"""An installation whose drivers are the fake job, for unit tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.launch.driver import UNRESPONSIVE
from millrace.operations import stop

FAKE_JOB = Path(__file__).resolve().parent / "airflow" / "fake_job.py"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """An installation of its own; whatever was started in it is ended."""
    home = Home(root=tmp_path / "home", specs=tmp_path / "apps")
    home.specs.mkdir(parents=True)
    yield home
    for application in home.deployed():
        stop(Application(home, application), limits=UNRESPONSIVE)


@pytest.fixture
def write_spec(home: Home) -> Callable[..., Path]:
    """Writes a specification whose driver is the fake job."""

    def write(name: str = "payments", **changes: object) -> Path:
        document = {
            "name": name,
            "module": "apps.nothing:build",
            "config": {"bootstrap.servers": "localhost:1"},
            "launcher": {"command": ["{python}", str(FAKE_JOB), "{run_directory}"]},
            "preflight": {"enabled": False},
            "restart": {"initial_backoff_s": 0.0},
            "health": {"no_answer_timeout_s": 0.5, "no_progress_timeout_s": 0.5, "stop_timeout_s": 5},
            **changes,
        }
        path = home.spec_path(name)
        path.write_text(yaml.safe_dump(document))
        return path

    return write
