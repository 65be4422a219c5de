"""Tasks of a driver that was replaced: they take no transactional id back, and take nobody's work for damage."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.driver.status_topic import StatusPublisher
from millrace.errors import DriverFencedError, OffsetOutOfRangeError, TaskMigratedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.driver_records import newest_driver
from millrace.kafka.producer import TaskProducer
from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from tests.integration.kafka.test_zombies import _copying, _signed
from tests.records import Record, produce

Replace = Callable[[], str]


@pytest.fixture
def take_over(bootstrap_servers: str, unique: str) -> Iterator[Replace]:
    """Publishes the status of the next driver; gives its run."""
    opened: list[StatusPublisher] = []

    def one() -> str:
        publisher = StatusPublisher(bootstrap_servers, unique, replication_factor=1)
        opened.append(publisher)
        publisher.open()
        run = f"run-{publisher.epoch}"
        publisher.publish(
            ApplicationStatus(
                application_id=unique,
                state=ApplicationState.REBALANCING,
                driver=DriverIdentity(host=f"host-{publisher.epoch}", pid=40 + publisher.epoch, start_time=1),
                driver_epoch=publisher.epoch,
                run_id=run,
                started_at=1_700_000_000.0,
            )
        )
        return run

    yield one
    for each in opened:
        each.close()


def test_the_newest_driver_is_known_from_the_end_of_the_status_topic(
    bootstrap_servers: str, unique: str, take_over: Replace
) -> None:
    assert newest_driver(bootstrap_servers, unique) is None
    take_over()
    take_over()
    began = time.monotonic()
    newest = newest_driver(bootstrap_servers, unique)
    assert time.monotonic() - began < 2
    assert newest is not None
    assert (newest.epoch, newest.run, newest.host, newest.pid) == (2, "run-2", "host-2", 42)
    assert str(newest) == "driver 2 (process 42 on host-2, run run-2, started 2023-11-14T22:13:20Z)"
    assert newest.replaces(epoch=1, run="run-1")
    assert newest.replaces(epoch=2, run="another that started at the same moment")
    assert not newest.replaces(epoch=2, run="run-2")


def test_a_task_of_a_replaced_driver_takes_no_transactional_id_back(
    bootstrap_servers: str,
    make_topic: Callable[[str], str],
    unique: str,
    open_producer: Callable[..., TaskProducer],
    take_over: Replace,
    tmp_path: Path,
) -> None:
    """Case E06. The newer driver has committed nothing yet, so only the status topic tells of it."""
    source, output = make_topic("in"), make_topic("out")
    first = open_producer(f"{unique}-0_0")
    first.begin()
    first.commit({(source, 0): (0, _signed(source, run=1, offset=0))}, unique)
    run = take_over()
    spec = _copying(bootstrap_servers, unique, source, output, tmp_path)
    spec = replace(spec, part=replace(spec.part, driver_epoch=1, driver_run=run))
    produce(bootstrap_servers, source, [Record(b"k", b"v")] * 2)
    (rows, _) = read_gap(spec.config, (source,), (source, 0), start=0, end=1)
    task = Task(spec)
    assert task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(0, 1, 2)})).transactions == 1

    take_over()
    newer = open_producer(f"{unique}-0_0")
    newer.begin()
    newer.send(output, [b"k"], [b"newer"], np.zeros(1, np.int64))
    newer.flush()
    (rows, _) = read_gap(spec.config, (source,), (source, 0), start=1, end=2)
    with pytest.raises(TaskMigratedError):
        task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(1, 2, 2)}))
    # What Spark does then, on this worker or another one.
    for attempt in (task, Task(spec)):
        with pytest.raises(DriverFencedError, match=r"newer driver: driver 2 \(process 42 on host-2") as refused:
            attempt.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(1, 2, 2)}))
        assert "reset" not in refused.value.remedy
    newer.commit({(source, 0): (2, _signed(source, run=2, offset=2))}, unique)


def test_a_range_that_is_gone_since_another_attempt_processed_it_is_no_damage(
    bootstrap_servers: str,
    make_topic: Callable[[str], str],
    unique: str,
    open_producer: Callable[..., TaskProducer],
    tmp_path: Path,
) -> None:
    """A zombie had committed and its driver had purged: the newer driver's warm task was told to reset everything."""
    source, output = make_topic("in"), make_topic("out")
    first = open_producer(f"{unique}-0_0")
    first.begin()
    first.commit({(source, 0): (0, _signed(source, run=1, offset=0))}, unique)
    produce(bootstrap_servers, source, [Record(b"k", b"%d" % number) for number in range(4)])
    spec = _copying(bootstrap_servers, unique, source, output, tmp_path)
    task = Task(spec)
    (rows, _) = read_gap(spec.config, (source,), (source, 0), start=0, end=1)
    task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(0, 1, 4)}))

    zombie = open_producer(f"{unique}-0_0")
    zombie.begin()
    zombie.commit({(source, 0): (3, _signed(source, run=1, offset=3))}, unique)
    admin = KafkaAdmin(bootstrap_servers)
    admin.delete_records({(source, 0): 3})
    (rows, _) = read_gap(spec.config, (source,), (source, 0), start=3, end=4)
    with pytest.raises(TaskMigratedError, match=rf"{source}-0 is at 3 and was at 1") as stale:
        task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(3, 4, 4)}))
    assert stale.value.remedy == "none needed: the task goes on at the committed offsets"
    task.close()  # as after any exception
    assert task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(3, 4, 4)})).positions == {(source, 0): 4}

    # Where no other process has committed, records are lost indeed.
    produce(bootstrap_servers, source, [Record(b"k", b"v")] * 2)
    admin.delete_records({(source, 0): 6})
    with pytest.raises(OffsetOutOfRangeError, match=rf"Offset 4 of {source}-0"):
        task.run_batch(TaskBatch([], {(source, 0): OffsetRange(6, 6, 6)}))
    task.close()
