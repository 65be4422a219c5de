"""The processes that a driver brought along: its session."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil

from millrace.install.home import ApplicationDirectory
from millrace.processes import ProcessIdentity

RUN_DIRECTORY_VARIABLE = "MILLRACE_RUN_DIRECTORY"
_POLL_S = 0.05


def session_members(leader: int, directory: ApplicationDirectory) -> list[ProcessIdentity]:
    """Returns the live processes of the session that the driver ``leader`` opened: its JVM, the Python workers, itself.

    A process counts only if it carries the application's run directory in its environment: the number of a session
    that is gone may belong to another process by now.
    """
    members = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) != leader:
                continue
            if psutil.Process(pid).environ().get(RUN_DIRECTORY_VARIABLE) != str(directory.path):
                continue
        except (ProcessLookupError, PermissionError, psutil.Error):
            # It ended meanwhile, or belongs to another user: not one of ours.
            continue
        if (identity := ProcessIdentity.of(pid)) is not None:
            members.append(identity)
    return members


def find_driver(directory: ApplicationDirectory) -> ProcessIdentity | None:
    """Returns a driver of the application that the record lacks: the operation that launched it was killed at once."""
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == pid and psutil.Process(pid).environ().get(RUN_DIRECTORY_VARIABLE) == str(
                directory.path
            ):
                return ProcessIdentity.of(pid)
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    return None


def stopped_processes(leader: int) -> list[tuple[int, str]]:
    """Returns the number and name of the processes of a session that a signal has stopped.

    There are none without ``/proc``.

    One look at the kernel's table, as a supervisor looks every second: nothing of the processes themselves is read.
    """
    stopped = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, _, after = stat.read_text().rpartition(")")
        except (OSError, UnicodeDecodeError):
            continue  # it ended meanwhile
        # State, parent, group, session.
        fields = after.split(maxsplit=4)
        if fields[0] == "T" and int(fields[3]) == leader:
            number, _, name = before.partition(" (")
            stopped.append((int(number), name))
    return sorted(stopped)


def signal_session(leader: int, directory: ApplicationDirectory, number: signal.Signals) -> int:
    """Sends a signal to all members of the session, and returns how many there were."""
    return sum(member.send_signal(number) for member in session_members(leader, directory))


def wait_until_session_is_gone(leader: int, directory: ApplicationDirectory, *, timeout_s: float) -> bool:
    """Waits until no member of the session lives, for at most ``timeout_s`` seconds, and returns whether none does."""
    deadline = time.monotonic() + timeout_s
    while session_members(leader, directory):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
