"""Purging repartition topics on request, as a compaction does: up to what is committed, and not under a savepoint."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from millrace.driver.driver_operations import TaskGate
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.task_databases import PURGE, database_operations, purge
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import begin_offsets
from millrace.kafka.producer import TaskProducer
from tests.records import Record, produce
from tests.unit.driver.conftest import FakeQuery, RunningDriver

RECORDS = 5


@pytest.fixture
def admin(bootstrap_servers: str) -> KafkaAdmin:
    return KafkaAdmin(bootstrap_servers)


@pytest.fixture
def topic(bootstrap_servers: str, make_topic: Callable[..., str], unique: str) -> str:
    """A repartition topic of two partitions, of which the group has committed three records of the first."""
    name = make_topic("repartition", partitions=2)
    produce(bootstrap_servers, name, [Record(b"k", b"v", partition=number % 2) for number in range(2 * RECORDS)])
    with TaskProducer(bootstrap_servers, transactional_id=f"{unique}-1_0") as producer:
        producer.init()
        producer.begin()
        producer.commit({(name, 0): (3, "")}, unique)
    return name


def test_records_are_purged_up_to_the_committed_offsets_and_never_past_them(
    bootstrap_servers: str, make_topic: Callable[..., str], unique: str, admin: KafkaAdmin, topic: str
) -> None:
    other = make_topic("in")
    produce(bootstrap_servers, other, [Record(b"k", b"v")] * RECORDS)
    with TaskProducer(bootstrap_servers, transactional_id=f"{unique}-0_0") as producer:
        producer.init()
        producer.begin()
        producer.commit({(other, 0): (RECORDS, "")}, unique)
    assert purge(admin, unique, [topic]) == {f"{topic}-0": 3}
    assert begin_offsets(admin, [(topic, 0), (topic, 1), (other, 0)]) == {(topic, 0): 3, (topic, 1): 0, (other, 0): 0}
    assert purge(admin, unique, [topic]) == {f"{topic}-0": 3}, "again is harmless"


def test_a_savepoint_that_copies_what_waits_is_not_purged_under(
    tmp_path: Path, unique: str, admin: KafkaAdmin, topic: str
) -> None:
    asked = threading.Event()
    seen: list[Mapping[tuple[str, int], int]] = []
    queries = [FakeQuery()]

    def copy(_: Mapping[str, Any], gate: TaskGate) -> Mapping[str, Any]:
        """Reads the topic as a savepoint does."""
        with gate.without_purge():
            copying.set()
            assert asked.wait(30)
            seen.extend(begin_offsets(admin, [(topic, 0)]) for _ in range(20))
            assert not any(query.purges for query in queries)
        return {}

    copying = threading.Event()
    operations = {"savepoint": copy, **database_operations(admin, unique)}
    running = RunningDriver(tmp_path, queries, None, {"hooks": {"operations": operations}}).start()
    running.wait_for(ApplicationState.RUNNING)
    savepoint = threading.Thread(target=lambda: running.driver.operate("savepoint", {}))
    savepoint.start()
    assert copying.wait(30)
    answers: list[Mapping[str, Any]] = []

    def ask() -> None:
        asked.set()
        answers.append(running.driver.operate(PURGE, {"topics": [topic]}))

    purging = threading.Thread(target=ask)
    purging.start()
    savepoint.join(60)
    purging.join(60)
    assert seen == [{(topic, 0): 0}] * 20
    assert answers == [{"purged": {f"{topic}-0": 3}}]
    assert begin_offsets(admin, [(topic, 0)]) == {(topic, 0): 3}
    running.driver.stop()
    running.end()
