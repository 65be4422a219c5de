from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from millrace.driver.health import Health, HealthReason
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.server import ControlServer, ControlSurface
from millrace.driver.status import StreamThreadStatus, SubTopologyStatus
from millrace.errors import ConfigurationError, OperationError

WELL = Health(alive=True, ready=True, reason=HealthReason.WORKING, text="works")


class World:
    def __init__(self, status: Any) -> None:
        self.status = status
        self.health = WELL
        self.calls: list[str] = []

    def operate(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if name == "never":
            raise OperationError("not now", remedy="later")
        return {"name": name, "arguments": dict(arguments)}

    def refuse(self) -> None:
        raise OperationError("a batch did not end", remedy="wait")


@pytest.fixture
def world(make_status: Callable[..., Any]) -> World:
    progress = SubTopologyStatus(
        batches=2,
        records=10,
        lag=4,
        task_states={"0_1": "RUNNING", "0_0": "RESTORING"},
        restore_remaining={"0_0": 6},
        restore_rates={"0_0": 3.0},
    )
    return World(
        make_status(
            application_id="<app>",
            progress={0: progress},
            offsets={"in": {0: 5}},
            lag={"in": {0: 4}},
            task_hosts={"0_1": "h/12"},
            topology_fingerprint="f00",
            topology_summary={"nodes": 3},
        )
    )


@pytest.fixture
def server(world: World) -> ControlServer:
    surface = ControlSurface(
        status=lambda: world.status,
        health=lambda: world.health,
        metrics=lambda: b"records_total 1.0\n",
        describe=lambda: "Topologies:\n",
        stop=lambda: world.calls.append("stop"),
        pause=world.refuse,
        resume=lambda: world.calls.append("resume"),
        picture=lambda: b"<svg/>",
        operate=world.operate,
    )
    return ControlServer("127.0.0.1:0", "secret", surface)


@pytest.fixture
def client(server: ControlServer) -> Iterator[httpx.Client]:
    server.start()
    with httpx.Client(base_url=server.address) as each:
        yield each
    server.stop()


def test_health_follows_the_judgement(client: httpx.Client, world: World) -> None:
    assert client.get("/health/live").status_code == client.get("/health/ready").status_code == 200
    world.health = Health(alive=True, ready=False, reason=HealthReason.STARTING, text="starts")
    assert client.get("/health/live").status_code == 200
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()["reason"], answer.json()["text"]) == (503, "starting", "starts")
    world.health = Health(alive=False, ready=False, reason=HealthReason.NO_PROGRESS, text="stuck")
    assert client.get("/health/live").status_code == 503


def test_stream_threads_are_seen_with_their_tasks(client: httpx.Client, world: World) -> None:
    assert "Stream threads" not in client.get("/").text
    thread = StreamThreadStatus(
        slot=1, worker="h/12", tasks=["0_0", "0_1"], leaving=["0_1"], poll=0.125, idle=0.875, commit_latency_s=0.031
    )
    world.status = world.status.model_copy(
        update={"stream_threads": [thread], "shortage": "1 of 2 stream threads run <here>"}
    )
    assert {task: each["stream_thread"] for task, each in client.get("/tasks").json().items()} == {"0_0": 1, "0_1": 1}
    text = client.get("/").text
    assert "<td>1</td><td>h/12</td><td>0_0, 0_1 (leaves)</td>" in text
    assert "1 of 2 stream threads run &lt;here&gt;" in text
    assert client.get("/status").json()["stream_threads"][0]["worker"] == "h/12"


