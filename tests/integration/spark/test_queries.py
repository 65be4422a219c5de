"""Interactive queries to an application that runs, is killed, and is restored."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from millrace.queries import QueryClient, QueryRefusedError, Reason
from tests.application import Application, wait_until
from tests.integration.spark.conftest import World
from tests.query_server import QueryServerProcess
from tests.records import Record
from tests.waiting import PATIENCE

KEYS = 10_000


def number(value: int) -> bytes:
    return struct.pack(">q", value)


class Queried:
    """The application, its query server, and a client of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.create("numbers", "prices", partitions=2)
        self.application: Application = world.application("queried")
        # Within the second that sessions are kept for: what has expired is not shown.
        world.send("numbers", *(Record(b"k%d" % key, number(key), 1_000 + key // 20) for key in range(KEYS)))
        for value, timestamp in ((10, 1_000), (20, 2_000), (30, 3_000)):
            world.send("prices", Record(b"apple", number(value), timestamp))
        self.server = QueryServerProcess(self.application)
        self.client = self.server.client()

    def close(self) -> None:
        self.client.close()
        self.server.close()
        self.application.kill()


@pytest.fixture(scope="module")
def queried(world: World) -> Iterator[Queried]:
    made = Queried(world)
    try:
        with pytest.raises(QueryRefusedError) as refused:
            made.client.get("sums", "k1")
        assert refused.value.reason is Reason.NOT_RUNNING
        made.application.start_and_wait().wait_until_caught_up()
        yield made
    finally:
        made.close()


@pytest.fixture
def client(queried: Queried) -> QueryClient:
    """A client of an application that runs and has all of its input; it is started again where a test has ended it."""
    if not queried.application.is_alive():
        queried.application.start_and_wait()
    queried.application.wait_until_caught_up()
    wait_until(lambda: _shows_all(queried), timeout_s=60, what="the server shows what is committed")
    return queried.client


def _shows_all(queried: Queried) -> bool:
    """Whether the tasks' states are shown as of the committed positions: the server looks at a commit after it."""
    topic, committed = queried.world.name("numbers"), queried.application.committed()
    shown = {}
    try:
        for key in ("k0", "k1", "k2", "k3", "k4", "k5"):  # Keys of both partitions.
            shown.update(queried.client.answer("sums", "get", key=key)["position"][topic])
        latest = queried.client.get("prices", "apple")
    except QueryRefusedError:
        return False
    return latest == 30 and shown == {
        str(topic_partition[1]): offset for topic_partition, offset in committed.items() if topic_partition[0] == topic
    }


def test_every_kind_of_store_answers_with_the_values_of_the_input(client: QueryClient) -> None:
    assert client.get("sums", "k42") == 42
    assert client.get("sums", "nobody") is None
    assert {entry["key"] for entry in client.range("sums", "k100", "k1001")} == {"k100", "k1000", "k1001"}
    assert {entry["key"]: entry["value"] for entry in client.all("sums")} == {f"k{key}": key for key in range(KEYS)}
    assert {entry["key"] for entry in client.prefix_scan("sums", "k999")} == {"k999", *(f"k999{n}" for n in range(10))}
    [window] = client.fetch("windows", "k42")
    assert (window["start"], window["end"], window["value"]) == (0, 10_000, 1)
    assert sum(entry["value"] for entry in client.fetch_all("windows")) == KEYS
    [session] = client.fetch("sessions", "k42")
    assert (session["start"], session["end"], session["value"]) == (1_002, 1_002, 1)
    assert client.get("prices", "apple") == 30
    assert client.get("prices", "apple", as_of=2_500) == 20
    assert client.get("prices", "apple", as_of=999) is None
    assert [entry["value"] for entry in client.versions("prices", "apple", 1_500, 2_000)] == [10, 20]


def test_an_answer_says_whose_state_it_is_and_how_old(queried: Queried, client: QueryClient) -> None:
    answer = client.answer("sums", "get", key="k42")
    committed = queried.application.committed()
    partition = int(answer["task"].partition("_")[2])
    assert answer["position"][queried.world.name("numbers")] == {
        str(partition): committed[queried.world.name("numbers"), partition]
    }
    assert (answer["behind"], answer["state"], answer["stale"]) == (0, "RUNNING", False)
    assert answer["host"] == answer["owner"]
    assert answer["age_ms"] >= 0
    assert answer["looked_at_ms_ago"] < 10_000


def test_what_cannot_be_answered_is_told_with_its_reason(queried: Queried, client: QueryClient) -> None:
    def reason(store: str, operation: str, **parameters: object) -> Reason:
        with pytest.raises(QueryRefusedError) as refused:
            client.answer(store, operation, **parameters)
        return refused.value.reason

    assert reason("nothing", "get", key="k") is Reason.STORE_UNKNOWN
    assert reason("in-memory", "get", key="k") is Reason.STORE_NOT_QUERYABLE
    assert reason("sums", "get", key="nobody") is Reason.KEY_NOT_FOUND
    assert reason("sums", "fetch", key="k") is Reason.BAD_REQUEST
    assert reason("sums", "get") is Reason.BAD_REQUEST
    assert reason("sums", "all", limit=0) is Reason.BAD_REQUEST
    assert reason("sums", "all", page="?") is Reason.BAD_REQUEST
    address = queried.server.control.address
    assert httpx.get(f"{address}/stores").status_code == 401
    token = {"Authorization": f"Bearer {queried.server.token}"}
    assert httpx.get(f"{address}/stores/sums/get?key=base64:!", headers=token).status_code == 400
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert httpx.request(method, f"{address}/stores/sums/get?key=k1", headers=token).status_code == 405
    document = httpx.get(f"{address}/openapi.json").json()
    assert {"/stores", "/stores/{store}/get", "/stores/{store}/versions"} <= document["paths"].keys()
    assert "Interactive queries" in httpx.get(address).text


def test_the_command_line_asks_the_same(queried: Queried, client: QueryClient, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(queried.server.token)
    command = [sys.executable, "-m", "millrace", "query", "app", "sums", "get", "k42"]
    command += ["--server", queried.server.control.address, "--token-file", str(token)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["value"] == 42


def test_answers_grow_with_the_input_and_never_go_back(queried: Queried, client: QueryClient) -> None:
    """While the application writes, every answer is the model's value at the position that it names."""
    topic = queried.world.name("numbers")
    assert client.get("sums", "grows") is None
    sent = threading.Thread(
        target=queried.world.send, args=("numbers", *(Record(b"grows", number(1), 1_000) for _ in range(50_000)))
    )
    start = {
        partition: offset for (name, partition), offset in queried.application.committed().items() if name == topic
    }
    sent.start()
    last = 0
    distinct: set[int] = set()
    deadline = time.monotonic() + 120 * PATIENCE
    while last < 50_000:
        assert time.monotonic() < deadline
        try:
            answer = client.answer("sums", "get", key="grows")
        except QueryRefusedError as error:
            if error.reason is not Reason.KEY_NOT_FOUND or distinct:
                raise
            continue
        [(partition, offset)] = answer["position"][topic].items()
        # Transaction-free input: an offset is a record.
        assert answer["value"] == offset - start[int(partition)]
        assert answer["value"] >= last
        last = answer["value"]
        distinct.add(last)
    sent.join()
    assert last == 50_000


@pytest.mark.kills
def test_a_restoring_store_says_so_and_never_that_a_key_does_not_exist(queried: Queried, client: QueryClient) -> None:
    """Case Q01: asked all the time while the application is killed, loses its state and restores it."""
    application = queried.application
    answers: Counter[str] = Counter()
    wrong: list[object] = []
    stop = threading.Event()

    def ask_on() -> None:
        with queried.server.client() as asking:
            while not stop.wait(0.01):
                for key, expected in (("k42", 42), ("zz", None)):
                    try:
                        value = asking.answer("sums", "get", key=key)["value"]
                        answers["value"] += 1
                    except QueryRefusedError as error:
                        answers[error.reason] += 1
                        if error.reason is not Reason.KEY_NOT_FOUND:
                            if error.details.get("retry_after_s") is None:
                                wrong.append(error)
                            continue
                        value = None
                    if value != expected:
                        wrong.append((key, value))
                try:
                    entries = list(asking.range("sums", "k1000", "k1009"))
                    if len(entries) != 10:
                        wrong.append(entries)
                except QueryRefusedError as error:
                    answers[error.reason] += 1

    asker = threading.Thread(target=ask_on)
    asker.start()
    try:
        application.kill()
        wait_until(lambda: answers[Reason.NOT_RUNNING] > 2, timeout_s=60, what="refused without a driver")
        assert client.get("sums", "k42", stale=True) == 42
        shutil.rmtree(application.state_directory)
        application.start_and_wait()
        values = answers["value"]
        wait_until(lambda: answers["value"] > values + 5, timeout_s=60, what="answered again")
    finally:
        stop.set()
        asker.join()
    assert wrong == []
    assert answers[Reason.RESTORING] + answers[Reason.NOT_RUNNING] > 0
    assert client.get("sums", "zz") is None


def test_a_stopped_application_answers_only_who_takes_stale_values(queried: Queried, client: QueryClient) -> None:
    assert queried.application.stop() == 0

    def refused() -> bool:
        try:
            client.get("sums", "k42")
        except QueryRefusedError as error:
            return error.reason is Reason.NOT_RUNNING
        return False

    wait_until(refused, timeout_s=30, what="refused")
    answer = client.answer("sums", "get", key="k42", stale=True)
    assert (answer["value"], answer["stale"], answer["behind"]) == (42, True, 0)


def test_the_server_ends_in_order(queried: Queried) -> None:
    """The last test of the module: nothing is left of it."""
    assert queried.server.stop() == 0
    assert not (queried.application.run_directory / "query.json").exists()
