"""As much of a Kubernetes API server as spark-submit and a launcher need, in memory, over HTTP.

What is posted is kept as it came; a test sets the pods' states. ``kubectl`` is a program of the tests that asks it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

SERVER_VARIABLE = "TEST_KUBERNETES_API"
_KUBECTL = Path(__file__).with_name("kubectl.py")


class KubernetesApi:
    """A server with a free port; a context manager."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The objects of a kind, in the order in which they came."""
        with self.lock:
            return [each for each in self.objects.values() if each["kind"] == kind]

    def pod(self, name: str) -> dict[str, Any]:
        """A pod."""
        return next(each for each in self.of_kind("Pod") if each["metadata"]["name"] == name)

    def set_status(self, name: str, status: Mapping[str, Any]) -> None:
        """Give a pod a state, as the kubelet would."""
        pod = self.pod(name)
        with self.lock:
            pod["status"] = dict(status)

    def __enter__(self) -> KubernetesApi:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def install_kubectl(directory: Path, api: str) -> dict[str, str]:
    """A program ``kubectl`` that asks the server; the variables with which it is found."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "kubectl"
    program.write_text(f"#!{sys.executable}\n{_KUBECTL.read_text()}")
    program.chmod(0o755)
    return {"PATH": f"{directory}{os.pathsep}{os.environ['PATH']}", SERVER_VARIABLE: api}


def _handler(api: KubernetesApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            with api.lock:
                found = api.objects.get(path)
            if found is not None:
                self._answer(200, found)
            else:
                self._missing(path)

        def do_POST(self) -> None:
            given = self._given()
            path = f"{urlsplit(self.path).path}/{given['metadata']['name']}"
            with api.lock:
                if path in api.objects:
                    message = f'{given["kind"].lower()}s "{given["metadata"]["name"]}" already exists'
                    self._answer(409, _status(409, "AlreadyExists", message))
                    return
                self._keep(path, given)
            self._answer(201, given)

        def do_PATCH(self) -> None:
            given, path = self._given(), urlsplit(self.path).path
            with api.lock:
                self._keep(path, given)
            self._answer(200, given)

        def do_DELETE(self) -> None:
            path = urlsplit(self.path).path
            with api.lock:
                found = api.objects.pop(path, None)
            if found is None:
                self._missing(path)
            else:
                self._answer(200, _status(200, "", ""))

        def _keep(self, path: str, given: dict[str, Any]) -> None:
            before = api.objects.get(path, {"metadata": {}})
            given["metadata"]["uid"] = before["metadata"].get("uid", str(uuid4()))
            if given["kind"] == "Pod":
                given.setdefault("status", {"phase": "Pending"})
            api.objects[path] = given

        def _given(self) -> dict[str, Any]:
            return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _missing(self, path: str) -> None:
            kind, name = path.rsplit("/", 2)[-2:]
            self._answer(404, _status(404, "NotFound", f'{kind} "{name}" not found'))

        def _answer(self, code: int, document: Mapping[str, Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Says nothing: a test reads what was kept."""

    return Handler


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    success = "Success" if code < 400 else "Failure"
    return {"apiVersion": "v1", "kind": "Status", "status": success, "code": code, "reason": reason, "message": message}