def test_what_can_be_seen(client: httpx.Client, world: World) -> None:
    assert client.get("/metrics").text == "records_total 1.0\n"
    assert client.get("/metrics").headers["content-type"].startswith("text/plain")
    assert client.get("/status").content == world.status.to_json()
    assert client.get("/topology").text == "Topologies:\n"
    assert client.get("/topology", headers={"accept": "application/json"}).json() == {"fingerprint": "f00", "nodes": 3}
    assert client.get("/topology.svg").headers["content-type"] == "image/svg+xml"
    assert client.get("/tasks").json() == {
        "0_0": {
            "sub_topology": 0,
            "state": "RESTORING",
            "worker": None,
            "stream_thread": None,
            "restore_remaining": 6,
            "restore_rate": 3.0,
            "restore_eta_s": 2.0,
        },
        "0_1": {
            "sub_topology": 0,
            "state": "RUNNING",
            "worker": "h/12",
            "stream_thread": None,
            "restore_remaining": 0,
            "restore_rate": 0.0,
            "restore_eta_s": None,
        },
    }


def test_the_page_shows_state_tasks_and_lag_and_escapes_names(client: httpx.Client) -> None:
    page = client.get("/").text
    assert "&lt;app&gt;" in page
    assert "<app>" not in page
    assert all(text in page for text in ("RUNNING", "RESTORING", "h/12", "works"))


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}])
def test_every_route_that_takes_more_than_reading_refuses_without_the_token(
    server: ControlServer, world: World, headers: dict[str, str]
) -> None:
    application = server.application()
    assert all(isinstance(route, Route) for route in application.routes), "a mount hides its routes from this test"
    changing = {
        (method, route.path)
        for route in application.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"GET", "HEAD"}
    }
    assert changing >= {("POST", path) for path in ("/stop", "/pause", "/resume", "/operations/{name}")}
    client = TestClient(application)
    for method, path in sorted(changing):
        answer = client.request(method, path.replace("{name}", "look"), headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
    assert world.calls == []


def test_a_change_with_the_token_is_done(client: httpx.Client, world: World) -> None:
    client.headers["authorization"] = "Bearer secret"
    assert client.post("/stop").status_code == 202
    assert client.post("/resume").json() == {"result": "resumed"}
    assert world.calls == ["stop", "resume"]
    assert client.get("/stop").status_code == 405


def test_a_change_that_fails_says_why_and_what_to_do(client: httpx.Client) -> None:
    answer = client.post("/pause", headers={"authorization": "Bearer secret"})
    assert answer.status_code == 409
    assert answer.json() == {"error": "a batch did not end", "remedy": "wait"}


def test_a_taken_port_is_an_error_that_names_it(client: httpx.Client, world: World, make_status: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        surface = ControlSurface(
            status=make_status,
            health=lambda: WELL,
            metrics=bytes,
            describe=str,
            stop=lambda: None,
            pause=lambda: None,
            resume=lambda: None,
        )
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            ControlServer(f"127.0.0.1:{port}", "t", surface).start()
        with pytest.raises(ConfigurationError, match="must be host:port"):
            ControlServer("localhost", "t", surface)


def test_an_ended_application_still_tells_its_state(client: httpx.Client, world: World) -> None:
    world.status = world.status.model_copy(update={"state": ApplicationState.ERROR, "remedy": "look"})
    assert client.get("/status").json()["state"] == "ERROR"
    assert "look" in client.get("/").text


def test_an_operation_takes_and_returns_json_and_needs_the_token(client: httpx.Client) -> None:
    token = {"Authorization": "Bearer secret"}
    assert client.post("/operations/look", json={"deep": 2}).status_code == 401
    answer = client.post("/operations/look", json={"deep": 2}, headers=token)
    assert (answer.status_code, answer.json()) == (200, {"name": "look", "arguments": {"deep": 2}})
    assert client.post("/operations/look", headers=token).json()["arguments"] == {}
    refused = client.post("/operations/never", headers=token)
    assert (refused.status_code, refused.json()) == (409, {"error": "not now", "remedy": "later"})
    assert client.post("/operations/look", content=b"[1]", headers=token).status_code == 400
    assert client.post("/operations/look", content=b"{", headers=token).status_code == 400
    assert client.get("/operations/look", headers=token).status_code == 405
