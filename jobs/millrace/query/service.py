"""Answers a request: finds the task of a key, sees whether it may answer, asks the databases, and puts it into JSON."""

from __future__ import annotations

import base64
import binascii
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from millrace.control.status import ApplicationStatus
from millrace.query.admission import TaskView, behind, check, view_of
from millrace.query.catalog import OPERATIONS, Catalog, CatalogEntry
from millrace.query.local_tasks import TaskId
from millrace.query.refusals import QueryRefusedError, Reason
from millrace.query.requests import KEYED, MAX_LIMIT, Entry, Operation, StoreAnswer, StoreQuery
from millrace.query.values import json_value, key_bytes, prefix_bytes
from millrace.topology.stores import StoreKind

_PARAMETERS = frozenset(
    {"key", "from", "to", "prefix", "from_time", "to_time", "as_of", "limit", "page", "partition", "stale"}
)
_TRUE = {"true": True, "1": True, "false": False, "0": False}
_LONGEST = 2**63 - 1


class Backend(Protocol):
    """Answers from the databases on this host."""

    async def answer(self, task: TaskId, query: StoreQuery, *, standby: bool = False) -> StoreAnswer:
        """What the store of a task holds, or, where that will do, a standby's copy of it."""


@dataclass(frozen=True)
class _Page:
    """Where a scan goes on: a partition, and behind which key of it."""

    partition: int
    after: bytes | None = None

    def encode(self) -> str:
        after = None if self.after is None else base64.b64encode(self.after).decode()
        return base64.urlsafe_b64encode(orjson.dumps([self.partition, after])).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> _Page:
        try:
            partition, after = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            return cls(int(partition), None if after is None else base64.b64decode(after, validate=True))
        except (ValueError, TypeError, binascii.Error) as error:
            raise _bad(f"page={text!r} is no page of an answer", "give `next` of the last answer") from error


