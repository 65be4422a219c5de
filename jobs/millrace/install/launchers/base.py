"""The interface of launchers, and the start and end of a driver's process on this host."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory
from millrace.install.launchers.instance import DriverInstance
from millrace.install.launchers.local_process import LocalProcess
from millrace.install.launchers.session import RUN_DIRECTORY_VARIABLE, find_driver
from millrace.install.spec import ApplicationSpec
from millrace.processes import ProcessIdentity

OPERATION_VARIABLE = "MILLRACE_OPERATION"
"""Id of the multi-step operation that started the driver; empty where none did."""
KEPT_LOGS = 5
_ENDING_LIMIT_S = 10.0
"""Longest time from the last sign of a process that ends until its locks are free, on a busy machine."""

_POLL_S = 0.02
_SOURCES = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A process to be started.

    Args:
        command: program and arguments.
        environment: variables that are set beside those of the caller.
        log: file that gets standard output and error.
        files: what is written before, by its path, readable by its owner only.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    log: Path
    files: Mapping[Path, str] = field(default_factory=dict)


class Launcher(Protocol):
    """Starts the driver of an application somewhere. A launcher holds no state: what it started is in the record."""

    kind: str

    def state_elsewhere(self, spec: ApplicationSpec) -> str:
        """Returns where the application's stores are if not on this host, in words.

        It is empty if operations can read them.
        """
        ...

    def plan(self, spec: ApplicationSpec, directory: ApplicationDirectory) -> Launch:
        """Returns the driver that would be started.

        Raises:
            ConfigurationError: the specification lacks something that this launcher needs.
        """
        ...

    def start(self, launch: Launch, directory: ApplicationDirectory) -> DriverInstance:
        """Starts it and returns as soon as it can be named.

        Raises:
            OperationError: it could not be started, or a driver of the application lives already.
        """
        ...

    def find(self, directory: ApplicationDirectory) -> DriverInstance | None:
        """Returns the driver that was started and that the record does not name, since whoever started it was killed.

        Raises:
            OperationError: there is one and it cannot be told, or no process can be asked.
        """
        ...

    def instance_of(self, values: Mapping[str, Any]) -> DriverInstance | None:
        """Returns the driver in a record, as its ``to_mapping`` wrote it; none where the record has none.

        Raises:
            OperationError: the values name no driver.
        """
        ...


def driver_command(spec: ApplicationSpec, directory: ApplicationDirectory) -> tuple[str, ...]:
    """Returns the command of the driver: ``millrace run``, or the specification's own with placeholders filled in."""
    template = spec.launcher.command or [
        "{python}", "-m", "millrace", "run", "{spec}", "--run-directory", "{run_directory}",
    ]  # fmt: skip
    placeholders = {"{python}": sys.executable, "{spec}": str(directory.spec), "{run_directory}": str(directory.path)}
    return tuple(_fill(argument, placeholders) for argument in template)


def _fill(argument: str, placeholders: Mapping[str, str]) -> str:
    for placeholder, value in placeholders.items():
        argument = argument.replace(placeholder, value)
    return argument


def driver_environment(spec: ApplicationSpec, directory: ApplicationDirectory) -> dict[str, str]:
    """Returns the variables of a driver on this host.

    The workers' interpreter is set, because Spark otherwise takes the first ``python3`` of the path, which lacks the
    libraries.
    """
    search_path = [str(_SOURCES), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(search_path)),
        "PYTHONUNBUFFERED": "1",
        RUN_DIRECTORY_VARIABLE: str(directory.path),
        **spec.launcher.environment,
    }


def rotate_log(log: Path) -> None:
    """Keeps the logs of the last starts as ``driver.log.1`` (the youngest) to ``driver.log.5``."""
    for number in range(KEPT_LOGS - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    if log.exists():
        log.replace(log.with_name(f"{log.name}.1"))


def start_detached(launch: Launch, directory: ApplicationDirectory) -> LocalProcess:
    """Starts a driver in a session of its own, so that it survives the caller, and returns at once.

    The new process inherits the lock on ``driver.lock``: while it lives no process starts a second one, whatever became
    of the record.

    Raises:
        OperationError: a driver of the application lives already, or the program cannot be started.
    """
    directory.path.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory.driver_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _wait_for_driver_lock(lock, directory):
            raise OperationError(
                f"A driver of {directory.application} lives already: it holds {directory.driver_lock}.",
                remedy=f"see who it is with `fuser {directory.driver_lock}`, and stop it with `millrace stop`",
            )
        rotate_log(launch.log)
        with launch.log.open("ab") as log:
            process = subprocess.Popen(
                launch.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **launch.environment},
                cwd=directory.path,
                start_new_session=True,
                pass_fds=(lock,),
            )
    except OSError as error:
        raise OperationError(
            f"The driver of {directory.application} could not be started: {error}.",
            remedy="see whether the program exists and the run directory can be written",
        ) from error
    finally:
        os.close(lock)
    # Where it has ended already, whoever looks for it finds out, and says why by its log.
    identity = ProcessIdentity.of_child(process)
    # No process waits for the process: it outlives the caller on purpose.
    process.returncode = 0
    return LocalProcess(identity)


def lives(directory: ApplicationDirectory) -> bool:
    """Returns whether a process launched as this application's driver still lives, by its lock on ``driver.lock``."""
    try:
        lock = os.open(directory.driver_lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _wait_for_driver_lock(lock, directory)
    finally:
        os.close(lock)


def _wait_for_driver_lock(lock: int, directory: ApplicationDirectory) -> bool:
    """Take the lock; false where a driver has it.

    What has it and is no driver that can be found is waited for: a process that ends loses its environment before its
    locks, and whoever asks :func:`lives` has the lock for a moment.
    """
    deadline = time.monotonic() + _ENDING_LIMIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if find_driver(directory) is not None or time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        else:
            return True


class HostLauncher:
    """The base of launchers whose driver is a detached process on this host."""

    def state_elsewhere(self, spec: ApplicationSpec) -> str:
        """Returns the workers of this host have them, or share ``state.dir`` with it."""
        del spec
        return ""

    def start(self, launch: Launch, directory: ApplicationDirectory) -> DriverInstance:
        """Starts it and returns at once; see :func:`start_detached`."""
        return start_detached(launch, directory)

    def find(self, directory: ApplicationDirectory) -> DriverInstance | None:
        """Returns the process that holds ``driver.lock``, where one does.

        Raises:
            OperationError: something holds the lock and cannot be found.
        """
        if not lives(directory):
            return None
        process = find_driver(directory)
        if process is None:
            raise OperationError(
                f"Something holds {directory.driver_lock}, and no driver of {directory.application} can be found.",
                remedy=f"see who it is with `fuser {directory.driver_lock}` and end it",
            )
        return LocalProcess(process)

    def instance_of(self, values: Mapping[str, Any]) -> DriverInstance | None:
        """Returns the process in a record."""
        return None if values.get("pid") is None else LocalProcess(ProcessIdentity.from_mapping(values))
