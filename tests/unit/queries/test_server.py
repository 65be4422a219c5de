"""The server over real databases and real followers; only the status is given."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import psutil
import pytest
from starlette.testclient import TestClient

from millrace.driver.status import ApplicationStatus
from millrace.dsl import Consumed, Materialized, Stores, StreamsBuilder
from millrace.kafka.murmur2 import partition_for
from millrace.queries.catalog import Catalog
from millrace.queries.follower import Follow
from millrace.queries.followers import Followers
from millrace.queries.server import QueryServer
from millrace.queries.service import QueryService
from millrace.serdes import LongSerde, StringSerde
from millrace.state import TaskPosition, TaskState
from tests.unit.queries.conftest import HOST
from tests.waiting import eventually

TOKEN = {"Authorization": "Bearer secret"}
KEYS = [f"k{number:02}" for number in range(40)]


def build() -> Any:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(StringSerde(), LongSerde()))
    stream.group_by_key().count(Materialized.as_("counts"))
    stream.group_by_key().count(Materialized.as_(Stores.in_memory_key_value_store("in-memory")))
    builder.global_table("all", Consumed.with_(StringSerde(), StringSerde()), Materialized.as_("everywhere"))
    return builder.build()


class Statuses:
    """What the status topic says."""

    def __init__(self, status: ApplicationStatus | None) -> None:
        self.status = status

    def start(self) -> None: ...

    def stop(self) -> None: ...


class World:
    """Two tasks of an application, and a query server."""

    def __init__(self, directory: Path) -> None:
        topology = build()
        catalog = Catalog(topology, "app")
        self.states = [
            TaskState.open(directory / "app" / f"0_{partition}", topology.sub_topologies[0].stores)
            for partition in range(2)
        ]
        self.statuses = Statuses(None)
        follow = Follow(state_dir=str(directory), application_id="app", stores=catalog.queryable)
        self.followers = Followers(follow, freshness_ms=20)
        peers = {"elsewhere": "http://elsewhere:1"}
        service = QueryService("app", catalog, self.followers, lambda: self.statuses.status, peer=peers.get)
        self.server = QueryServer("127.0.0.1:0", "secret", service, self.followers, self.statuses)  # type: ignore[arg-type]
        self.http = TestClient(self.server.application(), headers=TOKEN, follow_redirects=False)

    def put(self, values: dict[str, int]) -> None:
        for partition, state in enumerate(self.states):
            mine = {key.encode(): value for key, value in values.items() if partition_for(key.encode(), 2) == partition}
            stored: list[bytes | None] = [value.to_bytes(8, "big") for value in mine.values()]
            state.key_value_store("counts").put_many(list(mine), stored, np.full(len(mine), 7, dtype=np.int64))
            state.drain_changelog()
            inputs = {("in", partition): (10, 20)[partition]}
            state.commit(TaskPosition(inputs=inputs, written_at_ms=int(time.time() * 1000)))

    def get(self, path: str, **parameters: object) -> httpx.Response:
        answer: httpx.Response = self.http.get(path, params=cast(dict[str, str], parameters))
        return answer

    def value(self, key: str) -> object:
        return self.get("/stores/counts/get", key=key).json().get("value")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for the module: followers take a while to start."""
    made = World(tmp_path_factory.mktemp("state"))
    made.put(dict.fromkeys(KEYS, 1))
    with made.http:
        yield made
    for state in made.states:
        state.close()


@pytest.fixture
def world(running: World, make_status: Callable[..., ApplicationStatus]) -> World:
    """The application runs, and every key has the value 1."""
    running.statuses.status = make_status()
    running.put(dict.fromkeys(KEYS, 1))
    # Each task has a follower of its own.
    eventually(lambda: {running.value(key) for key in KEYS}, {1}, limit_s=60)
    return running