class QueryService:
    """Queries to one application on one host.

    Args:
        application_id: the application.
        catalog: its stores.
        backend: answers from this host's databases.
        status: the application's status now.
        peer: the address of the query server of a host; ``None`` where it is not known.
        host: this host's name as workers tell it.
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
        self._status = status
        self._peer = peer
        self._host = host or socket.gethostname()

    def stores(self) -> list[dict[str, Any]]:
        """All stores of the topology, with what each can be asked for or why it cannot."""
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

    async def answer(self, store: str, operation: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """The answer as JSON-compatible data.

        Args:
            store: name of the store.
            operation: one of :class:`~millrace.query.requests.Operation`.
            parameters: of the request, as text.

        Raises:
            QueryRefusedError: for every reason not to answer; a key that the store does not have is one.
        """
        entry = self._catalog.store(store)
        query, partition = self._query(entry, operation, parameters)
        status = self._status()
        view = view_of(status, entry.sub_topology, partition)
        stale = _flag(parameters, "stale")
        if not stale:
            check(status, view, self._application_id)
            if view.host != self._host:
                raise self._elsewhere(view)
        try:
            answer = await self._backend.answer((entry.sub_topology, partition), query, standby=stale)
        except QueryRefusedError as error:
            raise self._refused_here(error, view) from error
        about = {
            "store": store,
            "task": view.task,
            "host": self._host,
            "owner": view.host,
            "state": view.state,
            "stale": stale and (answer.standby or view.state != "RUNNING" or view.host != self._host),
            "standby": answer.standby,
            "behind": behind(status, answer.position),
            "position": _nested(answer),
            "age_ms": max(int(time.time() * 1000) - answer.position.written_at_ms, 0),
            "looked_at_ms_ago": max(int(time.time() * 1000) - answer.looked_at_ms, 0),
        }
        scans_on = query.operation not in KEYED and "partition" not in parameters
        last = not scans_on or partition + 1 >= entry.tasks(self._partitions())
        return _body(entry, query, answer, about, None if last else _Page(partition + 1))

    def _query(self, entry: CatalogEntry, operation: str, parameters: Mapping[str, str]) -> tuple[StoreQuery, int]:
        unknown = sorted(set(parameters) - _PARAMETERS)
        if unknown:
            raise _bad(f"There is no parameter {unknown[0]!r}", f"there are {', '.join(sorted(_PARAMETERS))}")
        try:
            asked = Operation(operation)
        except ValueError:
            raise _bad(f"There is no operation {operation!r}", f"there are {', '.join(Operation)}") from None
        spec, serde = entry.spec, entry.spec.key_serde
        page = _Page.decode(parameters["page"]) if "page" in parameters else None
        tasks = entry.tasks(self._partitions())
        key = None
        if asked in KEYED:
            if "key" not in parameters:
                raise _bad(f"The operation {asked} asks for one key", "give key=...")
            key = key_bytes(parameters["key"], serde)
        if not tasks:
            check(self._status(), TaskView(task="", state="", host="", remaining=0), self._application_id)
        if key is not None:
            partition = _number(parameters, "partition", entry.partition_of(key, self._partitions()))
        else:
            partition = page.partition if page is not None else _number(parameters, "partition", 0)
        if not 0 <= partition < tasks:
            raise _bad(f"Store {spec.name} has {tasks} partitions, not {partition}", "count from 0")
        query = StoreQuery(
            store=spec.name,
            operation=asked,
            key=key,
            from_key=key_bytes(parameters["from"], serde) if "from" in parameters else None,
            to_key=key_bytes(parameters["to"], serde) if "to" in parameters else None,
            prefix=prefix_bytes(parameters.get("prefix", ""), serde) if asked is Operation.PREFIX else b"",
            from_time=max(_number(parameters, "from_time", 0), 0),
            to_time=_number(parameters, "to_time", _LONGEST),
            as_of=_number(parameters, "as_of", 0) if "as_of" in parameters else None,
            limit=_number(parameters, "limit", 100),
            after=page.after if page is not None else None,
        )
        if not 1 <= query.limit <= MAX_LIMIT:
            raise _bad(
                f"limit={query.limit} is no number of entries", f"ask for 1 to {MAX_LIMIT} and go on with `next`"
            )
        return query, partition

    def _partitions(self) -> Mapping[str, int]:
        status = self._status()
        return status.partitions if status is not None else {}

    def _elsewhere(self, view: TaskView) -> QueryRefusedError:
        address = self._peer(view.host) if view.host else None
        return QueryRefusedError(
            Reason.NOT_HERE,
            f"Task {view.task} of {self._application_id} is at {view.host or 'no host that is known'}.",
            remedy=f"ask {address}" if address else "ask the query server of that host",
            details={"task": view.task, "owner": view.host, "host": self._host, "location": address},
        )

    def _refused_here(self, error: QueryRefusedError, view: TaskView) -> QueryRefusedError:
        if error.reason is Reason.NOT_HERE and view.host not in {"", self._host}:
            return self._elsewhere(view)
        # A task that runs here and has no database yet is being restored from nothing.
        reason = Reason.RESTORING if error.reason is Reason.NOT_HERE else error.reason
        details = {"task": view.task, "state": view.state, "remaining": view.remaining, "retry_after_s": 1}
        return QueryRefusedError(
            reason, error.message, remedy=error.remedy or "ask again later", details={**details, **error.details}
        )


def _body(
    entry: CatalogEntry, query: StoreQuery, answer: StoreAnswer, about: dict[str, Any], following: _Page | None
) -> dict[str, Any]:
    shown = [_shown(entry, each) for each in answer.entries]
    if query.operation is Operation.GET:
        if not shown and answer.standby:
            # A copy that is still being loaded cannot be told from one that has everything.
            message = f"The standby copy of task {about['task']} does not have the key, and may not be complete."
            raise QueryRefusedError(Reason.RESTORING, message, remedy="ask again later", details=about)
        if not shown:
            raise QueryRefusedError(Reason.KEY_NOT_FOUND, f"Store {query.store} does not have the key.", details=about)
        return {**about, **shown[0]}
    if answer.after is not None:
        following = _Page(int(about["task"].partition("_")[2]), answer.after)
    return {**about, "entries": shown, "next": following.encode() if following is not None else None}


def _shown(entry: CatalogEntry, found: Entry) -> dict[str, Any]:
    spec = entry.spec
    shown = {
        "key": json_value(found.key, spec.key_serde),
        "value": json_value(found.value, spec.value_serde),
        "timestamp": found.timestamp,
    }
    if spec.kind in {StoreKind.WINDOW, StoreKind.SESSION}:
        shown.update(start=found.start, end=found.end)
    elif spec.kind is StoreKind.VERSIONED:
        shown.update(valid_to=found.valid_to)
    return shown


def _nested(answer: StoreAnswer) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(answer.position.inputs.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def _number(parameters: Mapping[str, str], name: str, default: int) -> int:
    if name not in parameters:
        return default
    try:
        return int(parameters[name])
    except ValueError:
        raise _bad(
            f"{name}={parameters[name]!r} is no whole number", "times are milliseconds since the epoch"
        ) from None


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    given = parameters.get(name, "false").lower()
    if given not in _TRUE:
        raise _bad(f"{name}={given!r} is neither true nor false", f"give {name}=true")
    return _TRUE[given]


def _bad(message: str, remedy: str) -> QueryRefusedError:
    return QueryRefusedError(Reason.BAD_REQUEST, f"{message}.", remedy=remedy)
