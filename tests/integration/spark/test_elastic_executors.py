"""Stream threads on a standalone cluster whose executors come and go, each with stores on a disk of its own."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from millrace.driver.status import ApplicationStatus, StreamThreadStatus
from millrace.embedded.broker import free_ports
from millrace.install.launchers.spark_cluster import SparkCluster
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


def shared_out(status: ApplicationStatus) -> bool:
    """Whether each of three threads has its share of the tasks."""
    return sorted(tasks_by_thread(status)) == [2, 3, 3] and status.state == "RUNNING"


def copied(status: ApplicationStatus) -> set[str]:
    """The tasks of which a thread keeps a copy."""
    return {task for each in status.stream_threads for task in each.standbys}


def executor_of(thread: StreamThreadStatus) -> psutil.Process:
    """The virtual machine in whose Python worker a thread runs."""
    worker = psutil.Process(int(thread.worker.rpartition("/")[2]))
    return next(each for each in worker.parents() if each.name() == "java")


@pytest.mark.kills
def test_tasks_go_where_slots_and_their_state_are_as_executors_come_and_go(
    world: World, cluster: SparkCluster, blocked: Path
) -> None:
    (port,) = free_ports(1)
    world.create("named", "named-out", partitions=PARTITIONS)
    application = world.application(
        "explicit_names",
        launcher={
            "kind": "standalone", "master": cluster.master, "executors": 3, "executor_memory": "640m",
        },
        config={
            "processing.engine": "stream-threads",
            "num.stream.threads": 3,
            "num.standby.replicas": 1,
            "coordinator.port": port,
            "statestore.cache.max.bytes": 0,
            "commit.interval.ms": 100,
            # Spark gives a thread its executor, and takes none away that has one, however long it does nothing.
            "spark.dynamicAllocation.enabled": True,
            "spark.dynamicAllocation.maxExecutors": 3,
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
            "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
        },
    )  # fmt: skip
    # A worker that cannot reach the coordinator is named at once, not after Spark's retries.
    blocked.write_text(str(port))
    application.start().wait_for(lambda status: "cannot reach" in status.reason, timeout_s=120, what="its reason")
    named = application.status()
    assert named is not None
    assert named.state == "REBALANCING"
    assert "stream thread 0 on " in named.reason
    assert f":{port}: let the workers' hosts connect to the driver at that name and port" in named.reason
    blocked.unlink()

    # One slot for three threads: its thread has all tasks, and the status says what is missing.
    application.wait_until_running(timeout_s=60)
    counted = Counted(world, application)
    counted.send(50)
    counted.check()
    status = application.status()
    assert status is not None
    assert tasks_by_thread(status) == [2 * PARTITIONS]
    assert "1 of 3 stream threads have found a slot, and have all tasks: give Spark 3 slots" in status.shortage
    assert application.metric("millrace_stream_threads") == 1
    assert application.metric("millrace_stream_threads_wanted") == 3

    # Two more executors: they get threads, their share of the tasks, and copies of the others.
    cluster.add_worker()
    cluster.add_worker()
    application.wait_for(shared_out, timeout_s=90, what="a share for each thread")
    application.wait_for(
        lambda status: sum(each.standby_lag == 0 for each in status.stream_threads if each.standbys) >= 2
        and copied(status) == {f"1_{number}" for number in range(PARTITIONS)},
        timeout_s=60, what="a copy of each task with a store",
    )  # fmt: skip
    status = application.status()
    assert status is not None
    assert status.shortage == ""
    for each in status.stream_threads:
        assert not set(each.standbys) & set(each.tasks)
    first = next(each for each in status.stream_threads if any(task.startswith("1_") for task in each.tasks))
    counted.send(5)
    counted.check()

    # Killed, its tasks are with the others within seconds, which have their stores but for a tail.
    restored = counted.restored()
    executor_of(first).kill()
    counted.send(1)
    application.wait_for(
        lambda status: status.state == "RUNNING" and first.worker not in status.task_hosts.values(),
        timeout_s=40, what="the tasks of the killed executor",
    )  # fmt: skip
    counted.check()
    assert counted.restored() - restored <= TAIL

    # Spark starts an executor and its thread again, on the worker whose disk has its stores.
    application.wait_for(shared_out, timeout_s=60, what="the thread again")
    counted.send(1)
    counted.check()
    assert counted.restored() - restored <= 2 * TAIL

    # One that cannot connect is named, while the others have all tasks; it hinders no stop.
    blocked.write_text(str(port))
    status = application.status()
    assert status is not None
    executor_of(status.stream_threads[0]).kill()
    counted.send(1)
    application.wait_for(
        lambda status: "cannot reach the coordinator at " in status.shortage and f":{port}: let" in status.shortage,
        timeout_s=60, what="the thread that cannot connect",
    )  # fmt: skip
    counted.check()
    assert application.stop() == 0
