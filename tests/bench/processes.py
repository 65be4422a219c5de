"""Starts a contestant in a process group of its own and ends all of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

from tests.bench.meter import ContestantFailedError

_GRACE_S = 30.0
_LOG_LINES = 15
_DAEMON = ("millrace.spark.python_daemon", "pyspark.daemon")
"""Modules of the Python daemon; the workers that it forks have its command line."""


class ContestantProcess:
    """A running contestant. Use it as a context manager: leaving it ends every process it started.

    Args:
        command: program and arguments.
        log: file that gets both output streams.
        environment: variables in addition to those of this process.
        directory: working directory.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None, directory: Path
    ) -> None:
        self._log = log
        with log.open("wb") as stream:
            self.started_at = time.monotonic()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=directory,
                start_new_session=True,
            )

    def __enter__(self) -> ContestantProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def check_alive(self) -> None:
        """Raise if the process has ended.

        Raises:
            ContestantFailedError: with the last lines of its log.
        """
        status = self._process.poll()
        if status is not None:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
            raise ContestantFailedError("\n".join([f"the process ended with status {status}; its last lines:", *lines]))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the process and all that descend from it (SIGKILL)."""
        for process in family_of(self._process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def end(self) -> None:
        """End the process and all that descend from it or share its group: politely first, then by force."""
        family = family_of(self._process.pid)
        if self._process.poll() is None:
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        with contextlib.suppress(ProcessLookupError):  # the whole group has ended by itself
            os.killpg(self._process.pid, signal.SIGKILL)
        # Children may have left the group (Spark's worker daemon does); psutil checks the start time of each.
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(_GRACE_S)
        psutil.wait_procs(family, timeout=_GRACE_S)


def family_of(pid: int) -> list[psutil.Process]:
    """A process and all that descend from it; none where it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def workers_of(pid: int) -> list[psutil.Process]:
    """The Python workers that descend from a process."""
    found = []
    for process in family_of(pid):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if is_python_worker(process):
                found.append(process)
    return found


def is_python_worker(process: psutil.Process) -> bool:
    """Whether Spark's Python daemon has forked a process."""
    parent, command = process.parent(), process.cmdline()
    return parent is not None and any(module in command for module in _DAEMON) and parent.cmdline() == command
