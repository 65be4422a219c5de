"""What librdkafka's errors become, and reading what has come."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from millrace.errors import BrokerUnavailableError, MillraceError, OperationError, PreflightError
from millrace.kafka.clients import consume_available, translate
from tests.imitated_cluster import ImitatedCluster
from tests.records import Record, produce


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (KafkaError._TIMED_OUT, BrokerUnavailableError, "No broker answered at there:9092 while reading offsets"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, BrokerUnavailableError, "was in charge yet while reading offsets"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, BrokerUnavailableError, "was in charge yet while reading offsets"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, PreflightError, "refused reading offsets"),
        (KafkaError.INVALID_PARTITIONS, OperationError, "failed reading offsets: INVALID_PARTITIONS"),
    ],
)
def test_an_error_says_who_failed_at_what_and_whether_waiting_helps(
    code: int, kind: type[MillraceError], says: str
) -> None:
    error = translate(KafkaError(code), doing="reading offsets", bootstrap_servers="there:9092")
    assert type(error) is kind
    assert says in error.message
    assert error.remedy


def test_what_has_come_is_given_at_once(cluster: ImitatedCluster) -> None:
    produce(cluster.bootstrap_servers, "orders", [Record(b"k", b"%d" % number, 1, partition=0) for number in range(3)])
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "any"})
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        begin = time.monotonic()
        found = consume_available(consumer, 500, timeout_s=60)
        while len(found) < 3:
            found += consume_available(consumer, 500, timeout_s=60)
        assert time.monotonic() - begin < 30
        assert [message.value() for message in found] == [b"0", b"1", b"2"]
        assert consume_available(consumer, 500, timeout_s=0.1) == []
    finally:
        consumer.close()
