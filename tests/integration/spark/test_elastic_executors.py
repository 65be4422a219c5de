"""Stream threads on a standalone cluster whose executors come and go, each with stores on a disk of its own."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from millrace.control.status import ApplicationStatus
from millrace.kafka.broker import free_ports
from millrace.ops.launchers.spark_cluster import SparkCluster
from tests.application import PREFIX_VARIABLE, SEARCH_PATH, Application
from tests.integration.spark.conftest import World
from tests.records import Record

KEYS = tuple(f"k{number}".encode() for number in range(40))
PARTITIONS = 4
TAIL = 5 * len(KEYS)

BLOCKED = "MILLRACE_TEST_BLOCKED"
"""Names a file with a port that no worker may connect to while the file exists."""

FIREWALL = f'''
import os, sys
def refuse(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        try:
            with open(os.environ["{BLOCKED}"]) as file:
                port = int(file.read())
        except FileNotFoundError:
            return
        if arguments[1][1] == port:
            raise ConnectionRefusedError(111, "the test's firewall")
sys.addaudithook(refuse)
'''
"""What Python imports at its start in the executors' workers."""


class Counted:
    """A count of records by key, of which each update is written: whether all came out, each once and in order."""

    def __init__(self, world: World, application: Application) -> None:
        self.world = world
        self.application = application
        self.counts: Counter[bytes] = Counter()

    def send(self, each: int) -> None:
        """Sends as many records of every key."""
        self.world.send("named", *[Record(key, b"x", 5) for _ in range(each) for key in KEYS])
        self.counts.update(dict.fromkeys(KEYS, each))

    def check(self) -> None:
        """Every update came out, none twice, in order."""
        self.application.wait_until_caught_up(timeout_s=120)
        updates: dict[bytes, list[int]] = {}
        for record in self.world.read("named-out"):
            updates.setdefault(record.key or b"", []).append(struct.unpack(">q", record.value or b"")[0])
        assert updates == {key: list(range(1, count + 1)) for key, count in self.counts.items()}

    def restored(self) -> float:
        """Changelog records that tasks have restored."""
        return self.application.metric("millrace_stream_task_restore_records_total")


def workers(directory: Path, blocked: Path, prefix: str, patch: pytest.MonkeyPatch) -> None:
    """What the cluster's Python workers find in their environment."""
    (directory / "sitecustomize.py").write_text(FIREWALL)
    patch.setenv("PYTHONPATH", f"{SEARCH_PATH}:{directory}")
    patch.setenv(PREFIX_VARIABLE, prefix)
    patch.setenv(BLOCKED, str(blocked))


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """The file with the blocked port."""
    return tmp_path / "blocked"


@pytest.fixture
def cluster(tmp_path: Path, world: World, blocked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    """A cluster of one worker with one slot; more are added by the test."""
    workers(tmp_path, blocked, world.name("")[:-1], monkeypatch)
    with SparkCluster(tmp_path / "cluster", workers=1, cores=1, memory="700m", own_state=True) as started:
        yield started


def tasks_by_thread(status: ApplicationStatus) -> list[int]:
    """How many tasks each thread has and keeps."""
    return [len(each.tasks) - len(each.leaving) for each in status.stream_threads]


def executor_of(status: ApplicationStatus, number: int) -> psutil.Process:
    """The virtual machine in whose Python worker a thread runs."""
    worker = psutil.Process(int(status.stream_threads[number].worker.rpartition("/")[2]))
    return next(each for each in worker.parents() if each.name() == "java")


@pytest.mark.kills
@pytest.mark.timeout(400)
def test_tasks_go_where_slots_and_their_state_are_as_executors_come_and_go(
    world: World, cluster: SparkCluster, blocked: Path
) -> None:
    (port,) = free_ports(1)
    world.create("named", "named-out", partitions=PARTITIONS)
    application = world.application(
        "explicit_names",
        launcher={
            "kind": "standalone", "master": cluster.master, "executors": 3, "executor_memory": "500m",
        },
        config={
            "processing.engine": "stream-threads",
            "num.stream.threads": 2,
            "num.standby.replicas": 1,
            "coordinator.port": port,
            "statestore.cache.enabled": False,
            "commit.interval.ms": 100,
            # Spark gives a thread its executor, and takes none away that has one, however long it does nothing.
            "spark.dynamicAllocation.enabled": True,
            "spark.dynamicAllocation.maxExecutors": 2,
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
            "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        },
    )  # fmt: skip
    # A worker that cannot reach the coordinator is named at once, not after Spark's retries.
    blocked.write_text(str(port))
    began = time.monotonic()
    application.start().wait_for(lambda status: "cannot reach" in status.reason, timeout_s=120, what="its reason")
    named = application.status()
    assert named is not None
    assert named.state == "REBALANCING"
    assert "stream thread 0 on " in named.reason
    assert f":{port}: let the workers' hosts connect to the driver at that name and port" in named.reason
    print(f"named after {time.monotonic() - began:.1f} s")
    blocked.unlink()

    # One slot for two threads: its thread has all tasks, and the status says what is missing.
    application.wait_until_running(timeout_s=60)
    counted = Counted(world, application)
    counted.send(50)
    counted.check()
    status = application.status()
    assert status is not None
    assert tasks_by_thread(status) == [2 * PARTITIONS]
    assert "1 of 2 stream threads have found a slot, and have all tasks: give Spark 2 slots" in status.shortage
    assert (application.metric("millrace_stream_threads"), application.metric("millrace_stream_threads_wanted")) == (
        1,
        2,
    )

    # A second executor: it gets a thread, its share of the tasks, and copies of the others.
    cluster.add_worker()
    application.wait_for(
        lambda status: tasks_by_thread(status) == [PARTITIONS, PARTITIONS],
        timeout_s=90, what="a share for the second thread",
    )  # fmt: skip
    application.wait_for(
        lambda status: [each.standby_lag for each in status.stream_threads] == [0, 0], timeout_s=60, what="its copies"
    )
    status = application.status()
    assert status is not None
    assert status.shortage == ""
    first, second = status.stream_threads
    assert set(first.standbys) == {task for task in second.tasks if task.startswith("1_")}
    assert set(second.standbys) == {task for task in first.tasks if task.startswith("1_")}
    counted.send(5)
    counted.check()

    # Killed, its tasks are with the other one within seconds, which has their stores but for a tail.
    restored = counted.restored()
    executor_of(status, 0).kill()
    killed = time.monotonic()
    other = second.worker
    counted.send(1)
    application.wait_for(
        lambda status: set(status.task_hosts.values()) == {other} or (len(status.stream_threads) == 2 and (
            first.worker not in {each.worker for each in status.stream_threads}
        )),
        timeout_s=30, what="the tasks of the killed executor",
    )  # fmt: skip
    print(f"elsewhere after {time.monotonic() - killed:.1f} s")
    counted.check()
    assert counted.restored() - restored <= TAIL

    # Spark starts an executor and its thread again, on the worker whose disk has its stores.
    application.wait_for(
        lambda status: tasks_by_thread(status) == [PARTITIONS, PARTITIONS], timeout_s=60, what="the thread again"
    )
    counted.send(1)
    counted.check()
    assert counted.restored() - restored <= 2 * TAIL
    assert application.stop() == 0
