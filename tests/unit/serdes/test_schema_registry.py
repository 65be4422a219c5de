"""A schema registry that refuses what another has registered at the same moment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from millrace.errors import ConfigurationError
from millrace.serdes.schema_registry import SchemaRegistry

REGISTER, LOOK_UP = "/subjects/orders/versions?normalize=False", "/subjects/orders?normalize=False&deleted=False"
EXISTS = (409, {"error_code": 409, "message": "An artifact with ID 'orders' already exists."})
NOT_THERE = (404, {"error_code": 40403, "message": "Schema not found"})
THERE = (200, {"subject": "orders", "id": 7, "version": 1, "schema": '"string"'})


class Registry(ThreadingHTTPServer):
    """Gives prepared answers, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.answers: list[tuple[int, dict[str, object]]] = []


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(self.path)
        status, answer = self.server.answers.pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def id_of(registry: Registry, *answers: tuple[int, dict[str, object]]) -> int:
    registry.answers = list(answers)
    url = f"http://127.0.0.1:{registry.server_port}"
    return SchemaRegistry(url, (("max.retries", 0),)).id_of("orders", '"string"', register=True)


def test_a_schema_that_another_has_just_registered_is_found(registry: Registry) -> None:
    assert id_of(registry, EXISTS, THERE) == 7
    assert registry.asked == [REGISTER, LOOK_UP]


def test_where_another_schema_was_registered_meanwhile_it_is_registered_after_it(registry: Registry) -> None:
    assert id_of(registry, EXISTS, NOT_THERE, (200, {"id": 8})) == 8
    assert registry.asked == [REGISTER, LOOK_UP, REGISTER]


def test_one_that_is_not_compatible_is_refused(registry: Registry) -> None:
    with pytest.raises(ConfigurationError, match="not compatible with the versions there"):
        id_of(registry, EXISTS, NOT_THERE, EXISTS)
