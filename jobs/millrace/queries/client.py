"""The Python client of the query server, with the operations of Kafka Streams' read-only stores."""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import httpx
import orjson

from millrace.errors import QueryError
from millrace.json_numbers import dumps, loads
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import BASE64, MAX_LIMIT
from millrace.tls import tls_context

_MAX_REDIRECTS = 3
_PAGE = 500
_RANGE = range
"""The built-in: a method of the client has its name."""

Key = str | int | float | bytes | dict[str, Any] | list[Any]
"""A key: of a store of text its text, of numbers the number, of bytes the bytes, else what JSON has."""


class QueryClient:
    """A client of the query servers of an application. Thread-safe.

    Args:
        address: ``http://host:port`` of one of them; it names the others where they have what is asked for.
        token: their bearer token.
        timeout_s: longest wait for an answer, seconds.
        wait_s: how long to ask again while a task is restored, servers do not agree yet where one that has moved is, or
            the application does not run, seconds.
    """

    def __init__(self, address: str, token: str, *, timeout_s: float = 10.0, wait_s: float = 0.0) -> None:
        self._address = address.rstrip("/")
        self._wait_s = wait_s
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout_s,
            trust_env=False,
            follow_redirects=False,
            verify=tls_context(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def stores(self) -> list[dict[str, Any]]:
        """Returns the stores, with the operations of each."""
        stores: list[dict[str, Any]] = self._ask("/stores")
        return stores

    def answer(self, store: str, operation: str, **parameters: object) -> dict[str, Any]:
        """Returns one answer of the server: value or entries, with task, host, position and age.

        Args:
            store: name of the store.
            operation: such as ``get``; see :class:`~millrace.queries.requests.Operation`.
            parameters: those of the REST interface; ``from_`` and ``to`` are the ends of a range, ``None`` is left out.

        Raises:
            QueryRefusedError: the server refuses, with the reason.
            QueryError: no server answers.
        """
        named = [(name.rstrip("_"), _text(value)) for name, value in parameters.items() if value is not None]
        answer: dict[str, Any] = self._ask(f"/stores/{store}/{operation}", named)
        return answer

    def get(self, store: str, key: Key, *, as_of: int | None = None, stale: bool = False) -> Any:
        """Returns the value of a key; ``None`` if the store does not have it.

        Of a versioned store also at a time, in ms.
        """
        try:
            return self.answer(store, "get", key=key, as_of=as_of, stale=stale)["value"]
        except QueryRefusedError as error:
            if error.reason is Reason.KEY_NOT_FOUND:
                return None
            raise

    def get_many(self, store: str, keys: Sequence[Key], *, as_of: int | None = None, stale: bool = False) -> list[Any]:
        """Returns the values of keys, in their order, ``None`` for missing ones; requests 1,000 at a time.

        Args:
            store: name of the store.
            keys: the keys, any number of them.
            as_of: of a versioned store the time, milliseconds; ``None`` asks for the newest versions.
            stale: whether a stale value will do.

        Raises:
            QueryRefusedError: a task that has one of the keys does not answer, or its host's server is not known.
            QueryError: no server answers.
        """
        values: list[Any] = []
        for begin in _RANGE(0, len(keys), MAX_LIMIT):
            values += self._get_page(store, keys[begin : begin + MAX_LIMIT], as_of=as_of, stale=stale)
        return values

    def range(
        self, store: str, from_key: Key | None = None, to_key: Key | None = None, *, stale: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Returns the entries of a range of keys, both ends included, by partition and then by the keys' bytes."""
        return self._entries(store, "range", from_=from_key, to=to_key, stale=stale)

    def prefix_scan(self, store: str, prefix: str | bytes, *, stale: bool = False) -> Iterator[dict[str, Any]]:
        """Returns the entries whose keys begin with a prefix."""
        return self._entries(store, "prefix", prefix=prefix, stale=stale)

    def all(self, store: str, *, stale: bool = False) -> Iterator[dict[str, Any]]:
        """Returns all entries."""
        return self._entries(store, "all", stale=stale)

    def fetch(
        self, store: str, key: Key, from_time: int | None = None, to_time: int | None = None, *, stale: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Returns the windows of a key by their start, or its sessions by their end.

        Times are milliseconds, inclusive.
        """
        return self._entries(store, "fetch", key=key, from_time=from_time, to_time=to_time, stale=stale)

    def fetch_all(
        self, store: str, from_time: int | None = None, to_time: int | None = None, *, stale: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Returns the windows or sessions of all keys."""
        return self._entries(store, "fetch_all", from_time=from_time, to_time=to_time, stale=stale)

    def versions(
        self, store: str, key: Key, from_time: int | None = None, to_time: int | None = None, *, stale: bool = False
    ) -> Iterator[dict[str, Any]]:
        """Returns the versions of a key that are valid within the times, milliseconds, inclusive."""
        return self._entries(store, "versions", key=key, from_time=from_time, to_time=to_time, stale=stale)

    def _get_page(self, store: str, keys: Sequence[Key], **parameters: object) -> list[Any]:
        given = [(name, _text(value)) for name, value in parameters.items() if value is not None]
        deadline = time.monotonic() + self._wait_s
        values: list[Any] = [None] * len(keys)
        # Which server is to be asked for which keys (their indices), and after how many that did not have them.
        remaining = deque([(self._address, list(_RANGE(len(keys))), 0)])
        while remaining:
            address, indices, hops = remaining.popleft()
            asked = [("key", _text(keys[index])) for index in indices]
            answer = self._ask(f"/stores/{store}/get_many", [*asked, *given], address)
            after: dict[str, list[int]] = {}
            locations: dict[str, str] = {}
            for index, result in zip(indices, answer["results"], strict=True):
                if "error" not in result:
                    values[index] = result.get("value")
                    continue
                task = result["task"]
                if task not in locations:
                    about = {**answer["tasks"][task], "error": result["error"]}
                    locations[task] = _where_next(address, about, hops, deadline)
                after.setdefault(locations[task], []).append(index)
            remaining += [(location, left, hops + (location != address)) for location, left in after.items()]
        return values

    def _entries(self, store: str, operation: str, **parameters: object) -> Iterator[dict[str, Any]]:
        page: str | None = None
        while True:
            answer = self.answer(store, operation, **parameters, limit=_PAGE, page=page)
            yield from answer["entries"]
            page = answer["next"]
            if page is None:
                return

    def _ask(self, path: str, parameters: Sequence[tuple[str, str]] = (), address: str | None = None) -> Any:
        deadline = time.monotonic() + self._wait_s
        while True:
            response = self._request(address or self._address, path, parameters)
            if response.status_code == httpx.codes.OK:
                return loads(response.content)
            error = _error(response)
            _wait_or_raise(error, deadline)

    def _request(self, address: str, path: str, parameters: Sequence[tuple[str, str]]) -> httpx.Response:
        try:
            for _ in range(_MAX_REDIRECTS):
                response = self._http.get(f"{address}{path}", params=list(parameters))
                if response.status_code != httpx.codes.TEMPORARY_REDIRECT:
                    return response
                # Not by the HTTP library, which keeps the token from other hosts.
                address = orjson.loads(response.content)["location"]
        except httpx.HTTPError as error:
            raise QueryError(
                f"The query server {address} does not answer: {type(error).__name__} {error}",
                remedy="start it with `millrace query-server NAME`",
            ) from error
        return response


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and value.startswith(BASE64):
        value = value.encode()
    if isinstance(value, bytes):
        return BASE64 + base64.b64encode(value).decode()
    return value if isinstance(value, str) else dumps(value).decode()


def _where_next(address: str, about: dict[str, Any], hops: int, deadline: float) -> str:
    error = _refusal(about)
    location = error.details.get("location")
    if isinstance(location, str) and hops < _MAX_REDIRECTS:
        return location
    _wait_or_raise(error, deadline)
    return address


def _wait_or_raise(error: QueryRefusedError, deadline: float) -> None:
    # Servers that send each other what a task that has just moved is asked: one of them has not read the status yet.
    disagree = error.reason is Reason.NOT_HERE and error.details.get("location") is not None
    waits = disagree or error.reason in {Reason.RESTORING, Reason.NOT_RUNNING}
    if not waits or time.monotonic() >= deadline:
        raise error
    time.sleep(min(0.2, max(deadline - time.monotonic(), 0)))


def _refusal(content: dict[str, Any]) -> QueryRefusedError:
    details = dict(content)
    reason = Reason(details.pop("error"))
    message = details.pop("message", f"Task {details.get('task')} did not answer: {reason}.")
    return QueryRefusedError(reason, message, remedy=details.pop("remedy", ""), details=details)


def _error(response: httpx.Response) -> QueryRefusedError:
    try:
        return _refusal(orjson.loads(response.content))
    except (orjson.JSONDecodeError, KeyError, ValueError) as error:
        raise QueryError(
            f"The query server answered {response.status_code}: {response.text[:200]}", remedy="read its log"
        ) from error
