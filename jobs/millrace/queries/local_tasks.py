"""The tasks with a database on this host, their own or a standby copy, each followed by a secondary instance."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import structlog

from millrace.errors import StateError
from millrace.queries.reader import look_up, read
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import Entry, Lookup, StoreAnswer, StoreQuery, TaskId, View
from millrace.queries.secondary import Secondary
from millrace.state import StateDirectory
from millrace.state.directory import DATABASE_DIRECTORY
from millrace.topology.stores import StoreSpec

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")


class LocalTasks:
    """A reader of the stores of one application's tasks in this host's state directory. Not thread-safe.

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
        """Brings every task to its last commit; opens new tasks, and closes those that are gone or were replaced."""
        present = self._directory.tasks(self._application_id)
        for task in self._secondaries.keys() - set(present):
            self._discard(task)
        for task in present:
            secondary = self._secondaries.get(task)
            if secondary is not None:
                try:
                    secondary.catch_up()
                except StateError as error:
                    _log.debug("state database opened again", task=_name(task), reason=error.message)
                    self._discard(task)
            if task not in self._secondaries:
                self._open(task)

    def answer(self, task: TaskId, query: StoreQuery, *, standby: bool = False) -> StoreAnswer:
        """Returns the entries of a task's store, as of the last :meth:`catch_up`.

        Args:
            task: the task.
            query: what is asked.
            standby: whether a standby's copy will do, where the task's directory here holds one.

        Raises:
            QueryRefusedError: the task is not here, is being restored, or its database is being replaced.
        """
        answer = self._read(task, lambda secondary: read(secondary, self._stores[query.store], query))
        self._check_copy(task, answer.view, standby=standby)
        return answer

    def look_up(self, lookup: Lookup) -> tuple[list[Entry | None], View]:
        """Returns the entries of some keys of a task, and their commit, as of the last :meth:`catch_up`.

        Raises:
            QueryRefusedError: as of :meth:`answer`.
        """
        spec = self._stores[lookup.store]
        found, view = self._read(lookup.task, lambda secondary: look_up(secondary, spec, lookup.keys, lookup.as_of))
        self._check_copy(lookup.task, view, standby=lookup.standby)
        return found, view

    def close(self) -> None:
        """Closes all databases. Idempotent."""
        for task in list(self._secondaries):
            self._discard(task)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _read(self, task: TaskId, reading: Callable[[Secondary], _T]) -> _T:
        secondary = self._secondaries.get(task)
        if secondary is None:
            raise QueryRefusedError(
                Reason.NOT_HERE, f"Task {_name(task)} of {self._application_id} has no state on this host."
            )
        try:
            return reading(secondary)
        except QueryRefusedError:
            raise
        except Exception as error:
            self._discard(task)
            raise QueryRefusedError(
                Reason.RESTORING,
                f"The state of task {_name(task)} cannot be read at this moment: {error}",
                remedy="ask again",
            ) from error

    def _check_copy(self, task: TaskId, view: View, *, standby: bool) -> None:
        if view.standby and not standby:
            raise QueryRefusedError(
                Reason.NOT_HERE, f"This host has only a standby's copy of task {_name(task)} of {self._application_id}."
            )

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

    def _discard(self, task: TaskId) -> None:
        secondary = self._secondaries.pop(task, None)
        if secondary is not None:
            secondary.close()


def _name(task: TaskId) -> str:
    return f"{task[0]}_{task[1]}"
