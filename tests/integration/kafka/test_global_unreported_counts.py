"""What a copy of a global table has dropped is told by the transaction of a task, once, also when a batch fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder
from millrace.errors import ProcessingError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import end_offsets
from millrace.serdes import LongSerde, StringSerde
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.global_copy import GlobalCopies
from millrace.task.input import OffsetRange
from millrace.task.signature import Signature
from millrace.task.spec import GlobalStoreSpec, SubTopologySpec, TaskSpec
from millrace.task.task import Task
from tests.records import Record, produce

TEXT = Consumed.with_(StringSerde(), StringSerde())
ONE = LongSerde().serialize(1)


class World:
    """A task that enriches a stream from a global table, over topics of its own."""

    def __init__(self, servers: str, make_topic: Callable[..., str], unique: str, directory: Path) -> None:
        self.servers, self.unique = servers, unique
        self.orders, self.out, self.dlq = make_topic("orders"), make_topic("out"), make_topic("dlq")
        self.products = make_topic("products", partitions=2)
        self.fails = False
        self.copies = GlobalCopies()
        self._directory = directory
        self._tasks: list[Task] = []

    @property
    def topic_partition(self) -> tuple[str, int]:
        """The task's input."""
        return self.orders, 0

    def task(self) -> Task:
        """A new attempt at the task, in the same process."""
        builder = StreamsBuilder()
        table = builder.global_table(
            self.products, Consumed.with_(StringSerde(), LongSerde()), Materialized.as_("products")
        )
        builder.stream(self.orders, TEXT).left_join(table, lambda key, value: value, self._joined).to(
            self.out, Produced.with_(StringSerde(), StringSerde())
        )
        topology = builder.build()
        topics = KafkaAdmin(self.servers).describe_topics([self.orders, self.products])
        settings = {
            "application.id": self.unique,
            "bootstrap.servers": self.servers,
            "state.dir": str(self._directory),
            "deserialization.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": self.dlq,
        }
        spec = TaskSpec(
            part=SubTopologySpec(
                sub_topology=topology.sub_topologies[0],
                config=StreamsConfig.from_mapping(settings),
                run_id=1,
                topic_ids={self.orders: topics[self.orders].topic_id},
                partition_counts={self.out: 1, self.dlq: 1},
                global_stores=(
                    GlobalStoreSpec(
                        part=topology.global_stores[0], topic_id=topics[self.products].topic_id, partitions=2
                    ),
                ),
            ),
            partition=0,
            inputs=(self.topic_partition,),
        )
        self._tasks.append(Task(spec, copies=self.copies))
        return self._tasks[-1]

    def run(self, task: Task) -> BatchOutcome:
        """A batch of everything that there is."""
        topic_partitions = [self.topic_partition, (self.products, 0), (self.products, 1)]
        ends = end_offsets(KafkaAdmin(self.servers), topic_partitions)
        end = ends.pop(self.topic_partition)
        return task.run_batch(TaskBatch([], {self.topic_partition: OffsetRange(end, end, end)}, global_ends=ends))

    def close(self) -> None:
        """Closes tasks and copies."""
        for task in self._tasks:
            task.close()
        self.copies.close()

    def _joined(self, value: Any, price: Any) -> str:
        if self.fails:
            raise ValueError("not now")
        return f"{value}:{price}"


@pytest.fixture
def world(
    bootstrap_servers: str, make_topic: Callable[..., str], unique: str, tmp_path: Path, open_producer: Any
) -> Iterator[World]:
    made = World(bootstrap_servers, make_topic, unique, tmp_path)
    producer = open_producer(f"{unique}-1_0")
    producer.begin()
    producer.commit(
        {made.topic_partition: (0, Signature(run=1).to_metadata({made.topic_partition: 0})[made.topic_partition])},
        unique,
    )
    yield made
    made.close()


def test_a_batch_that_fails_leaves_the_dead_letter_to_the_next_attempt(world: World, read_all: Any) -> None:
    produce(world.servers, world.products, [Record(b"p", ONE), Record(b"p", b"poison")])
    produce(world.servers, world.orders, [Record(b"o", b"p")])
    world.fails = True
    with pytest.raises(ProcessingError, match="not now"):
        world.run(world.task())
    assert read_all(world.dlq) == []
    world.fails = False
    task = world.task()
    counts = world.run(task).counts
    assert (counts["dropped.deserialization"], counts["dead_letters"]) == (1, 1)
    assert [record.value for record in read_all(world.out)] == [b"p:1"]
    assert [record.value for record in read_all(world.dlq)] == [b"poison"]
    assert "dead_letters" not in world.run(task).counts
    assert len(read_all(world.dlq)) == 1


def test_a_dead_letter_does_not_wait_for_input(world: World, read_all: Any) -> None:
    task = world.task()
    world.run(task)
    produce(world.servers, world.products, [Record(b"p", b"poison")])
    counts = world.run(task).counts
    assert counts == {"dropped.deserialization": 1, "dead_letters": 1}
    assert [record.value for record in read_all(world.dlq)] == [b"poison"]


def test_a_deleted_global_topic_stops_the_commit(world: World, read_all: Any) -> None:
    task = world.task()
    world.run(task)
    produce(world.servers, world.orders, [Record(b"o", b"p")])
    ends = {(world.products, 0): 0, (world.products, 1): 0}
    KafkaAdmin(world.servers).delete_topics([world.products])
    with pytest.raises(StateError, match=f"Topics of global stores .* were deleted while it ran: {world.products}"):
        task.run_batch(TaskBatch([], {world.topic_partition: OffsetRange(1, 1, 1)}, global_ends=ends))
    assert read_all(world.out) == []
