"""The query server: REST over a :class:`~millrace.queries.service.QueryService`; no route changes anything."""

from __future__ import annotations

import contextlib
import gc
import hmac
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, quote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from millrace.driver.status_follower import StatusFollower
from millrace.errors import ConfigurationError, QueryError
from millrace.json_numbers import dumps
from millrace.queries.followers import Followers
from millrace.queries.openapi import document, page
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.service import QueryService

_STORES = "/stores/"


class QueryServer:
    """A server that answers queries on ``host:port`` until the process is asked to end.

    Args:
        address: ``host:port``; port 0 takes a free one.
        token: bearer token of every request but ``/health`` and the documentation.
        service: what answers.
        followers: follow the databases; started and stopped with the server.
        statuses: follows the application's status.
        on_started: called once requests are answered.

    Raises:
        ConfigurationError: the address is no address, is taken, or is not this host's.
    """

    def __init__(
        self,
        address: str,
        token: str,
        service: QueryService,
        followers: Followers,
        statuses: StatusFollower,
        *,
        on_started: Callable[[], None] = lambda: None,
    ) -> None:
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdigit():
            raise ConfigurationError(f"The address must be host:port, not {address!r}.", remedy="such as 127.0.0.1:0")
        self._authorization = f"Bearer {token}".encode()
        self._service = service
        self._followers = followers
        self._statuses = statuses
        self._on_started = on_started
        host = host.strip("[]") or "127.0.0.1"
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, int(port)))
        except OSError as error:
            self._socket.close()
            raise ConfigurationError(
                f"The query server cannot listen on {address}: {error.strerror}.", remedy="name a free port, or port 0"
            ) from error
        self._socket.listen(256)

    @property
    def address(self) -> str:
        """``http://host:port`` of the server."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> None:
        """Serves until SIGINT or SIGTERM, then answers the requests in progress.

        Raises:
            QueryError: it did not come up.
        """
        settings = uvicorn.Config(
            self.application(),
            log_config=None,
            access_log=False,
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
        )
        server = _Server(settings)
        server.run(sockets=[self._socket])
        if not server.started:
            raise QueryError("The query server did not come up.", remedy="its log says why")

    def application(self) -> ASGIApp:
        """Returns the ASGI application.

        It answers queries itself, since routing and its layers would cost more than the answer.
        """
        others = Starlette(routes=self.routes(), lifespan=self._lifespan)

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"].startswith(_STORES):
                await (await self._query(scope))(scope, receive, send)
            else:
                await others(scope, receive, send)

        return application

    def routes(self) -> list[Route]:
        """Returns the routes beside the queries."""
        return [
            Route("/", self._page),
            Route("/openapi.json", self._document),
            Route("/health", self._health),
            Route("/stores", self._stores),
        ]

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._statuses.start()
        try:
            await self._followers.start()
            # What has been imported stays: no collection needs to go through it while a reader waits.
            gc.freeze()
            self._on_started()
            yield
        finally:
            await self._followers.stop()
            self._statuses.stop()

    async def _page(self, _: Request) -> Response:
        return HTMLResponse(page())

    async def _document(self, _: Request) -> Response:
        return _json(document(), 200)

    async def _health(self, _: Request) -> Response:
        status = self._statuses.status
        return _json({"state": str(status.state) if status is not None else None}, 200)

    async def _stores(self, request: Request) -> Response:
        try:
            self._check_token(request.scope)
            return _json(self._service.stores(), 200)
        except QueryRefusedError as error:
            return _refusal(error, request.scope)

    async def _query(self, scope: Scope) -> Response:
        store, _, operation = scope["path"][len(_STORES) :].partition("/")
        if not operation or "/" in operation:
            return PlainTextResponse("Not Found", 404)
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse("Method Not Allowed", 405, {"Allow": "GET, HEAD"})
        try:
            self._check_token(scope)
            given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            return _json(await self._service.answer(store, operation, given), 200)
        except QueryRefusedError as error:
            return _refusal(error, scope)

    def _check_token(self, scope: Scope) -> None:
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if not hmac.compare_digest(given, self._authorization):
            raise QueryRefusedError(
                Reason.UNAUTHORIZED,
                "This request needs the query server's token.",
                remedy="see token_file in query.json",
            )


class _Server(uvicorn.Server):
    """A uvicorn server that ends in order at a signal: uvicorn's own raises it again, which would kill the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def _refusal(error: QueryRefusedError, scope: Scope) -> Response:
    headers = {}
    status_code = error.reason.status_code
    if error.reason is Reason.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if "retry_after_s" in error.details:
        headers["Retry-After"] = str(error.details["retry_after_s"])
    if location := error.details.get("location"):
        status_code = 307
        query = "?" + scope["query_string"].decode("latin-1") if scope["query_string"] else ""
        headers["Location"] = f"{location}{quote(scope['path'])}{query}"
    return _json(error.to_mapping(), status_code, headers)


def _json(content: Any, status_code: int, headers: dict[str, str] | None = None) -> Response:
    return Response(dumps(content), status_code, headers, "application/json")
