"""Dead-letter records for topics that only an exception handler of the user's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import UnknownTopicError
from millrace.handlers import ErrorHandlerContext, Response, dead_letters_for
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from millrace.serdes import StringSerde
from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.signature import Signature
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.task.task import Task
from tests.records import Record, produce, read_topic


def to_dead_letters(context: ErrorHandlerContext, _record: object, error: Exception) -> Response:
    """Writes to the topic ``dead_letters`` beside the input topic."""
    return Response.resume(dead_letters_for(f"{context.topic}-letters", context, error))


def refuse_bad(_key: str, value: str) -> str:
    if value == "bad":
        raise ValueError(value)
    return value


def test_a_missing_topic_of_an_own_handler_ends_the_batch_by_its_name_and_a_new_one_is_written_to(
    bootstrap_servers: str, make_topic, unique: str, tmp_path: Path
) -> None:
    source, output = make_topic("in"), make_topic("out")
    dead_letters = f"{source}-letters"
    produce(bootstrap_servers, source, [Record(b"a", b"good"), Record(b"b", b"bad")])
    spec = _spec(bootstrap_servers, unique, source, output, tmp_path)
    admin = KafkaAdmin(bootstrap_servers)
    topic_partition = (source, 0)
    _commit(spec, topic_partition)
    (rows, _) = read_gap(spec.config, (source,), topic_partition, start=0, end=2)
    task = Task(spec)
    with pytest.raises(UnknownTopicError, match=f"dead-letter record for topic {dead_letters}") as caught:
        task.run_batch(TaskBatch([rows], {topic_partition: OffsetRange(0, 2, 2)}))
    assert f"millrace topics create {dead_letters}" in caught.value.remedy
    assert committed_offsets(admin, unique, [topic_partition])[topic_partition].offset == 0
    # Less than the producer's batches may have: the topic gets a producer that fits it.
    admin.create_missing([TopicSpec(name=dead_letters, partitions=1, settings={"max.message.bytes": "20000"})])
    assert task.run_batch(TaskBatch([rows], {topic_partition: OffsetRange(0, 2, 2)})).counts["dead_letters"] == 1
    task.close()
    assert [record.value for record in read_topic(bootstrap_servers, dead_letters)] == [b"bad"]
    assert [record.value for record in read_topic(bootstrap_servers, output)] == [b"good"]
    admin.delete_topics([dead_letters])


def _spec(bootstrap_servers: str, application_id: str, source: str, output: str, directory: Path) -> TaskSpec:
    builder = StreamsBuilder()
    text = (StringSerde(), StringSerde())
    builder.stream(source, Consumed.with_(*text)).map_values(refuse_bad).to(output, Produced.with_(*text))
    (sub_topology,) = builder.build().sub_topologies
    return TaskSpec(
        part=SubTopologySpec(
            sub_topology=sub_topology,
            config=StreamsConfig.from_mapping(
                {
                    "application.id": application_id,
                    "bootstrap.servers": bootstrap_servers,
                    "state.dir": str(directory),
                    "processing.exception.handler": f"{__name__}:to_dead_letters",
                }
            ),
            run_id=1,
            topic_ids={},
            partition_counts={output: 1},
        ),
        partition=0,
        inputs=((source, 0),),
    )


def _commit(spec: TaskSpec, topic_partition: tuple[str, int]) -> None:
    with TaskProducer(spec.config.bootstrap_servers, transactional_id=spec.transactional_id) as producer:
        producer.init()
        producer.begin()
        producer.commit(
            {topic_partition: (0, Signature(run=1).to_metadata({topic_partition: 0})[topic_partition])},
            spec.config.application_id,
        )
