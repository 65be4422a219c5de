"""The identity of a process, which is its number and the moment the kernel started it, and commands without leftovers.

A process number alone is not enough: after a crash the kernel may give the same number to another process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from millrace.errors import OperationError

_POLL_S = 0.05
_KILL_LIMIT_S = 10.0


@dataclass(frozen=True)
class ProcessIdentity:
    """The identity of one process for good: equal only if number and kernel start time both match.

    Args:
        pid: number of the process.
        start_time: when the kernel started it: clock ticks since boot on Linux, milliseconds since the epoch elsewhere.
            It is compared, never shown.
    """

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Returns the process that has the number ``pid`` now, or none if there is none (a zombie is none)."""
        start_time = _start_time(pid)
        return None if start_time is None else cls(pid, start_time)

    @classmethod
    def of_child(cls, process: subprocess.Popen[bytes]) -> ProcessIdentity:
        """Returns a process that this one has started and not waited for; it may have ended already."""
        start_time = _start_time(process.pid, also_ended=True)
        if start_time is None:
            raise ProcessLookupError(f"process {process.pid} was waited for")
        return cls(process.pid, start_time)

    @classmethod
    def current(cls) -> ProcessIdentity:
        """Returns the process that calls."""
        identity = cls.of(os.getpid())
        if identity is None:
            raise ProcessLookupError(f"process {os.getpid()} does not find itself")
        return identity

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ProcessIdentity:
        """Returns the identity in a JSON document with ``pid`` and ``start_time``.

        Raises:
            OperationError: one of them is missing. A process without a start time could be anybody, so it is no match.
        """
        pid, start_time = values.get("pid"), values.get("start_time")
        if isinstance(pid, int) and isinstance(start_time, int | float) and pid > 0:
            return cls(pid, int(start_time))
        raise OperationError(
            f"pid {pid!r} with start_time {start_time!r} names no process.",
            remedy="remove the file that says so once you have seen that the process is gone",
        )

    def to_mapping(self) -> dict[str, int]:
        """Returns ``pid`` and ``start_time``, for a JSON document."""
        return {"pid": self.pid, "start_time": self.start_time}

    def is_alive(self) -> bool:
        """Returns whether this very process still runs.

        A stopped one (SIGSTOP) is alive, a zombie without threads is not.
        """
        return _start_time(self.pid) == self.start_time

    def send_signal(self, number: signal.Signals) -> bool:
        """Sends a signal to this very process, and returns false if it is gone."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def signal_group(self, number: signal.Signals) -> bool:
        """Sends a signal to the process group that this very process leads, and returns false if it is gone.

        Raises:
            ValueError: the process does not lead its group, so the signal would reach strangers.
        """
        if not self.is_alive():
            return False
        try:
            if os.getpgid(self.pid) != self.pid:
                raise ValueError(f"process {self.pid} does not lead its process group")
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def terminate_group(self, *, timeout_s: float) -> bool:
        """Ends the group that the process leads: SIGTERM, then SIGKILL if the leader runs after ``timeout_s`` seconds.

        Returns:
            Whether the leader ended without SIGKILL.

        Raises:
            ValueError: the process does not lead its group.
        """
        if not self.signal_group(signal.SIGTERM) or self.wait_until_gone(timeout_s):
            return True
        self.signal_group(signal.SIGKILL)
        self.wait_until_gone(_KILL_LIMIT_S)
        return False

    def wait_until_gone(self, timeout_s: float) -> bool:
        """Waits until it has ended, for at most ``timeout_s`` seconds, and returns whether it has."""
        deadline = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True


def run_to_the_end(
    command: Sequence[str], *, timeout_s: float, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command that starts processes of its own; none of them is left, however this ends.

    Args:
        command: program and arguments.
        timeout_s: longest time that it may take, seconds.
        cwd: its working directory; that of the caller by default.
        environment: all its variables; those of the caller by default.

    Returns:
        Its exit code and what it wrote.

    Raises:
        subprocess.TimeoutExpired: it took longer.
        OSError: it cannot be started.
    """
    # No pipes: what it leaves would hold them open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout_s)
        finally:
            # Also where the caller is interrupted: the signal has reached none of these.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), errors.read())


def _start_time(pid: int, *, also_ended: bool = False) -> int | None:
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The name in parentheses may itself contain spaces and parentheses.
        fields = text.rpartition(")")[2].split()
        # Of a process that ends, the first thread can be gone before others are, and these still have its locks.
        has_ended = fields[0] in {"X", "x"} or (fields[0] == "Z" and int(fields[17]) <= 1)
        return None if has_ended and not also_ended else int(fields[19])
    try:
        process = psutil.Process(pid)
        has_ended = process.status() == psutil.STATUS_ZOMBIE
        return None if has_ended and not also_ended else int(process.create_time() * 1000)
    except psutil.NoSuchProcess:
        return None
