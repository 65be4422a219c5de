"""The answers of queries as JSON-compatible data: entries, with task, host, position and age."""

from __future__ import annotations

import time
from typing import Any

from millrace.driver.status import ApplicationStatus
from millrace.queries.admission import TaskView, behind
from millrace.queries.catalog import CatalogEntry
from millrace.queries.requests import Entry, View
from millrace.queries.values import json_value
from millrace.topology.stores import StoreKind


class Abouts:
    """The descriptions of answers: the task and host of their state, and its age.

    Args:
        host: this host's name.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._reported: dict[str, tuple[View, ApplicationStatus | None, dict[str, Any]]] = {}

    def about(
        self, store: str, task: TaskView, view: View, status: ApplicationStatus | None, *, stale: bool
    ) -> dict[str, Any]:
        """Returns task, host, position and age of an answer.

        Args:
            store: name of the store.
            task: what the status says of the task.
            view: the commit that the answer stands for.
            status: the application's status.
            stale: whether who asks takes a stale value.
        """
        reported = self._reported.get(task.task)
        if reported is None or reported[0] is not view or reported[1] is not status:
            # The same for all answers until the next commit or status.
            reported = self._reported[task.task] = view, status, self._facts(task, view, status)
        now_ms = int(time.time() * 1000)
        here = task.state == "RUNNING" and task.host == self._host and not view.standby
        return {
            "store": store,
            **reported[2],
            "stale": stale and not here,
            "age_ms": max(now_ms - view.position.written_at_ms, 0),
            "looked_at_ms_ago": max(now_ms - view.looked_at_ms, 0),
        }

    def _facts(self, task: TaskView, view: View, status: ApplicationStatus | None) -> dict[str, Any]:
        position: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(view.position.inputs.items()):
            position.setdefault(topic, {})[str(partition)] = offset
        return {
            "task": task.task,
            "host": self._host,
            "owner": task.host,
            "state": task.state,
            "standby": view.standby,
            "behind": behind(status, view.position),
            "position": position,
        }


def shown(entry: CatalogEntry, found: Entry) -> dict[str, Any]:
    """Returns an entry of a store as a mapping: key, value, timestamp, and the fields of its kind of store."""
    spec = entry.spec
    shown: dict[str, Any] = {
        "key": json_value(found.key, spec.key_serde),
        "value": json_value(found.value, spec.value_serde),
        "timestamp": found.timestamp,
    }
    if spec.kind in {StoreKind.WINDOW, StoreKind.SESSION}:
        shown.update(start=found.start, end=found.end)
    elif spec.kind is StoreKind.VERSIONED:
        shown.update(valid_to=found.valid_to)
    return shown
