"""A Python daemon that imports modules while Spark's virtual machine starts, and then serves Spark's requests.

Spark starts the daemon that it forks Python workers from once it has a task for them, and its imports would then be
the last second of an application's start. So the driver of a local master starts such a process first of all. What
Spark starts later (:mod:`millrace.spark.python_daemon`) finds it, passes its own standard streams, directory and
environment on, and waits for its end: Spark talks to the early daemon as if it had started it.

Nothing depends on it. Where there is none, where it has ended, or where Spark wants workers of another environment, the
daemon that Spark started imports by itself. Until it serves, it ends with the driver; from then on with Spark, as any
daemon does. It has no file: its socket has a name of Linux's own, and takes processes of the same user only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

SOCKET_VARIABLE = "MILLRACE_EARLY_DAEMON"
"""Environment variable with the name of the socket, by which the daemon that Spark starts finds the early one."""
WAIT = "--wait"

_READ_LATER = ("SPARK_", "PYSPARK_", "PYTHON_", "PYTHONPATH", "PYTHONUNBUFFERED", "_", SOCKET_VARIABLE)
"""Beginnings of the variables that Spark sets and no module reads while it is imported."""
_OF_WORKERS = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""What Spark gives its workers, unless the specification does."""
_TAKEN = b"taken"
_LARGEST_MESSAGE = 1 << 20
_SET_PARENT_DEATH_SIGNAL = 1
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class EarlyDaemon:
    """A daemon that is ready to serve Spark.

    Args:
        process: the daemon; its standard input is a pipe of this process.
    """

    process: subprocess.Popen[bytes]

    def release(self) -> None:
        """Ends the daemon, unless it serves Spark: this process will not use it."""
        os.environ.pop(SOCKET_VARIABLE, None)
        if self.process.stdin is not None:
            self.process.stdin.close()


def start_early_daemon() -> EarlyDaemon | None:
    """Starts a daemon in the background, and puts its name into this process's environment for Spark's children.

    Returns:
        The daemon, which needs to be kept; ``None`` on other systems than Linux, where none is started.
    """
    if sys.platform != "linux":
        return None
    name = f"millrace-early-daemon-{uuid4().hex}"
    # Open before the daemon runs: whoever asks waits for the imports, and is refused once the daemon has ended.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(_address(name))
        listener.listen(1)
        process = subprocess.Popen(
            [sys.executable, "-m", "millrace.spark.python_daemon", WAIT, str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env={**_OF_WORKERS, **os.environ},
        )
    os.environ[SOCKET_VARIABLE] = name
    return EarlyDaemon(process)


def await_spark(listener: socket.socket, preload: Callable[[], None]) -> socket.socket:
    """Imports modules, and returns once Spark's daemon has passed on its streams, directory and environment.

    Args:
        listener: where Spark's daemon connects; it is closed.
        preload: imports the modules.

    Returns:
        The connection, whose end says that this process has ended.

    Raises:
        SystemExit: the driver has ended, or Spark wants another environment.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as Spark's virtual machine, and what it starts
    _end_with_parent(signal.SIGKILL)
    if select.select([sys.stdin], [], [], 0)[0]:
        sys.exit(0)
    began_with = _read_early(os.environ)
    with listener:
        preload()
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                sys.exit(0)
            connection, _ = listener.accept()
            if _user_of(connection) == os.getuid():
                break
            connection.close()
    if not _take_over(connection, began_with):
        sys.exit(0)
    _end_with_parent(0)
    os.register_at_fork(after_in_child=connection.close)
    return connection


def is_served_by_early_daemon() -> bool:
    """Returns whether an early daemon has served Spark for this process, which has waited until that daemon ended."""
    name = os.environ.get(SOCKET_VARIABLE)
    if not name:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        asked = {"environment": dict(os.environ), "directory": str(Path.cwd()), "arguments": sys.argv[1:]}
        try:
            connection.connect(_address(name))
            socket.send_fds(connection, [json.dumps(asked).encode()], [0, 1, 2])
            taken = connection.recv(len(_TAKEN)) == _TAKEN
        except OSError:
            return False
        if taken:
            with contextlib.suppress(OSError):
                connection.recv(1)
        return taken


def _take_over(connection: socket.socket, began_with: Mapping[str, str]) -> bool:
    data, streams, _, _ = socket.recv_fds(connection, _LARGEST_MESSAGE, 3)
    if len(streams) != 3:
        return False
    asked: dict[str, Any] = json.loads(data)
    if _read_early(asked["environment"]) != began_with:
        return False
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[1:] = asked["arguments"]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    connection.sendall(_TAKEN)
    return True


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a module may have read while it was imported."""
    return {name: value for name, value in environment.items() if not name.startswith(_READ_LATER)}


def _address(name: str) -> str:
    return f"\0{name}"


def _user_of(connection: socket.socket) -> int:
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(given)[1])


def _end_with_parent(number: int) -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number)
