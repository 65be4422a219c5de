"""A query that starts again while a transaction of one of its tasks is open: brokers were away when it should end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import OpenTransactionError, TaskMigratedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.group_commits import group_metadata
from millrace.kafka.groups import fence_transactional_ids
from millrace.kafka.producer import TaskProducer
from millrace.serdes import StringSerde
from millrace.spark.micro_batches.query import SparkQuery
from millrace.spark.plan import QueryPlan
from millrace.spark.query_hooks import QueryHooks
from millrace.spark.query_topics import read_committed


@pytest.fixture
def plan(bootstrap_servers: str, make_topic: Callable[..., str], unique: str) -> QueryPlan:
    """A sub-topology of one task."""
    builder, texts = StreamsBuilder(), (StringSerde(), StringSerde())
    source, sink = make_topic("in"), make_topic("out")
    builder.stream(source, Consumed.with_(*texts)).to(sink, Produced.with_(*texts))
    return QueryPlan(
        sub_topology=builder.build().sub_topologies[0],
        config=StreamsConfig.from_mapping({"application.id": unique, "bootstrap.servers": bootstrap_servers}),
        run_id=1,
        input_partitions={source: 1},
        topic_ids={},
    )


@pytest.fixture
def left_open(bootstrap_servers: str, plan: QueryPlan, unique: str) -> Iterator[TaskProducer]:
    """The producer of its task, which has committed 4 and has 9 in a transaction that is open."""
    [topic] = plan.input_partitions
    with TaskProducer(bootstrap_servers, transactional_id=plan.task_spec(0).transactional_id) as producer:
        producer.init()
        producer.begin()
        producer.commit({(topic, 0): (4, "")}, unique)
        producer.begin()
        producer.send(topic, [b"k"], [b"v"], np.zeros(1, np.int64), partition=0)
        producer.flush()
        assert producer._client is not None
        producer._client.send_offsets_to_transaction([TopicPartition(topic, 0, 9)], group_metadata(unique), 30)
        yield producer


@pytest.mark.usefixtures("left_open")
def test_stream_threads_start_at_once_and_their_task_ends_it(bootstrap_servers: str, plan: QueryPlan) -> None:
    admin = KafkaAdmin(bootstrap_servers, timeout_s=2)
    [topic] = plan.input_partitions
    with pytest.raises(OpenTransactionError):
        read_committed(admin, plan)
    assert read_committed(admin, plan, stable=False) == {(topic, 0): 4}
    with TaskProducer(bootstrap_servers, transactional_id=plan.task_spec(0).transactional_id) as opened:
        opened.init()
        assert read_committed(admin, plan) == {(topic, 0): 4}


def test_micro_batches_end_it_and_start_at_what_is_committed(
    bootstrap_servers: str, plan: QueryPlan, left_open: TaskProducer, unique: str
) -> None:
    fenced: list[Sequence[str]] = []

    def fence(tasks: Sequence[str]) -> None:
        fenced.append(tasks)
        transactional_id = plan.task_spec(0).transactional_id
        assert transactional_id is not None
        fence_transactional_ids(bootstrap_servers, [transactional_id])

    no_session: Any = object()
    query = SparkQuery(no_session, plan, QueryHooks(fence=fence))
    query._admin = KafkaAdmin(bootstrap_servers, timeout_s=2)
    [topic] = plan.input_partitions
    assert query._read_committed() == {(topic, 0): 4}
    assert fenced == [["0_0"]]
    with pytest.raises(TaskMigratedError):
        left_open.commit({(topic, 0): (9, "")}, unique)
    assert query._read_committed() == {(topic, 0): 4}
    assert len(fenced) == 1, "nothing is fenced where no transaction is open"
