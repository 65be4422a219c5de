"""The tasks whose databases are on this host, each followed by a secondary."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import structlog

from millrace.errors import StateError
from millrace.query.reader import read
from millrace.query.refusals import QueryRefusedError, Reason
from millrace.query.requests import StoreAnswer, StoreQuery
from millrace.query.secondary import Secondary
from millrace.state import StateDirectory
from millrace.state.directory import DATABASE_DIRECTORY
from millrace.topology.stores import StoreSpec

_log = structlog.get_logger(__name__)

TaskId = tuple[int, int]
"""Sub-topology and partition."""


class LocalTasks:
    """Reads the stores of the tasks of one application in this host's state directory. Not thread-safe.

    Args:
        state_dir: the setting ``state.dir``.
        application_id: the application.
        stores: the stores that can be queried, by name.
    """

    def __init__(self, state_dir: str, application_id: str, stores: Mapping[str, StoreSpec]) -> None:
        self._directory = StateDirectory(state_dir)
        self._application_id = application_id
        self._stores = stores
        self._secondaries: dict[TaskId, Secondary] = {}
        self._scratch = Path(tempfile.mkdtemp(prefix="millrace-query-"))
        self._opened = 0

    def catch_up(self) -> None:
        """Bring every task to its last commit; open those that came, forget those that went or were replaced."""
        present = set(self._directory.tasks(self._application_id))
        for task in list(self._secondaries):
            if task not in present:
                self._forget(task)
        for task in sorted(present):
            secondary = self._secondaries.get(task)
            if secondary is not None:
                try:
                    secondary.catch_up()
                except StateError as error:
                    _log.info("state database opened anew", task=_name(task), reason=error.message)
                    self._forget(task)
            if task not in self._secondaries:
                self._open(task)

    def answer(self, task: TaskId, query: StoreQuery) -> StoreAnswer:
        """What the store of a task holds, as of the last :meth:`catch_up`.

        Raises:
            QueryRefusedError: the task is not here, is being restored, or its database is being replaced.
        """
        secondary = self._secondaries.get(task)
        if secondary is None:
            raise QueryRefusedError(
                Reason.NOT_HERE, f"Task {_name(task)} of {self._application_id} has no state on this host."
            )
        try:
            return read(secondary, self._stores[query.store], query)
        except QueryRefusedError:
            raise
        except Exception as error:
            self._forget(task)
            raise QueryRefusedError(
                Reason.RESTORING,
                f"The state of task {_name(task)} cannot be read at this moment: {error}",
                remedy="ask again",
            ) from error

    def close(self) -> None:
        """Close all. Idempotent."""
        for task in list(self._secondaries):
            self._forget(task)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _open(self, task: TaskId) -> None:
        path = self._directory.task(self._application_id, *task) / DATABASE_DIRECTORY
        if not (path / "CURRENT").exists():
            return
        self._opened += 1
        try:
            self._secondaries[task] = Secondary(path, self._scratch / str(self._opened))
        except StateError as error:
            # While it is replaced; the next catch-up tries again, and until then the task is not here.
            _log.info("state database not opened", task=_name(task), reason=error.message)

    def _forget(self, task: TaskId) -> None:
        secondary = self._secondaries.pop(task, None)
        if secondary is not None:
            secondary.close()


def _name(task: TaskId) -> str:
    return f"{task[0]}_{task[1]}"