def test_a_get_finds_the_partition_of_the_key_and_says_whose_answer_it_is(world: World) -> None:
    answer = world.get("/stores/counts/get", key="k07").json()
    partition = partition_for(b"k07", 2)
    assert (answer["key"], answer["value"], answer["timestamp"]) == ("k07", 1, 7)
    assert (answer["task"], answer["host"], answer["owner"]) == (f"0_{partition}", HOST, HOST)
    assert answer["position"] == {"in": {str(partition): (10, 20)[partition]}}
    assert (answer["behind"], answer["stale"]) == (0, False)
    assert 0 <= answer["age_ms"] < 60_000


def test_commits_are_seen_without_asking_for_them(world: World) -> None:
    world.put({"k07": 2})
    eventually(lambda: world.value("k07"), 2)


def test_many_keys_are_answered_at_once_in_their_order(world: World) -> None:
    answer = world.get("/stores/counts/get_many", key=["k07", "zz", "k01", "k07"]).json()
    assert [result["key"] for result in answer["results"]] == ["k07", "zz", "k01", "k07"]
    assert [result.get("value") for result in answer["results"]] == [1, None, 1, 1]
    assert [result["found"] for result in answer["results"]] == [True, False, True, True]
    for result in answer["results"]:
        partition = partition_for(result["key"].encode(), 2)
        about = answer["tasks"][result["task"]]
        assert (about["task"], about["host"], about["stale"]) == (f"0_{partition}", HOST, False)
        assert about["position"] == {"in": {str(partition): (10, 20)[partition]}}


def test_the_keys_of_a_task_that_may_not_answer_are_refused_and_no_others(
    world: World, make_status: Callable[..., ApplicationStatus]
) -> None:
    """Case Q01: a key of a restoring task is never reported as missing only."""
    world.statuses.status = make_status(tasks={"0_0": "RUNNING", "0_1": "RESTORING"})
    answer = world.get("/stores/counts/get_many", key=KEYS).json()
    assert answer["tasks"]["0_1"]["error"] == "restoring"
    assert {(each["task"], each["found"], each.get("error")) for each in answer["results"]} == {
        ("0_0", True, None),
        ("0_1", False, "restoring"),
    }


def test_pages_go_through_all_partitions(world: World) -> None:
    found: list[str] = []
    page: dict[str, object] = {}
    while True:
        answer = world.get("/stores/counts/all", limit=7, **page).json()
        assert len(answer["entries"]) <= 7
        found += [entry["key"] for entry in answer["entries"]]
        if answer["next"] is None:
            break
        page = {"page": answer["next"]}
    assert sorted(found) == KEYS
    own = world.get("/stores/counts/all", partition=1, limit=100).json()
    assert own["next"] is None
    assert {partition_for(entry["key"].encode(), 2) for entry in own["entries"]} == {1}


def test_a_key_that_is_not_there_is_told_apart_from_a_store_that_is_not(world: World) -> None:
    missing = world.get("/stores/counts/get", key="zz")
    assert (missing.status_code, missing.json()["error"]) == (404, "key_not_found")
    assert missing.json()["position"]
    unknown = world.get("/stores/cuonts/get", key="zz")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "store_unknown")
    assert "counts" in unknown.json()["remedy"]


@pytest.mark.parametrize(("store", "why"), [("in-memory", "memory"), ("everywhere", "global store")])
def test_stores_that_no_other_process_can_read_say_so(world: World, store: str, why: str) -> None:
    refused = world.get(f"/stores/{store}/get", key="k")
    assert (refused.status_code, refused.json()["error"]) == (409, "store_not_queryable")
    assert why in refused.json()["message"]


def test_a_restoring_task_answers_503_unless_a_stale_value_will_do(
    world: World, make_status: Callable[..., ApplicationStatus]
) -> None:
    """Case Q01."""
    world.statuses.status = make_status(tasks={"0_0": "RESTORING", "0_1": "RESTORING"})
    for path, parameters in (("get", {"key": "k07"}), ("get", {"key": "zz"}), ("range", {"from": "k"})):
        refused = world.get(f"/stores/counts/{path}", **parameters)
        assert (refused.status_code, refused.json()["error"]) == (503, "restoring")
        assert refused.headers["retry-after"] == "1"
    answer = world.get("/stores/counts/get", key="k07", stale="true").json()
    assert (answer["value"], answer["stale"], answer["state"]) == (1, True, "RESTORING")


