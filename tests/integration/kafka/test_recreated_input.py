"""An input topic that is deleted and created again between two batches of an open task."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.topics import TopicSpec
from millrace.serdes import StringSerde
from millrace.task.batch import TaskBatch
from millrace.task.input import OffsetRange
from millrace.task.signature import Signature
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.task.task import Task


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_records_of_the_new_topic_are_not_committed(
    bootstrap_servers: str, make_topic, unique: str, open_producer, tmp_path: Path, read_all, guarantee: str
) -> None:
    source, output = make_topic("in"), make_topic("out")
    topic_partition = (source, 0)
    admin = KafkaAdmin(bootstrap_servers)
    producer = open_producer(f"{unique}-0_0")
    producer.begin()
    producer.commit({topic_partition: (0, Signature(run=1).to_metadata({topic_partition: 0})[topic_partition])}, unique)
    builder = StreamsBuilder()
    strings = (StringSerde(), StringSerde())
    builder.stream(source, Consumed.with_(*strings)).to(output, Produced.with_(*strings))
    config = StreamsConfig.from_mapping({
        "application.id": unique,
        "bootstrap.servers": bootstrap_servers,
        "state.dir": str(tmp_path),
        "processing.guarantee": guarantee,
    })  # fmt: skip
    (sub_topology,) = builder.build().sub_topologies
    spec = TaskSpec(
        part=SubTopologySpec(
            sub_topology=sub_topology,
            config=config,
            run_id=1,
            topic_ids={source: admin.describe_topic(source).topic_id},
            partition_counts={output: 1},
        ),
        partition=0,
        inputs=(topic_partition,),
    )
    task = Task(spec)
    _send(open_producer, source, b"old")
    # No rows came from Spark: the task reads them itself.
    assert task.run_batch(TaskBatch([], {topic_partition: OffsetRange(2, 2, 2)})).positions == {topic_partition: 2}
    before = read_all(output)
    assert [record.value for record in before] == [b"old", b"old"]

    admin.delete_topics([source])
    admin.create_missing([TopicSpec(name=source, partitions=1)])
    _send(open_producer, source, b"new")
    _send(open_producer, source, b"new")
    with pytest.raises(StateError, match=f"deleted while it ran: {source}"):
        task.run_batch(TaskBatch([], {topic_partition: OffsetRange(4, 4, 4)}))
    # The broker forgot the offsets with the topic, and the task did not commit others.
    assert committed_offsets(admin, unique, [topic_partition]) == {}
    if guarantee == "exactly_once_v2":
        assert read_all(output) == before


def _send(open_producer, topic: str, value: bytes) -> None:
    producer = open_producer(None)
    producer.begin()
    producer.send(topic, [b"k", b"k"], [value, value], np.zeros(2, np.int64), partition=0)
    producer.flush()
