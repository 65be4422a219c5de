"""The processes of a demo: every one carries the demo's directory in its environment, or works inside it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil

from millrace.home import HOME_VARIABLE
from millrace.processes import ProcessIdentity


def processes_of(home: Path) -> list[ProcessIdentity]:
    """The live processes whose ``MILLRACE_HOME`` is ``home``, without the calling one and those above it.

    Airflow's API server overwrites its environment with its process title, so those that work inside it count too.
    """
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for pid in psutil.pids():
        if pid in own:
            continue
        try:
            process = psutil.Process(pid)
            if process.environ().get(HOME_VARIABLE) != str(home) and not Path(process.cwd()).is_relative_to(home):
                continue
        except psutil.Error:
            # It ended meanwhile, or belongs to another user: not one of ours.
            continue
        if (identity := ProcessIdentity.of(pid)) is not None:
            found.append(identity)
    return found


def end_processes_of(home: Path, *, timeout_s: float = 5.0) -> dict[int, str]:
    """Gives the processes of ``home`` some time to end by themselves, then kills them.

    Returns:
        Number and command line of each one that had to be killed.
    """
    deadline = time.monotonic() + timeout_s
    while (left := processes_of(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    killed = {process.pid: _command(process.pid) for process in left}
    for process in left:
        process.send_signal(signal.SIGKILL)
    for process in left:
        process.wait_until_gone(10)
    return killed


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())[:120]
    except psutil.Error:
        return "ended meanwhile"
