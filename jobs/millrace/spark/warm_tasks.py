"""The tasks that a worker process keeps open between batches, and how one worker gets a task from another.

Spark hands a partition to any of its Python workers. The one that had it last still holds the stores and the producer,
so each worker answers on a socket of its own: asked for a task, it closes it, once no batch of it runs. A holder that
does not answer in time is killed, if it is still the process that took the lock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from millrace.errors import StateDirectoryLockedError
from millrace.state import DirectoryLock, lock_holder
from millrace.task.recovery import ProgressListener
from millrace.task.spec import TaskSpec
from millrace.task.task import Task

ANSWER_LIMIT_S = 5.0
"""How long a holder may take to give a task up before it is killed."""

_LOCK_WAIT_S = 15.0
_RETRY_S = 0.02

_log = structlog.get_logger(__name__)


class _Entry:
    """An open task, and whether a batch of it runs."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.in_use = threading.Lock()


class WarmTasks:
    """The open tasks of this process. One per process: see :func:`warm_tasks`."""

    def __init__(self) -> None:
        self._entries: dict[Path, _Entry] = {}
        self._guard = threading.Lock()
        self._pid = os.getpid()
        self._listen()

    @contextlib.contextmanager
    def task(self, spec: TaskSpec, on_restore: ProgressListener) -> Iterator[Task]:
        """The task, open or ready to be opened by its first batch; nobody else gets it meanwhile.

        An exception inside the block closes the task and makes this process forget it.

        Args:
            spec: the task.
            on_restore: called while changelogs are read.

        Raises:
            StateDirectoryLockedError: a process that is not a worker of ours holds the task's directory.
        """
        directory = spec.state_directory
        entry = self._take(spec, on_restore)
        try:
            yield entry.task
        except BaseException:
            with self._guard:
                self._entries.pop(directory, None)
            entry.task.close()
            raise
        finally:
            entry.in_use.release()

    def close(self) -> None:
        """Closes all tasks that no batch uses."""
        with self._guard:
            entries, self._entries = self._entries, {}
        for entry in entries.values():
            if entry.in_use.acquire(timeout=ANSWER_LIMIT_S):
                entry.task.close()
                entry.in_use.release()

    def _take(self, spec: TaskSpec, on_restore: ProgressListener) -> _Entry:
        directory = spec.state_directory
        while True:
            with self._guard:
                entry = self._entries.get(directory)
                if entry is None:
                    break
            # Taken outside the guard: a batch of the same task that still runs here must be able to end.
            if not entry.in_use.acquire(timeout=ANSWER_LIMIT_S):
                raise StateDirectoryLockedError(
                    f"An older attempt of task {spec.name} still runs in this process.",
                    remedy="none needed: Spark tries again",
                )
            with self._guard:
                current = self._entries.get(directory) is entry
            if current and entry.task.spec.run_id == spec.run_id:
                return entry
            if current:
                entry.task.close()
                with self._guard:
                    self._entries.pop(directory, None)
            entry.in_use.release()
        _take_from_holder(directory)
        entry = _Entry(Task(spec, on_restore))
        entry.in_use.acquire()
        with self._guard:
            self._entries[directory] = entry
        return entry

    def _listen(self) -> None:
        path = socket_path(self._pid)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(16)
        threading.Thread(target=self._serve, args=(listener,), name="millrace-warm-tasks", daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            # One thread each, so that a task in use does not keep the others waiting.
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(ANSWER_LIMIT_S)
            directory = Path(connection.recv(4096).decode())
            self._give_up(directory)
            connection.sendall(b"free")

    def _give_up(self, directory: Path) -> None:
        with self._guard:
            entry = self._entries.get(directory)
        if entry is None:
            return
        with entry.in_use:
            with self._guard:
                self._entries.pop(directory, None)
            entry.task.close()


def socket_path(pid: int) -> Path:
    """Where the worker ``pid`` answers. Short, since a socket's path may have about a hundred characters."""
    return Path(tempfile.gettempdir()) / f"millrace-workers-{os.getuid()}" / f"{pid}.sock"


def _take_from_holder(directory: Path) -> None:
    """Returns once no other process holds the task's directory.

    Raises:
        StateDirectoryLockedError: the holder is not a worker of ours, or does not go away.
    """
    deadline = time.monotonic() + _LOCK_WAIT_S
    while _is_locked(directory):
        holder = lock_holder(directory)
        if holder is None or not holder.is_alive():
            # The lock was given back, or its new owner has not signed it yet.
            time.sleep(_RETRY_S)
        elif not socket_path(holder.pid).exists():
            raise StateDirectoryLockedError(
                f"The state directory {directory} is in use by process {holder.pid}, which is not a worker of this "
                "application.",
                remedy="stop that process, or give this application a state.dir of its own",
            )
        elif not _ask(socket_path(holder.pid), directory):
            _log.warning("holder does not answer and is killed", directory=str(directory), pid=holder.pid)
            holder.send_signal(signal.SIGKILL)
        if time.monotonic() > deadline:
            raise StateDirectoryLockedError(
                f"The state directory {directory} is still in use by {holder} after {_LOCK_WAIT_S:g} s.",
                remedy="end that process; the application starts again by itself",
            )


def _is_locked(directory: Path) -> bool:
    try:
        DirectoryLock(directory).release()
    except StateDirectoryLockedError:
        return True
    return False


def _ask(path: Path, directory: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_LIMIT_S)
            connection.connect(str(path))
            connection.sendall(str(directory).encode())
            return connection.recv(16) == b"free"
    except OSError:
        return False


_warm: WarmTasks | None = None
_warm_guard = threading.Lock()


def warm_tasks() -> WarmTasks:
    """The open tasks of this process; a forked child starts with none."""
    global _warm  # noqa: PLW0603 - one per process is the point
    with _warm_guard:
        if _warm is None or _warm._pid != os.getpid():
            _warm = WarmTasks()
        return _warm
