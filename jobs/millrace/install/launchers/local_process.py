"""A driver that is a process on this host, with its session: its JVM and the Python workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.driver.control_file import ControlFile
from millrace.driver.ending import Ending
from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import ControlPlane, DriverEnd, Ended, EndLimits, Presence, Probe
from millrace.install.launchers.session import (
    session_members,
    signal_session,
    stopped_processes,
    wait_until_session_is_gone,
)
from millrace.processes import ProcessIdentity

_NAMED = 4


@dataclass(frozen=True)
class LocalProcess:
    """A driver on this host.

    Args:
        process: the process that was launched, which leads its session.
    """

    process: ProcessIdentity
    probe_interval_s = 0.05

    @property
    def name(self) -> str:
        """The name for people."""
        return f"process {self.process.pid}"

    def to_mapping(self) -> Mapping[str, Any]:
        """Returns ``pid`` and ``start_time``."""
        return self.process.to_mapping()

    def probe(self, directory: ApplicationDirectory) -> Probe:
        """Asks the kernel, and reads the control file that the driver wrote."""
        if self.process.is_alive():
            stopped = stopped_processes(self.process.pid)
            return Probe(presence=Presence.ALIVE, control=_control(directory, self.process), stopped=_in_words(stopped))
        if (ending := Ending.read(directory.ended)) is not None and ending.is_of(self.process):
            end = DriverEnd(exit_code=ending.exit_code, reason=ending.reason, remedy=ending.remedy)
            return Probe(presence=Presence.GONE, text=f"{self.name} ended", ending=end)
        if ProcessIdentity.of(self.process.pid) is not None:
            return Probe(presence=Presence.TAKEN, text=f"{self.name} is another program by now")
        return Probe(presence=Presence.GONE, text=f"{self.name} ended without being asked to")

    def end(self, directory: ApplicationDirectory, limits: EndLimits) -> Ended:
        """Sends SIGTERM, then SIGKILL, to the driver's whole session.

        Processes that a dead driver left are ended too.
        """
        pid, steps = self.process.pid, []
        for number, limit_s in ((signal.SIGTERM, limits.terminate_s), (signal.SIGKILL, limits.kill_s)):
            if not session_members(pid, directory):
                break
            # A stopped process takes SIGTERM only when it goes on.
            count = signal_session(pid, directory, number)
            steps.append(f"{number.name} to {count} processes")
            wait_until_session_is_gone(pid, directory, timeout_s=limit_s)
        # A process that is ending has given up its environment a moment before the kernel forgets it.
        self.process.wait_until_gone(limits.kill_s)
        left = session_members(pid, directory) or ([self.process] if self.process.is_alive() else [])
        return Ended(
            steps=tuple(steps),
            left=f"processes {[member.pid for member in left]} survived SIGKILL" if left else "",
            remedy="look at their state with `ps`; a process in state D waits for a disk or network file system",
        )


def _in_words(stopped: Sequence[tuple[int, str]]) -> str:
    if not stopped:
        return ""
    named = ", ".join(f"{pid} ({name})" for pid, name in stopped[:_NAMED])
    more = f" and {len(stopped) - _NAMED} more" if len(stopped) > _NAMED else ""
    return f"stopped by a signal (SIGSTOP; SIGCONT continues it): process {named}{more}"


def _control(directory: ApplicationDirectory, process: ProcessIdentity) -> ControlPlane | None:
    # What an earlier driver left behind does not count: the file must be of the process or a child of its session.
    if not directory.control.exists():
        return None
    try:
        control = ControlFile.read(directory.control)
        if os.getsid(control.pid) != process.pid:
            return None
    except (OperationError, ProcessLookupError):
        return None
    return ControlPlane(address=control.address, token_file=directory.path / control.token_file)
