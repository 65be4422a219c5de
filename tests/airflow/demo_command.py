"""`make demo` and `make platform` as their users run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from millrace.home import HOME_VARIABLE, millrace_home
from millrace.install.home import Home
from tests.application import ROOT, SEARCH_PATH
from tests.waiting import PATIENCE

APPLICATION = "fraud-detection"


class DemoCommand:
    """The running command, and what it has printed.

    Args:
        base: directory of the installation; the jars of this machine's own are linked into it.
        name: of the command's own directory in it.
        options: arguments.
    """

    def __init__(self, base: Path, name: str, *options: str) -> None:
        (base / "jars").symlink_to(millrace_home() / "jars")
        self.home = Home.at(base / name)
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demo", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
            env={
                **os.environ,
                HOME_VARIABLE: str(base),
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

    def times(self, words: str) -> int:
        """How many lines with them it has printed; fails when it ended without any."""
        found = sum(words in line for line in list(self.lines))
        assert found or self._process.poll() is None, "\n".join(self.lines)
        return found

    def said(self, words: str) -> bool:
        """Whether it has printed them; fails when it ended without."""
        return self.times(words) > 0

    def exit_code(self, limit_s: float) -> int:
        code = self._process.wait(limit_s * PATIENCE)
        self._reader.join(10)
        return code

    def interrupt(self) -> None:
        """What Ctrl-C does; it then stops everything that it started."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        """Has it end if it runs still."""
        if self._process.poll() is None:
            self.interrupt()
            self._process.wait(120 * PATIENCE)
