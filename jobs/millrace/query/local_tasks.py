"""The tasks whose databases are on this host or that a standby copies here, each followed by a secondary."""

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
        self._secondaries: dict[Path, Secondary] = {}
        self._scratch = Path(tempfile.mkdtemp(prefix="millrace-query-"))
        self._opened = 0

    def catch_up(self) -> None:
        """Bring every task to its last commit; open those that came, forget those that went or were replaced."""
        tasks = self._directory.tasks(self._application_id)
        present = [self._directory.task(self._application_id, *task) for task in tasks]
        for directory in self._secondaries.keys() - present:
            self._forget(directory)
        for directory in present:
            secondary = self._secondaries.get(directory)
            if secondary is not None:
                try:
                    secondary.catch_up()
                except StateError as error:
                    _log.info("state database opened anew", directory=str(directory), reason=error.message)
                    self._forget(directory)
            if directory not in self._secondaries:
                self._open(directory)

    def answer(self, task: TaskId, query: StoreQuery, *, standby: bool = False) -> StoreAnswer:
        """What the store of a task holds, as of the last :meth:`catch_up`.

        Args:
            task: the task.
            query: what is asked.
            standby: whether a standby's copy will do, where the task's directory here holds one.

        Raises:
            QueryRefusedError: the task is not here, is being restored, or its database is being replaced.
        """
        answer = self._answer(task, self._directory.task(self._application_id, *task), query)
        if answer.standby and not standby:
            raise QueryRefusedError(
                Reason.NOT_HERE, f"This host has only a standby's copy of task {_name(task)} of {self._application_id}."
            )
        return answer

    def close(self) -> None:
        """Close all. Idempotent."""
        for directory in list(self._secondaries):
            self._forget(directory)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _answer(self, task: TaskId, directory: Path, query: StoreQuery) -> StoreAnswer:
        secondary = self._secondaries.get(directory)
        if secondary is None:
            raise QueryRefusedError(
                Reason.NOT_HERE, f"Task {_name(task)} of {self._application_id} has no state on this host."
            )
        try:
            return read(secondary, self._stores[query.store], query)
        except QueryRefusedError:
            raise
        except Exception as error:
            self._forget(directory)
            raise QueryRefusedError(
                Reason.RESTORING,
                f"The state of task {_name(task)} cannot be read at this moment: {error}",
                remedy="ask again",
            ) from error

    def _open(self, directory: Path) -> None:
        path = directory / DATABASE_DIRECTORY
        if not (path / "CURRENT").exists():
            return
        self._opened += 1
        try:
            self._secondaries[directory] = Secondary(path, self._scratch / str(self._opened))
        except StateError as error:
            # While it is replaced; the next catch-up tries again, and until then the task is not here.
            _log.info("state database not opened", directory=str(directory), reason=error.message)

    def _forget(self, directory: Path) -> None:
        secondary = self._secondaries.pop(directory, None)
        if secondary is not None:
            secondary.close()


def _name(task: TaskId) -> str:
    return f"{task[0]}_{task[1]}"
