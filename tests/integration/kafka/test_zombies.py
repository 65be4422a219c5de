"""A task of an older run that comes back under an id that nobody takes over from it any more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from millrace.config import StreamsConfig
from millrace.driver.start_commits import commits_of_new_run
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import DriverFencedError, TaskMigratedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.groups import fence_and_commit
from millrace.kafka.offsets import committed_offsets
from millrace.metrics import TransactionOutcome
from millrace.serdes import StringSerde
from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.signature import Signature
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.task.task import Task
from tests.records import Record, produce


def test_a_commit_in_place_of_a_zombie_fences_it_and_keeps_its_offsets(
    bootstrap_servers: str, make_topic, unique: str, open_producer, read_all
) -> None:
    source, output = make_topic("in"), make_topic("out")
    zombie = open_producer(f"{unique}-1_0")
    zombie.begin()
    zombie.commit({(source, 0): (7, _signed(source, run=1, offset=7))}, unique)
    zombie.begin()
    zombie.send(output, [b"k"], [b"zombie"], np.zeros(1, np.int64))
    zombie.flush()
    _sign(bootstrap_servers, unique, source, run=2)
    with pytest.raises(TaskMigratedError):
        zombie.commit({(source, 0): (9, _signed(source, run=1, offset=9))}, unique)
    commit = committed_offsets(KafkaAdmin(bootstrap_servers), unique, [(source, 0)])[source, 0]
    signature = Signature.of({(source, 0): commit})
    assert signature is not None
    assert (commit.offset, signature.run) == (7, 2)
    assert read_all(output) == []


def test_a_task_of_an_older_run_that_is_opened_late_refuses_to_work(
    bootstrap_servers: str, make_topic, unique: str, open_producer, tmp_path: Path, read_all
) -> None:
    source, output = make_topic("in"), make_topic("out")
    first = open_producer(f"{unique}-1_0")
    first.begin()
    first.commit({(source, 0): (0, _signed(source, run=1, offset=0))}, unique)
    _sign(bootstrap_servers, unique, source, run=2)
    spec = _copying(bootstrap_servers, unique, source, output, tmp_path)
    with pytest.raises(DriverFencedError, match="run 2"):
        Task(spec).run_batch(TaskBatch([], {(source, 0): OffsetRange(0, 5, 5)}))
    assert read_all(output) == []


def test_a_task_tells_of_its_transactions_however_they_end(
    bootstrap_servers: str, make_topic, unique: str, open_producer, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    first = open_producer(f"{unique}-0_0")
    first.begin()
    first.commit({(source, 0): (0, _signed(source, run=1, offset=0))}, unique)
    first.close()
    lost: list[TransactionOutcome] = []
    spec = _copying(bootstrap_servers, unique, source, output, tmp_path)
    task = Task(spec, on_lost_transaction=lost.append)
    produce(bootstrap_servers, source, [Record(b"k", b"v")] * 2)
    (rows, _) = read_gap(spec.config, (source,), (source, 0), start=0, end=1)
    assert task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(0, 1, 2)})).transactions == 1
    assert task.run_batch(TaskBatch([], {(source, 0): OffsetRange(1, 1, 2)}, recommit=True)).transactions == 1
    assert task.run_batch(TaskBatch([], {(source, 0): OffsetRange(1, 1, 2)})).transactions == 0
    assert lost == []
    open_producer(f"{unique}-0_0")
    (rows, _) = read_gap(spec.config, (source,), (source, 0), start=1, end=2)
    with pytest.raises(TaskMigratedError):
        task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(1, 2, 2)}))
    assert lost == [TransactionOutcome.FENCED]
    assert task.run_batch(TaskBatch([rows], {(source, 0): OffsetRange(1, 2, 2)})).transactions == 1
    task.close()


def _copying(bootstrap_servers: str, application_id: str, source: str, output: str, directory: Path) -> TaskSpec:
    """A task of run 1 that copies a partition."""
    builder = StreamsBuilder()
    strings = (StringSerde(), StringSerde())
    builder.stream(source, Consumed.with_(*strings)).to(output, Produced.with_(*strings))
    config = StreamsConfig.from_mapping(
        {"application.id": application_id, "bootstrap.servers": bootstrap_servers, "state.dir": str(directory)}
    )
    (sub_topology,) = builder.build().sub_topologies
    return TaskSpec(
        part=SubTopologySpec(
            sub_topology=sub_topology, config=config, run_id=1, topic_ids={}, partition_counts={output: 1}
        ),
        partition=0,
        inputs=((source, 0),),
    )


def _signed(topic: str, *, run: int, offset: int) -> str:
    return Signature(run=run).to_metadata({(topic, 0): offset})[topic, 0]


def _sign(bootstrap_servers: str, application_id: str, topic: str, *, run: int) -> None:
    admin = KafkaAdmin(bootstrap_servers)
    fence_and_commit(
        bootstrap_servers,
        [f"{application_id}-1_0", f"{application_id}-0_0"],
        lambda: commits_of_new_run(committed_offsets(admin, application_id, [(topic, 0)]), run=run),
        application_id,
    )
