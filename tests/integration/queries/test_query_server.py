"""The query server as a process: its status comes from the broker, its state from a directory that is written here."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import psutil
import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity, SubTopologyStatus
from millrace.driver.status_topic import StatusPublisher
from millrace.embedded.broker import free_ports
from millrace.kafka.murmur2 import partition_for
from millrace.queries import QueryClient, QueryRefusedError, Reason
from millrace.state import TaskPosition, TaskState
from millrace.topology.stores import StoreKind, StoreSpec
from tests.application import Application
from tests.query_server import QueryServerProcess
from tests.waiting import eventually

HOST = DriverIdentity.of_this_process().host
KEYS = [f"k{number}" for number in range(1_500)]


class World:
    """An application without a driver: this process publishes its status and writes its state."""

    def __init__(self, bootstrap_servers: str, directory: Path) -> None:
        name = f"q{uuid4().hex[:8]}"
        self.application = Application(
            bootstrap_servers, f"{name}-app", "tests.integration.spark.topologies:summing", directory, prefix=name
        )
        self.application_id, self.topic = f"{name}-app", f"{name}-numbers"
        self.publisher = StatusPublisher(bootstrap_servers, self.application_id, timeout_s=90)
        self.publisher.open()
        root = self.application.state_directory / self.application_id
        store = StoreSpec(name="sums", kind=StoreKind.KEY_VALUE)
        self.states = [TaskState.open(root / f"0_{partition}", [store]) for partition in range(2)]
        self.put(dict.fromkeys(KEYS, 1))
        self.publish("RUNNING")
        self.other_address = f"127.0.0.1:{free_ports(1)[0]}"
        self.server = QueryServerProcess(
            self.application, freshness_ms=20, nice=1, peers={"other": f"http://{self.other_address}"}
        )
        self.client = self.server.client()

    def publish(
        self,
        task_state: str,
        state: ApplicationState = ApplicationState.RUNNING,
        *,
        hosts: tuple[str, str] = (HOST, HOST),
    ) -> None:
        driver = DriverIdentity.of_this_process()
        tasks = ("0_0", "0_1")
        progress = SubTopologyStatus(
            active=True, task_states=dict.fromkeys(tasks, task_state), restore_remaining={"0_0": 12, "0_1": 12}
        )
        self.publisher.publish(
            ApplicationStatus(
                application_id=self.application_id,
                state=state,
                driver=driver,
                driver_epoch=self.publisher.epoch,
                partitions={self.topic: 2},
                offsets={self.topic: {0: 5, 1: 5}},
                progress={0: progress},
                task_hosts={task: f"{host}/1" for task, host in zip(tasks, hosts, strict=True)},
                updated_at=time.time(),
            )
        )

    def put(self, values: dict[str, int]) -> None:
        for partition, state in enumerate(self.states):
            mine = {key.encode(): value for key, value in values.items() if partition_for(key.encode(), 2) == partition}
            stored: list[bytes | None] = [value.to_bytes(8, "big") for value in mine.values()]
            state.key_value_store("sums").put_many(list(mine), stored, np.full(len(mine), 7, dtype=np.int64))
            state.drain_changelog()
            state.commit(TaskPosition(inputs={(self.topic, partition): 5}, written_at_ms=int(time.time() * 1_000)))

    def close(self) -> None:
        self.client.close()
        self.server.close()
        self.publisher.close()
        for state in self.states:
            state.close()


@pytest.fixture(scope="module")
def world(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(bootstrap_servers, tmp_path_factory.mktemp("queried"))
    yield made
    made.close()


def reason_of(ask: Callable[[], object]) -> str:
    """Why it was refused; ``answered`` where it was not."""
    try:
        ask()
    except QueryRefusedError as error:
        return str(error.reason)
    return "answered"


def test_the_client_gets_scans_and_pages(world: World) -> None:
    client: QueryClient = world.client
    assert client.get("sums", "k7") == 1
    assert client.get("sums", "zz") is None
    assert {entry["key"] for entry in client.all("sums")} == set(KEYS)
    assert sorted(entry["key"] for entry in client.range("sums", "k10", "k1001")) == ["k10", "k100", "k1000", "k1001"]
    assert sum(entry["value"] for entry in client.prefix_scan("sums", "k14")) == 111
    assert [store["name"] for store in client.stores()] == ["sums"]
    answer = client.answer("sums", "get", key="k7")
    assert (answer["behind"], answer["stale"], answer["standby"]) == (0, False, False)


def test_new_commits_are_seen(world: World) -> None:
    world.put({"k7": 2})
    eventually(lambda: world.client.get("sums", "k7"), 2, limit_s=60)


def test_the_status_decides_who_may_answer(world: World) -> None:
    """Case Q01: an existing and a missing key, and a range, are refused alike while the store is restored."""
    client = world.client
    asks: list[Callable[[], object]] = [
        lambda: client.get("sums", "k9"),
        lambda: client.get("sums", "zz"),
        lambda: list(client.range("sums", "k1", "k2")),
    ]
    for task_state, state, expected in (
        ("RESTORING", ApplicationState.REBALANCING, Reason.RESTORING),
        ("RUNNING", ApplicationState.PENDING_SHUTDOWN, Reason.NOT_RUNNING),
        ("RESTORING", ApplicationState.REBALANCING, Reason.RESTORING),
    ):
        world.publish(task_state, state)
        eventually(lambda: reason_of(asks[0]), str(expected), limit_s=60)
        assert {reason_of(ask) for ask in asks} == {str(expected)}
    with pytest.raises(QueryRefusedError) as refused:
        client.get("sums", "k9")
    assert refused.value.details["remaining"] == 12
    assert client.get("sums", "k9", stale=True) == 1
    world.publish("RUNNING")
    with world.server.client(wait_s=60) as waiting:
        assert waiting.get("sums", "k9") == 1


def test_each_server_answers_for_its_own_tasks_and_names_the_server_of_the_others(world: World, tmp_path: Path) -> None:
    """Two servers: one stands for another host, which has partition 1."""
    other = QueryServerProcess(
        world.application,
        freshness_ms=20,
        address=world.other_address,
        host_name="other",
        peers={HOST: world.server.control.address},
        run_directory=tmp_path,
        token_file=Path(world.server.control.token_file),
    )
    here, there = (next(key for key in KEYS[10:] if partition_for(key.encode(), 2) == part) for part in range(2))
    try:
        world.publish("RUNNING", hosts=(HOST, "other"))
        for server in (world.server, other):
            with server.client(wait_s=60) as client:
                eventually(lambda: client.answer("sums", "get", key=there)["host"], "other", limit_s=60)
                assert client.answer("sums", "get", key=here)["host"] == HOST
                assert client.get_many("sums", [there, "zz", here]) == [1, None, 1]
                assert {entry["key"] for entry in client.all("sums")} == set(KEYS)
        world.publish("RUNNING", hosts=(HOST, "unknown"))
        eventually(lambda: reason_of(lambda: world.client.get("sums", there)), str(Reason.NOT_HERE), limit_s=60)
        with pytest.raises(QueryRefusedError) as refused:
            world.client.get_many("sums", [here, there])
        assert (refused.value.reason, refused.value.details["owner"]) == (Reason.NOT_HERE, "unknown")
        world.publish("RUNNING")
        eventually(lambda: reason_of(lambda: world.client.get("sums", there)), "answered", limit_s=60)
    finally:
        assert other.stop() == 0


def test_many_keys_are_asked_for_at_once(world: World) -> None:
    values = world.client.get_many("sums", [*KEYS, "zz"])
    assert len(values) == len(KEYS) + 1
    assert values[-1] is None
    assert None not in values[:-1]
    assert world.client.get_many("sums", []) == []


def test_the_server_takes_the_priority_that_it_was_given(world: World) -> None:
    process = psutil.Process(world.server.process.pid)
    assert {each.nice() for each in (process, *process.children())} == {1}


def test_the_command_line_prints_the_answer(world: World, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(world.server.token)
    command = [sys.executable, "-m", "millrace", "query", "app", "sums", "get"]
    where = ["--server", world.server.control.address, "--token-file", str(token)]
    done = subprocess.run([*command, "k9", *where], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["value"] == 1
    missing = subprocess.run([*command, "zz", *where], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "does not have the key" in missing.stderr


def test_the_client_needs_neither_arrow_nor_a_broker() -> None:
    unwanted = {"pyarrow", "confluent_kafka", "rocksdict"}
    script = f"import sys, millrace.queries\nsys.exit(str({unwanted} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == "set()"


def test_the_server_ends_in_order_and_takes_its_address_back(world: World) -> None:
    """The last test of the module: nothing of the server is left."""
    path = world.application.run_directory / "query.json"
    assert path.exists()
    assert world.server.stop() == 0
    assert not path.exists()
