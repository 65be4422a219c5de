"""Waiting in tests: for a condition, with a limit, and for what a signal does."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import TypeVar

import psutil

from millrace.processes import ProcessIdentity

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.3
PATIENCE = 4
"""How many times longer than its limit a wait may take before the test is given up.

Limits are meant for two quiet cores. Machines of the same kind were found to be four times slower for minutes; what a
test waits for comes there, too, only later. What it claims of times is no such limit: see ``is_claim`` of
:func:`tests.application.wait_until`, or it measures them itself.
"""


def eventually(ask: Callable[[], T], expected: object, *, limit_s: float = 15) -> None:
    """Ask until the answer is as expected; fails with the last answer after ``limit_s`` seconds times `PATIENCE`."""
    limit_s *= PATIENCE
    deadline = time.monotonic() + limit_s
    while (answer := ask()) != expected:
        assert time.monotonic() < deadline, f"still {answer!r} after {limit_s} s, expected {expected!r}"
        time.sleep(0.05)


def wait_for(condition: Callable[[], T], *, limit_s: float = 60) -> T:
    """What ``condition`` gives as soon as it is true; fails after ``limit_s`` seconds times `PATIENCE`."""
    limit_s *= PATIENCE
    deadline = time.monotonic() + limit_s
    pause_s = _FIRST_PAUSE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"the condition did not come true within {limit_s} s"
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
    return found


def stop_process(pid: int) -> None:
    """Stop a process (SIGSTOP) and return once the kernel shows it as stopped, which is later than the signal."""
    os.kill(pid, signal.SIGSTOP)
    eventually(psutil.Process(pid).status, psutil.STATUS_STOPPED)


def stop_process_for(pid: int, seconds: float) -> None:
    """Stop a process for some time, which is itself the failure; others may end it meanwhile."""
    process = psutil.Process(pid)
    process.suspend()
    try:
        time.sleep(seconds)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()


def kill_process(pid: int) -> None:
    """Kill a process (SIGKILL) and return once it is gone, or only its parent's to collect."""
    process = ProcessIdentity.of(pid)
    assert process is not None, f"process {pid} is gone already"
    assert process.send_signal(signal.SIGKILL)
    assert process.wait_until_gone(15 * PATIENCE), f"process {pid} survived SIGKILL"
