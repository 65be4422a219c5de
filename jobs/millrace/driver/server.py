"""The control plane's HTTP server: one port, in a thread of the driver."""

from __future__ import annotations

import hmac
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from millrace.driver.health import Health
from millrace.driver.page import page
from millrace.driver.status import ApplicationStatus
from millrace.errors import ConfigurationError, MillraceError


@dataclass(frozen=True, kw_only=True)
class ControlSurface:
    """The callables that the control server offers; every one may be called by any thread.

    Args:
        status: the application's status now.
        health: its health now.
        metrics: the metrics in Prometheus' text format.
        describe: the topology as text.
        stop: begins a graceful stop and returns at once.
        pause: ends processing until ``resume``; returns when no batch runs.
        resume: ends a pause.
        picture: the topology as SVG, where there is one.
        operate: does an operation by its name, with arguments, and returns its answer; all of it JSON.
    """

    status: Callable[[], ApplicationStatus]
    health: Callable[[], Health]
    metrics: Callable[[], bytes]
    describe: Callable[[], str]
    stop: Callable[[], None]
    pause: Callable[[], None]
    resume: Callable[[], None]
    picture: Callable[[], bytes] | None = None
    operate: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None


class ControlServer:
    """An HTTP server of a :class:`ControlSurface` on ``host:port``.

    ``GET /health/live`` and ``/health/ready`` answer 200 or 503 with the reason; ``/metrics``, ``/status``, ``/tasks``,
    ``/topology`` (text, or JSON where the request accepts only that), ``/topology.svg`` and ``/`` show; ``POST /stop``,
    ``/pause``, ``/resume`` and ``/operations/<name>`` (arguments and answer are JSON objects) need
    ``Authorization: Bearer <token>``.

    Args:
        address: ``host:port``; port 0 takes a free one.
        token: bearer token of requests that change something.
        surface: what to show and do.
    """

    def __init__(self, address: str, token: str, surface: ControlSurface) -> None:
        host, separator, port = address.rpartition(":")
        if not separator or not port.isdigit():
            raise ConfigurationError(
                f"application.server must be host:port, not {address!r}.", remedy="for example 127.0.0.1:0"
            )
        self._host, self._port = host.strip("[]") or "127.0.0.1", int(port)
        self._token = token
        self._surface = surface
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """``http://host:port`` of the server; empty before :meth:`start`."""
        if self._socket is None:
            return ""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self, timeout_s: float = 10.0) -> None:
        """Starts to listen and serve.

        Raises:
            ConfigurationError: the address is taken or is not this host's, or the server did not come up.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self._host, self._port))
        except OSError as error:
            listener.close()
            raise ConfigurationError(
                f"The control plane cannot listen on {self._host}:{self._port}: {error.strerror}.",
                remedy="set application.server to a free port, or to port 0",
            ) from error
        listener.listen(64)
        self._socket = listener
        started = threading.Event()
        settings = uvicorn.Config(
            self.application(), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2
        )
        self._server = _Server(settings, started)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="control-server", daemon=True
        )
        self._thread.start()
        if not started.wait(timeout_s):
            self.stop()
            raise ConfigurationError(f"The control plane did not come up within {timeout_s:g} s.")

    def stop(self, timeout_s: float = 5.0) -> None:
        """Answers the requests in progress, then stops. Idempotent."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(timeout_s)
        if self._socket is not None:
            self._socket.close()
        self._server = self._thread = None

    def application(self) -> Starlette:
        """Returns the ASGI application."""
        routes = [
            Route("/", self._page),
            Route("/health/live", self._live),
            Route("/health/ready", self._ready),
            Route("/metrics", self._metrics),
            Route("/status", self._status),
            Route("/tasks", self._tasks),
            Route("/topology", self._topology),
            Route("/stop", self._changing(self._surface.stop, "stopping"), methods=["POST"]),
            Route("/pause", self._changing(self._surface.pause, "paused"), methods=["POST"]),
            Route("/resume", self._changing(self._surface.resume, "resumed"), methods=["POST"]),
        ]
        if self._surface.operate is not None:
            routes.append(Route("/operations/{name}", self._operation, methods=["POST"]))
        if self._surface.picture is not None:
            routes.append(Route("/topology.svg", self._picture))
        return Starlette(routes=routes)

    async def _page(self, _: Request) -> Response:
        status, health = await run_in_threadpool(lambda: (self._surface.status(), self._surface.health()))
        return HTMLResponse(page(status, health))

    async def _live(self, _: Request) -> Response:
        health = await run_in_threadpool(self._surface.health)
        return _json(asdict(health), 200 if health.alive else 503)

    async def _ready(self, _: Request) -> Response:
        health = await run_in_threadpool(self._surface.health)
        return _json(asdict(health), 200 if health.ready else 503)

    async def _metrics(self, _: Request) -> Response:
        return Response(await run_in_threadpool(self._surface.metrics), media_type=CONTENT_TYPE_LATEST)

    async def _status(self, _: Request) -> Response:
        status = await run_in_threadpool(self._surface.status)
        return Response(status.to_json(), media_type="application/json")

    async def _tasks(self, _: Request) -> Response:
        status = await run_in_threadpool(self._surface.status)
        return _json(tasks_of(status), 200)

    async def _topology(self, request: Request) -> Response:
        accepted = request.headers.get("accept", "*/*")
        if "application/json" in accepted and "text/" not in accepted:
            status = await run_in_threadpool(self._surface.status)
            return _json({"fingerprint": status.topology_fingerprint, **status.topology_summary}, 200)
        return PlainTextResponse(await run_in_threadpool(self._surface.describe))

    async def _picture(self, _: Request) -> Response:
        assert self._surface.picture is not None
        return Response(await run_in_threadpool(self._surface.picture), media_type="image/svg+xml")

    async def _operation(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        assert self._surface.operate is not None
        try:
            body = await request.body()
            arguments = orjson.loads(body) if body else {}
        except orjson.JSONDecodeError as error:
            return _json({"error": f"The body is no JSON: {error}.", "remedy": "send a JSON object"}, 400)
        if not isinstance(arguments, dict):
            return _json({"error": "The body is no JSON object.", "remedy": "send a JSON object"}, 400)
        try:
            return _json(await run_in_threadpool(self._surface.operate, request.path_params["name"], arguments), 200)
        except MillraceError as error:
            return _json({"error": error.message, "remedy": error.remedy}, 409)

    def _refusal(self, request: Request) -> Response | None:
        """Returns the answer to a request without the token; ``None`` if it has the token."""
        given = request.headers.get("authorization", "")
        if hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return None
        return _json(
            {"error": "This request needs the application's token.", "remedy": "see token_file in control.json"},
            401,
            {"WWW-Authenticate": "Bearer"},
        )

    def _changing(self, action: Callable[[], None], done: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if (refusal := self._refusal(request)) is not None:
                return refusal
            try:
                await run_in_threadpool(action)
            except MillraceError as error:
                return _json({"error": error.message, "remedy": error.remedy}, 409)
            return _json({"result": done}, 202)

        return endpoint


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the driver, and reports when it listens."""

    def __init__(self, config: uvicorn.Config, started: threading.Event) -> None:
        super().__init__(config)
        self._listens = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listens.set()


def tasks_of(status: ApplicationStatus) -> dict[str, dict[str, Any]]:
    """Returns the state, worker, stream thread and restoration of each task, by task id."""
    threads = {task: each.slot for each in status.stream_threads for task in each.tasks}
    return {
        task: {
            "sub_topology": number,
            "state": state,
            "worker": status.task_hosts.get(task),
            "stream_thread": threads.get(task),
            "restore_remaining": progress.restore_remaining.get(task, 0),
            "restore_rate": progress.restore_rates.get(task, 0.0),
            "restore_eta_s": progress.restore_eta_s(task),
        }
        for number, progress in sorted(status.progress.items())
        for task, state in sorted(progress.task_states.items())
    }


def _json(content: Any, status_code: int, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status_code, headers, "application/json")
