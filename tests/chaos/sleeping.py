"""An application that is stopped as a whole (SIGSTOP), as on a host that hangs, and goes on once it was replaced."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from datetime import datetime

import psutil

from millrace.driver.driver_options import ExitCode
from millrace.driver.ending import Ending
from tests.application import Application
from tests.chaos.kills import status_of

FENCED_LIMIT_S = 2.0
"""How long a driver may live once it knows of a newer one, its workers included."""

_KNOWS = "fenced by a newer driver: all work ends"


def freeze(application: Application) -> list[psutil.Process]:
    """Stops all processes of an application, those included that one of them has just started."""
    while running := [each for each in application.session() if status_of(each) != psutil.STATUS_STOPPED]:
        for process in running:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
    return application.session()


def assert_ends_fenced(application: Application, *, notices_within_s: float = 60.0) -> str:
    """Waits until a driver that was replaced has ended: within two seconds of its knowing, and saying why.

    Returns:
        The reason that it gives.
    """
    deadline = time.monotonic() + notices_within_s
    while application.is_alive():
        assert time.monotonic() < deadline, f"it still works:\n{application.log[-4000:]}"
        time.sleep(0.02)
    ended_at = time.time()
    assert application.wait_for_exit(10) == ExitCode.FENCED
    (known_at,) = (datetime.fromisoformat(line["timestamp"]).timestamp() for line in _lines(application, _KNOWS))
    lived = ended_at - known_at
    # The log's time and the kernel's: what lies between is the machine's.
    assert lived < FENCED_LIMIT_S + 0.5, f"it lived for {lived:.1f} s:\n{application.log[-4000:]}"
    late = [line for line in _lines(application, "task opened") if _at(line) > known_at]
    assert not late, "a task was opened by a driver that knew that it was replaced"
    ending = Ending.read(application.run_directory / "ended.json")
    assert ending is not None
    assert ending.exit_code == ExitCode.FENCED
    return ending.reason


def _lines(application: Application, event: str) -> Iterator[dict[str, str]]:
    for text in application.log.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            line = json.loads(text)
            if isinstance(line, dict) and line.get("event") == event:
                yield line


def _at(line: dict[str, str]) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()
