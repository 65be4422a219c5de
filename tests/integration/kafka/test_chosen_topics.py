"""A task whose records name their topics: those that come later, those with limits of their own, and missing ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import RecordRefusedError, TransactionAbortedError, UnknownTopicError
from millrace.handlers import ErrorHandlerContext, ProducerRecord, Response
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.topics import TopicSpec
from millrace.serdes import StringSerde
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.input import OffsetRange
from millrace.task.signature import Signature
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.task.task import Task

TEXT = StringSerde()


def tries_again(context: ErrorHandlerContext, record: ProducerRecord, error: Exception) -> Response:
    return Response.retry()


@dataclass
class Routing:
    """An open task that sends each record to the topic that its key names."""

    source: str
    task: Task
    open_producer: Callable[..., Any]
    offset: int = 0

    def send(self, *records: tuple[str, str]) -> BatchOutcome:
        """Writes (topic, value) pairs to the input, and has the task process them as one batch."""
        producer = self.open_producer(None)
        producer.begin()
        keys, values = ([text.encode() for text in texts] for texts in zip(*records, strict=True))
        producer.send(self.source, keys, values, np.arange(1, len(records) + 1), partition=0)
        producer.commit({}, "none")
        end = self.offset + len(records)
        outcome = self.task.run_batch(TaskBatch([], {(self.source, 0): OffsetRange(end, end, end)}))
        self.offset = end
        return outcome


@pytest.fixture
def routing(
    bootstrap_servers: str, make_topic, unique: str, open_producer, tmp_path: Path, request: pytest.FixtureRequest
):
    source = make_topic("in")
    topic_partition = (source, 0)
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    producer.commit({topic_partition: (0, Signature(run=1).to_metadata({topic_partition: 0})[topic_partition])}, unique)
    builder = StreamsBuilder()
    builder.stream(source, Consumed.with_(TEXT, TEXT)).to(lambda key, value, context: key, Produced.with_(TEXT, TEXT))
    (sub_topology,) = builder.build().sub_topologies
    settings = {"processing.guarantee": "exactly_once_v2", **getattr(request, "param", {})}
    config = StreamsConfig.from_mapping({
        "application.id": unique,
        "bootstrap.servers": bootstrap_servers,
        "state.dir": str(tmp_path),
        **settings,
    })  # fmt: skip
    dead_letters = {topic: 1 for topic in [config.errors_dead_letter_queue_topic_name] if topic is not None}
    task = Task(
        TaskSpec(
            part=SubTopologySpec(
                sub_topology=sub_topology,
                config=config,
                run_id=1,
                topic_ids={source: KafkaAdmin(bootstrap_servers).describe_topic(source).topic_id},
                partition_counts=dead_letters,
            ),
            partition=0,
            inputs=(topic_partition,),
        )
    )
    yield Routing(source, task, open_producer)
    task.close()


AT_LEAST_ONCE = pytest.param({"processing.guarantee": "at_least_once"}, id="at_least_once")
EXACTLY_ONCE = pytest.param({}, id="exactly_once_v2")


@pytest.mark.parametrize("routing", [EXACTLY_ONCE, AT_LEAST_ONCE], indirect=True)
def test_records_go_to_topics_that_exist_by_then(routing: Routing, make_topic, read_all) -> None:
    left = make_topic("left")
    outcome = routing.send((left, "1"), (left, "2"))
    assert outcome.counts[f"written.{left}"] == 2
    right = make_topic("right")
    assert routing.send((right, "3"), (left, "4"), (right, "5")).counts["read"] == 3
    assert [record.value for record in read_all(left)] == [b"1", b"2", b"4"]
    assert [record.value for record in read_all(right)] == [b"3", b"5"]


@pytest.mark.parametrize("routing", [EXACTLY_ONCE, AT_LEAST_ONCE], indirect=True)
def test_the_limits_of_topics_that_come_later_count(routing: Routing, make_topic, read_all) -> None:
    """The producer is made again: its batches must suit a topic that takes less, and its records one that takes
    more."""
    small, large = make_topic("small", max_message_bytes="2000"), make_topic("large", max_message_bytes="3000000")
    few = [(small, str(number).zfill(500)) for number in range(40)]
    routing.send(*few)
    assert [record.value.decode() for record in read_all(small)] == [value for _, value in few]
    routing.send(*((large, character * 700_000) for character in "ab"), (small, "x"))
    routing.send((large, "c" * 500_000), (small, "y"))
    assert [len(record.value) for record in read_all(large)] == [700_000, 700_000, 500_000]
    assert [record.value for record in read_all(small)][-2:] == [b"x", b"y"]


def test_a_missing_topic_is_named_and_nothing_of_the_batch_is_committed(
    routing: Routing, make_topic, read_all, bootstrap_servers: str, unique: str
) -> None:
    there = make_topic("there")
    with pytest.raises(UnknownTopicError, match=f"{unique}-missing, which does not exist"):
        routing.send((there, "1"), (f"{unique}-missing", "2"))
    assert read_all(there) == []
    topic_partition = (routing.source, 0)
    assert committed_offsets(KafkaAdmin(bootstrap_servers), unique, [topic_partition])[topic_partition].offset == 0
    assert KafkaAdmin(bootstrap_servers).describe_topics([f"{unique}-missing"]) == {}


@pytest.mark.parametrize("routing", [{"production.exception.handler": "continue"}], indirect=True)
def test_a_production_handler_that_resumes_drops_records_of_missing_topics(
    routing: Routing, make_topic, read_all, bootstrap_servers: str, unique: str
) -> None:
    there, later = make_topic("there"), f"{unique}-later"
    outcome = routing.send((there, "1"), (later, "2"), (there, "3"))
    assert [record.value for record in read_all(there)] == [b"1", b"3"]
    assert outcome.counts["dropped.production"] == 1
    KafkaAdmin(bootstrap_servers).create_missing([TopicSpec(name=later, partitions=1)])
    assert "dropped.production" not in routing.send((later, "4")).counts
    assert [record.value for record in read_all(later)] == [b"4"]
    KafkaAdmin(bootstrap_servers).delete_topics([later])


@pytest.mark.parametrize("routing", [{"production.exception.handler": f"{__name__}:tries_again"}], indirect=True)
def test_a_production_handler_that_retries_has_the_batch_processed_again(routing: Routing, unique: str) -> None:
    with pytest.raises(TransactionAbortedError, match=f"{unique}-missing, which does not exist"):
        routing.send((f"{unique}-missing", "1"))


def test_a_name_that_no_topic_can_have_stops_the_task(routing: Routing) -> None:
    with pytest.raises(RecordRefusedError, match=r"chose the topic 'not/legal', which cannot exist: .* not legal: '/'"):
        routing.send(("not/legal", "1"))
