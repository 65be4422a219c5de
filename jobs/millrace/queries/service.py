"""The answering of a request: finds the tasks of its keys, checks their admission, and queries their databases."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from millrace.driver.status import ApplicationStatus
from millrace.queries.admission import Admission, TaskView
from millrace.queries.answers import Abouts, shown
from millrace.queries.catalog import OPERATIONS, Catalog, CatalogEntry
from millrace.queries.parameters import Page, Parameters, bad_request
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import KEYED, Found, Lookup, Operation, StoreAnswer, StoreQuery, TaskId, View
from millrace.queries.values import json_value


class Backend(Protocol):
    """The access to the databases on this host."""

    async def answer(self, task: TaskId, query: StoreQuery, *, standby: bool = False) -> StoreAnswer:
        """Returns the entries of a task's store, or, if ``standby`` allows it, of a standby's copy."""

    async def look_up(self, lookup: Lookup) -> Found:
        """Returns the entries of some keys, with the commit that they are from."""


class QueryService:
    """Queries to one application on one host.

    Args:
        application_id: the application.
        catalog: its stores.
        backend: answers from this host's databases.
        status: the application's status now.
        peer: the address of the query server of a host; ``None`` where it is not known.
        host: this host's name as the workers report it.
    """

    def __init__(
        self,
        application_id: str,
        catalog: Catalog,
        backend: Backend,
        status: Callable[[], ApplicationStatus | None],
        *,
        peer: Callable[[str], str | None] = lambda _: None,
        host: str | None = None,
    ) -> None:
        self._application_id = application_id
        self._catalog = catalog
        self._backend = backend
        self._admission = Admission(status, application_id)
        self._peer = peer
        self._host = host or socket.gethostname()
        self._abouts = Abouts(self._host)

    def stores(self) -> list[dict[str, Any]]:
        """Returns all stores of the topology, with the operations of each, or the reason why it cannot be queried."""
        partitions = self._partitions()
        return [
            {
                "name": name,
                "kind": str(entry.spec.kind),
                "sub_topology": entry.sub_topology,
                "partitions": entry.tasks(partitions),
                "operations": [] if entry.refused else [str(each) for each in OPERATIONS[entry.spec.kind]],
                "not_queryable": entry.refused,
            }
            for name, entry in sorted(self._catalog.entries.items())
        ]

    async def answer(self, store: str, operation: str, given: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """Returns the answer as JSON-compatible data.

        Args:
            store: name of the store.
            operation: one of :class:`~millrace.queries.requests.Operation`.
            given: parameters of the request, as text, in their order.

        Raises:
            QueryRefusedError: for every reason not to answer; a key that the store does not have is one.
        """
        entry = self._catalog.store(store)
        asked = entry.operation(operation)
        parameters = Parameters(given)
        if asked is Operation.GET:
            return await self._get(entry, parameters)
        if asked is Operation.GET_MANY:
            return await self._get_many(entry, parameters)
        return await self._scan(entry, asked, parameters)

    async def _get(self, entry: CatalogEntry, parameters: Parameters) -> dict[str, Any]:
        key = parameters.key(entry, Operation.GET)
        stale = parameters.flag("stale")
        task = self._task(entry, self._partition(entry, parameters, key))
        [found], view = await self._look_up(entry, task, (key,), parameters.as_of(), stale=stale)
        about = self._about(entry, task, view, stale=stale)
        if found is not None:
            return {**about, **shown(entry, found)}
        raise _missing(entry, about)

    async def _get_many(self, entry: CatalogEntry, parameters: Parameters) -> dict[str, Any]:
        """Returns a result for each key, in the order of the request, and the description of each task once."""
        keys = parameters.keys(entry, Operation.GET_MANY)
        stale, as_of = parameters.flag("stale"), parameters.as_of()
        asked: dict[int, list[int]] = {}
        for index, key in enumerate(keys):
            asked.setdefault(self._partition(entry, parameters, key), []).append(index)
        results: list[dict[str, Any]] = [{} for _ in keys]
        tasks: dict[str, dict[str, Any]] = {}

        async def ask(partition: int, indices: list[int]) -> None:
            task = self._task(entry, partition)
            try:
                found, view = await self._look_up(entry, task, tuple(keys[at] for at in indices), as_of, stale=stale)
            except QueryRefusedError as error:
                tasks[task.task] = error.to_mapping()
                found = [None] * len(indices)
            else:
                tasks[task.task] = self._about(entry, task, view, stale=stale)
            refused = tasks[task.task].get("error")
            for at, one in zip(indices, found, strict=True):
                if one is not None:
                    results[at] = {"task": task.task, "found": True, **shown(entry, one)}
                    continue
                results[at] = {"task": task.task, "found": False, "key": json_value(keys[at], entry.spec.key_serde)}
                if refused is None and tasks[task.task]["standby"]:
                    results[at]["error"] = str(Reason.RESTORING)
                elif refused is not None:
                    results[at]["error"] = refused

        await asyncio.gather(*(ask(partition, indices) for partition, indices in asked.items()))
        return {"store": entry.spec.name, "results": results, "tasks": tasks}

    async def _scan(self, entry: CatalogEntry, operation: Operation, parameters: Parameters) -> dict[str, Any]:
        page = parameters.page()
        key = parameters.key(entry, operation) if operation in KEYED else None
        if key is not None:
            partition = self._partition(entry, parameters, key)
        else:
            partition = self._checked(entry, page.partition if page else parameters.number("partition", 0))
        query = parameters.query(entry, operation, key, page)
        stale = parameters.flag("stale")
        task = self._task(entry, partition)
        self._admit(task, stale=stale)
        try:
            answer = await self._backend.answer((entry.sub_topology, partition), query, standby=stale)
        except QueryRefusedError as error:
            raise self._refused_here(error, task) from error
        following = None if answer.after is None else Page(partition, answer.after)
        scans_on = key is None and "partition" not in parameters and partition + 1 < self._tasks(entry)
        if following is None and scans_on:
            following = Page(partition + 1)
        return {
            **self._about(entry, task, answer.view, stale=stale),
            "entries": [shown(entry, each) for each in answer.entries],
            "next": following.encode() if following is not None else None,
        }

    async def _look_up(
        self, entry: CatalogEntry, task: TaskView, keys: tuple[bytes, ...], as_of: int | None, *, stale: bool
    ) -> tuple[list[Any], View]:
        self._admit(task, stale=stale)
        lookup = Lookup((entry.sub_topology, task.partition), entry.spec.name, keys, as_of, stale)
        try:
            found = await self._backend.look_up(lookup)
        except QueryRefusedError as error:
            raise self._refused_here(error, task) from error
        assert found.view is not None
        return found.entries, found.view

    def _partitions(self) -> Mapping[str, int]:
        status = self._admission.status()
        return status.partitions if status is not None else {}

    def _tasks(self, entry: CatalogEntry) -> int:
        tasks = entry.tasks(self._partitions())
        if not tasks:
            # Nothing is known of an application that never ran.
            self._admission.check(TaskView(task="", partition=-1, state="", host="", remaining=0))
        return tasks

    def _partition(self, entry: CatalogEntry, parameters: Parameters, key: bytes) -> int:
        tasks = self._tasks(entry)
        if "partition" in parameters:
            return self._checked(entry, parameters.number("partition", 0))
        return entry.partition_of(key, tasks)

    def _checked(self, entry: CatalogEntry, partition: int) -> int:
        tasks = self._tasks(entry)
        if not 0 <= partition < tasks:
            raise bad_request(f"Store {entry.spec.name} has {tasks} partitions, not {partition}", "count from 0")
        return partition

    def _task(self, entry: CatalogEntry, partition: int) -> TaskView:
        return self._admission.view(entry.sub_topology, partition)

    def _admit(self, task: TaskView, *, stale: bool) -> None:
        if not stale:
            self._admission.check(task)
            if task.host != self._host:
                raise self._elsewhere(task)

    def _about(self, entry: CatalogEntry, task: TaskView, view: View, *, stale: bool) -> dict[str, Any]:
        return self._abouts.about(entry.spec.name, task, view, self._admission.status(), stale=stale)

    def _elsewhere(self, task: TaskView) -> QueryRefusedError:
        address = self._peer(task.host) if task.host else None
        return QueryRefusedError(
            Reason.NOT_HERE,
            f"Task {task.task} of {self._application_id} is at {task.host or 'no host that is known'}.",
            remedy=f"ask {address}" if address else "ask the query server of that host",
            details={"task": task.task, "owner": task.host, "host": self._host, "location": address},
        )

    def _refused_here(self, error: QueryRefusedError, task: TaskView) -> QueryRefusedError:
        if error.reason is Reason.NOT_HERE and task.host not in {"", self._host}:
            return self._elsewhere(task)
        # A task that runs here and has no database yet is being restored from nothing.
        reason = Reason.RESTORING if error.reason is Reason.NOT_HERE else error.reason
        details = {"task": task.task, "state": task.state, "remaining": task.remaining, "retry_after_s": 1}
        return QueryRefusedError(
            reason, error.message, remedy=error.remedy or "ask again later", details={**details, **error.details}
        )


def _missing(entry: CatalogEntry, about: dict[str, Any]) -> QueryRefusedError:
    if about["standby"]:
        # A copy that is still being loaded cannot be distinguished from one that has everything.
        message = f"The standby copy of task {about['task']} does not have the key, and may not be complete."
        return QueryRefusedError(Reason.RESTORING, message, remedy="ask again later", details=about)
    return QueryRefusedError(Reason.KEY_NOT_FOUND, f"Store {entry.spec.name} does not have the key.", details=about)
