"""The state directory: one sub-directory per application and task, each locked by the process that has it open."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import orjson
import structlog

from millrace.errors import OperationError, StateDirectoryLockedError, StateError
from millrace.files import lock_file, unlock_file
from millrace.processes import ProcessIdentity

LOCK_FILE = "lock"
DATABASE_DIRECTORY = "rocksdb"
GLOBAL_DIRECTORY = "global"
RESTORE_SLOTS_DIRECTORY = "restoring"
_TASK_PARTS = 2

_log = structlog.get_logger(__name__)


_open_locks: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class DirectoryLock:
    """An exclusive lock on a directory, by ``flock`` on a file in it.

    The kernel releases it when the process dies, however it dies; the file itself may stay and means nothing.

    Args:
        directory: the directory; made if missing.

    Raises:
        StateDirectoryLockedError: another live process, or another opened state of this one, holds it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        descriptor = lock_file(directory / LOCK_FILE)
        if descriptor is None:
            holder = lock_holder(directory)
            who = f"process {holder.pid}" if holder is not None else "another process"
            raise StateDirectoryLockedError(
                f"The state directory {directory} is in use by {who}.",
                remedy="stop that process, or give this one a state.dir or application.id of its own",
            )
        self._descriptor: int | None = descriptor
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, orjson.dumps(ProcessIdentity.current().to_mapping()), 0)
        _open_locks.add(self)

    def release(self) -> None:
        """Releases the lock. Idempotent."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            _open_locks.discard(self)
            unlock_file(descriptor)

    def close_without_unlocking(self) -> None:
        """Closes the file without unlocking it: for a forked child, whose parent keeps the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _open_locks.discard(self)


def _close_locks_in_child() -> None:
    # A lock belongs to the open file, which a forked child shares: it would outlive the parent in the child.
    for lock in list(_open_locks):
        lock.close_without_unlocking()


os.register_at_fork(after_in_child=_close_locks_in_child)


def lock_holder(directory: Path) -> ProcessIdentity | None:
    """Returns the process (maybe dead) that wrote the lock file; ``None`` if there is none, or an incomplete one."""
    try:
        return ProcessIdentity.from_mapping(orjson.loads((directory / LOCK_FILE).read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, OperationError):
        return None


class StateDirectory:
    """The directories ``<state.dir>/<application-id>/<s>_<p>/`` of all applications with this ``state.dir``.

    Args:
        state_dir: the setting ``state.dir``.
    """

    def __init__(self, state_dir: Path | str) -> None:
        self._root = Path(state_dir)

    def application(self, application_id: str) -> Path:
        """Returns the directory of an application."""
        return self._root / application_id

    def task(self, application_id: str, sub_topology: int, partition: int) -> Path:
        """Returns the directory of a task."""
        return self.application(application_id) / f"{sub_topology}_{partition}"

    def restore_slots(self, application_id: str) -> Path:
        """Returns the directory of the restore slots, see :class:`millrace.state.restore_slots.RestoreSlots`."""
        return self.application(application_id) / RESTORE_SLOTS_DIRECTORY

    def global_store(self, application_id: str, store: str) -> Path:
        """Returns the directory of a global store's copies; each copy is a numbered directory in it."""
        return self.application(application_id) / GLOBAL_DIRECTORY / store

    def global_copies(self, application_id: str) -> list[Path]:
        """Returns the directories of all copies of global stores."""
        return sorted(path for path in self.global_store(application_id, "").glob("*/*") if path.is_dir())

    def tasks(self, application_id: str) -> list[tuple[int, int]]:
        """Returns (sub-topology, partition) of the tasks that have a directory."""
        root = self.application(application_id)
        if not root.is_dir():
            return []
        names = [path.name.split("_") for path in root.iterdir() if path.is_dir()]
        return sorted(
            (int(name[0]), int(name[1]))
            for name in names
            if len(name) == _TASK_PARTS and name[0].isdigit() and name[1].isdigit()
        )

    def check_unused(self, application_id: str) -> None:
        """Checks that no process uses the local state of an application.

        Raises:
            StateDirectoryLockedError: a live process holds the application, a task or a copy.
        """
        if self.application(application_id).exists():
            with self._all_locked(application_id):
                pass

    def clean(self, application_id: str) -> list[tuple[int, int]]:
        """Removes the local state of a stopped application, standby copies included; its next start restores it.

        Returns:
            the tasks whose state was removed.

        Raises:
            StateDirectoryLockedError: a live process holds the application, a task or a copy; nothing is removed then.
            StateError: the directory cannot be removed.
        """
        root = self.application(application_id)
        if not root.exists():
            return []
        tasks = self.tasks(application_id)
        with self._all_locked(application_id):
            try:
                shutil.rmtree(root)
            except OSError as error:
                raise StateError(
                    f"The local state of {application_id} in {self._root} cannot be removed: {error}",
                    remedy="check the permissions of the directory",
                ) from error
        _log.info("local state removed", application_id=application_id, tasks=len(tasks))
        return tasks

    @contextmanager
    def _all_locked(self, application_id: str) -> Iterator[None]:
        # The driver holds the application's directory, workers and standbys those of tasks.
        directories = [
            self.application(application_id),
            *(self.task(application_id, *task) for task in self.tasks(application_id)),
            *self.global_copies(application_id),
        ]
        with ExitStack() as locks:
            for directory in directories:
                locks.callback(DirectoryLock(directory).release)
            yield
