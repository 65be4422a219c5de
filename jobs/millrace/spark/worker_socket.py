"""The messages between the workers of a host: pickled, over unix sockets that only their user can open."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.errors import StateError

ANSWER_LIMIT_S = 5.0
"""How long a worker may be silent before it counts as hung."""

_PULSE_S = 1.0
_LONGEST_PATH = 107
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LENGTH = struct.Struct(">q")


@dataclass(frozen=True)
class GiveUp:
    """A request to close a task, or a standby copy.

    Args:
        directory: the task's directory.
    """

    directory: str


def socket_path(pid: int) -> Path:
    """Returns the path of a worker's socket. Short, since a socket's path is limited to about 100 characters.

    Raises:
        StateError: its directory can be opened by other users, who would have this process unpickle what they like.
    """
    directory = Path(tempfile.gettempdir()) / f"millrace-workers-{os.getuid()}"
    with contextlib.suppress(FileNotFoundError):
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _OF_OTHERS:
            raise StateError(
                f"The directory {directory} of the sockets of workers is not theirs alone.",
                remedy="remove it, and find out who made it; or set TMPDIR to a directory of your own",
            )
    return directory / f"{pid}.sock"


def listen() -> socket.socket:
    """Returns the listening socket of this process, at its :func:`socket_path`.

    Raises:
        StateError: see :func:`socket_path`; or the path of the temporary directory is too long for a socket.
    """
    socket_path(os.getpid()).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = socket_path(os.getpid())  # again: another user may have been faster
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise StateError(
            f"The path {path} is too long for a socket, which may have {_LONGEST_PATH} bytes.",
            remedy="set TMPDIR to a shorter path",
        )
    # A process of the same number that is no more may have left its socket.
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(16)
    return listener


def serve(listener: socket.socket, answer: Callable[[socket.socket, Any], None], *, name: str) -> None:
    """Answers every message to ``listener`` for the lifetime of this process; returns at once.

    Args:
        listener: the socket that :func:`listen` returned.
        answer: takes a connection and what was asked on it. Each runs in a thread of its own, so that a long one does
            not keep the others waiting.
        name: of the thread that listens.
    """

    def converse(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError):
            connection.settimeout(ANSWER_LIMIT_S)
            answer(connection, receive(connection))

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=converse, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, name=name, daemon=True).start()


@contextlib.contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    """Connects to the worker at ``path``, with a timeout for every send and receive.

    Raises:
        OSError: no process listens there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_LIMIT_S)
        connection.connect(str(path))
        yield connection


def send(connection: socket.socket, message: object) -> None:
    """Sends one message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket) -> Any:
    """Returns the next message. Keeps waiting while the other side shows that it is alive (see :func:`pulse`).

    Raises:
        OSError: the other side was silent for too long.
        EOFError: it closed the connection.
    """
    while True:
        (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
        if length:
            return pickle.loads(_exactly(connection, length))


@contextlib.contextmanager
def pulse(connection: socket.socket) -> Iterator[threading.Lock]:
    """Sends a sign of life every second while the block computes an answer.

    Yields:
        The lock under which the answer has to be sent, so that no sign of life falls into the middle of it.
    """
    done = threading.Event()
    guard = threading.Lock()

    def beat() -> None:
        with contextlib.suppress(OSError):
            while not done.wait(_PULSE_S):
                with guard:
                    if not done.is_set():
                        connection.sendall(_LENGTH.pack(0))

    thread = threading.Thread(target=beat, name="pulse", daemon=True)
    thread.start()
    try:
        yield guard
    finally:
        done.set()
        thread.join(ANSWER_LIMIT_S)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError("the connection was closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