def test_a_store_without_a_position_is_restoring_whatever_the_status_says(world: World) -> None:
    """Case Q01: not even a stale answer can be given."""
    for state in world.states:
        state.wipe()
    eventually(lambda: world.get("/stores/counts/get", key="k07").status_code, 503)
    for stale in ("false", "true"):
        refused = world.get("/stores/counts/get", key="k07", stale=stale)
        assert (refused.status_code, refused.json()["error"]) == (503, "restoring")
    world.put({"k07": 3})
    eventually(lambda: world.value("k07"), 3)


def test_a_task_of_another_host_is_redirected_to_its_query_server(
    world: World, make_status: Callable[..., ApplicationStatus]
) -> None:
    world.statuses.status = make_status(task_hosts={"0_0": "elsewhere/1", "0_1": "nowhere/1"})
    in_0, in_1 = (next(key for key in KEYS if partition_for(key.encode(), 2) == partition) for partition in range(2))
    moved = world.get("/stores/counts/get", key=in_0)
    assert moved.status_code == 307
    assert moved.headers["location"] == f"http://elsewhere:1/stores/counts/get?key={in_0}"
    assert moved.json()["owner"] == "elsewhere"
    misdirected = world.get("/stores/counts/get", key=in_1)
    assert (misdirected.status_code, misdirected.json()["owner"]) == (421, "nowhere")
    # What this host has of it, as a standby or from before, is told where that will do.
    standby = world.get("/stores/counts/get", key=in_0, stale="true").json()
    assert (standby["value"], standby["stale"], standby["owner"]) == (1, True, "elsewhere")


def test_requests_need_the_token(world: World) -> None:
    for path in ("/stores", "/stores/counts/get?key=k07"):
        for token in ("", "Bearer ", "Bearer secret2", "secret"):
            assert world.http.get(path, headers={"Authorization": token}).status_code == 401
    assert world.http.get("/openapi.json", headers={"Authorization": ""}).status_code == 200


def test_no_route_takes_anything_but_reading(world: World) -> None:
    known = [route.path for route in world.server.routes()]
    assert "/stores" in known
    for path in (*known, "/stores/counts/get", "/stores/counts/all"):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert world.http.request(method, path).status_code == 405


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("get", {}),
        ("get", {"key": "k", "kye": "k"}),
        ("get", {"key": ["k", "l"]}),
        ("get_many", {}),
        ("get_many", {"key": ["k"] * 1001}),
        ("all", {"limit": "0"}),
        ("all", {"limit": "1001"}),
        ("all", {"limit": "x"}),
        ("all", {"page": "x"}),
        ("all", {"partition": "2"}),
        ("all", {"stale": "maybe"}),
        ("fetch", {"key": "k"}),
        ("put", {"key": "k"}),
        ("get", {"key": "base64:?"}),
    ],
)
def test_a_malformed_request_says_what_is_wrong(world: World, path: str, parameters: dict[str, object]) -> None:
    refused = world.get(f"/stores/counts/{path}", **parameters)
    assert (refused.status_code, refused.json()["error"]) == (400, "bad_request")
    assert refused.json()["remedy"]


def test_the_stores_are_listed_with_what_they_can_be_asked(world: World) -> None:
    stores = {store["name"]: store for store in world.get("/stores").json()}
    assert stores["counts"]["operations"] == ["get", "get_many", "range", "prefix", "all"]
    assert stores["counts"]["partitions"] == 2
    assert stores["in-memory"]["operations"] == []
    assert stores["in-memory"]["not_queryable"]


def test_followers_that_die_are_started_anew(world: World) -> None:
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # what other tests have ended, and nobody has waited for
            if "millrace.queries.follower" in " ".join(child.cmdline()):
                child.kill()
    eventually(lambda: world.get("/stores/counts/get", key="k07").status_code, 200, limit_s=60)
    world.put({"k07": 5})
    eventually(lambda: world.value("k07"), 5)
