"""The admission of queries to a task, by its application's status: as in Kafka Streams, only a running task answers.

A store that is being restored has keys that are missing and values that are old. No client should take "not restored
yet" for "no such key", so such a task refuses, and says how much is left.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.state import TaskPosition
from millrace.topology.layout import task_name

_RUNNING = "RUNNING"
_MISSED_HEARTBEATS = 4


@dataclass(frozen=True, kw_only=True)
class TaskView:
    """The state of a task in a driver's status.

    Args:
        task: its id, ``0_3``.
        partition: its partition.
        state: RUNNING, RESTORING, or empty where it is not known.
        host: the host of the worker that ran it last; empty where it is not known.
        remaining: changelog records that are left to restore.
    """

    task: str
    partition: int
    state: str
    host: str
    remaining: int


def view_of(status: ApplicationStatus | None, sub_topology: int, partition: int) -> TaskView:
    """Returns the state of a task, as a status reports it."""
    task = task_name(sub_topology, partition)
    progress = status.progress.get(sub_topology) if status is not None else None
    if status is None or progress is None:
        return TaskView(task=task, partition=partition, state="", host="", remaining=0)
    return TaskView(
        task=task,
        partition=partition,
        state=progress.task_states.get(task, "") if progress.active else "",
        host=status.task_hosts.get(task, "").partition("/")[0],
        remaining=progress.restore_remaining.get(task, 0),
    )


class Admission:
    """The admission of queries by the newest status; a positive result is reused for a short time.

    Args:
        status: the application's status now.
        application_id: its name.
        check_ms: how long a driver of this host counts as alive after it was seen, milliseconds: so long may values be
            given out after it was killed, beyond the time that its last commit is looked for.
    """

    def __init__(
        self, status: Callable[[], ApplicationStatus | None], application_id: str, *, check_ms: int = 100
    ) -> None:
        self._status = status
        self._application_id = application_id
        self._check_s = check_ms / 1000
        self._of: ApplicationStatus | None = None
        self._views: dict[tuple[int, int], TaskView] = {}
        self._runs_until = 0.0

    def status(self) -> ApplicationStatus | None:
        """Returns the newest status."""
        status = self._status()
        if status is not self._of:
            self._of, self._views, self._runs_until = status, {}, 0.0
        return status

    def view(self, sub_topology: int, partition: int) -> TaskView:
        """Returns the state of a task, as the newest status reports it."""
        status, key = self.status(), (sub_topology, partition)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = view_of(status, sub_topology, partition)
        return view

    def check(self, view: TaskView) -> None:
        """Refuses a query if the task does not run.

        Raises:
            QueryRefusedError: the application does not run, or the task is being restored.
        """
        status, now = self.status(), time.monotonic()
        if now >= self._runs_until:
            check_application(status, view, self._application_id)
            self._runs_until = now + self._check_s
        check_task(view, self._application_id)


def check_application(status: ApplicationStatus | None, view: TaskView, application_id: str) -> None:
    """Refuses a query if the application does not run.

    Raises:
        QueryRefusedError: it does not.
    """
    why = _not_running(status)
    if why:
        raise QueryRefusedError(
            Reason.NOT_RUNNING,
            f"{application_id} {why}.",
            remedy="ask again when it runs, or with stale=true for what was committed last",
            details={"task": view.task, "state": status.state if status else "UNKNOWN", "retry_after_s": 2},
        )


def check_task(view: TaskView, application_id: str) -> None:
    """Refuses a query if the task does not run.

    Raises:
        QueryRefusedError: it is being placed or restored.
    """
    if view.state != _RUNNING:
        left = f": {view.remaining} changelog records are left" if view.remaining else ""
        raise QueryRefusedError(
            Reason.RESTORING,
            f"Task {view.task} of {application_id} is being placed or restored{left}.",
            remedy="ask again later, or with stale=true for what was committed last",
            details={
                "task": view.task,
                "state": view.state or ApplicationState.REBALANCING,
                "remaining": view.remaining,
                "retry_after_s": 1,
            },
        )


def behind(status: ApplicationStatus | None, position: TaskPosition) -> int | None:
    """Returns how many committed input records a state does not contain; ``None`` if the status does not tell."""
    if status is None or not position.inputs:
        return None
    committed = [status.offsets.get(topic, {}).get(partition) for topic, partition in position.inputs]
    if any(offset is None for offset in committed):
        return None
    return sum(
        max(offset - have, 0) for offset, have in zip(committed, position.inputs.values(), strict=True) if offset
    )


def _not_running(status: ApplicationStatus | None) -> str:
    if status is None:
        return "has no status: it never ran on this cluster, or the broker does not answer"
    if not status.state.is_working:
        return f"is in state {status.state}"
    if status.driver.host == socket.gethostname():
        return "" if status.driver.process.is_alive() else "has lost its driver"
    silent_s = time.time() - status.updated_at
    limit_s = status.heartbeat_interval_ms / 1000 * _MISSED_HEARTBEATS
    return f"has not been heard of for {silent_s:.0f} s" if silent_s > limit_s else ""
