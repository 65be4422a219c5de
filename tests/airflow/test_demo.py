"""README's first command as its user runs it, with a driver that is killed in the middle.

Everything is real here: the broker, Airflow, the application on Spark, and the supervision that starts it again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from millrace.home import HOME_VARIABLE, millrace_home
from millrace.ops import Home, observe
from millrace.ops.files import read_journal
from millrace.processes import ProcessIdentity
from tests.application import SEARCH_PATH

from .conftest import wait_for

ROOT = Path(__file__).resolve().parents[2]
APPLICATION = "fraud-detection"
SECONDS = 60


class Demo:
    """The running command, and what it has printed."""

    def __init__(self, home: Path) -> None:
        self.home = Home.at(home / "demo")
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo", "--seconds", str(SECONDS), "--rate", "300"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={
                **os.environ,
                HOME_VARIABLE: str(home),
                "PYTHONPATH": SEARCH_PATH,
                "COLUMNS": "200",
            },
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.rstrip() for line in self._process.stdout)

    def said(self, words: str) -> bool:
        """Whether it has printed them; fails when it ended without."""
        found = any(words in line for line in self.lines)
        assert found or self._process.poll() is None, "\n".join(self.lines)
        return found

    def exit_code(self, limit_s: float) -> int:
        code = self._process.wait(limit_s)
        self._reader.join(10)
        return code

    def end(self) -> None:
        """What Ctrl-C does; it stops everything that it started."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(120)


def driver_of(home: Home) -> ProcessIdentity | None:
    return observe(home, APPLICATION).process


@pytest.mark.timeout(600)
def test_the_demo_is_exactly_once_although_its_driver_is_killed(tmp_path: Path) -> None:
    (tmp_path / "jars").symlink_to(millrace_home() / "jars")
    demo = Demo(tmp_path)
    try:
        wait_for(lambda: demo.said("ALERT"), limit_s=300)
        killed = driver_of(demo.home)
        assert killed is not None
        killed.send_signal(signal.SIGKILL)
        restarted = wait_for(lambda: (now := driver_of(demo.home)) is not None and now != killed and now, limit_s=60)
        assert isinstance(restarted, ProcessIdentity)
        code = demo.exit_code(SECONDS + 150)
    finally:
        demo.end()
    printed = "\n".join(demo.lines)
    assert code == 0, printed
    assert "EXACTLY ONCE" in printed
    assert "no process is left" in printed
    reasons = [line["reason"] for line in read_journal(demo.home.application(APPLICATION)) if line["what"] == "launch"]
    assert any(f"process {killed.pid} ended without being asked to" in reason for reason in reasons), reasons
    assert not restarted.is_alive()
