"""Records of a topic, written and read in tests without the code under test."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.waiting import PATIENCE

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class ReadRecord:
    """A record as a consumer got it; ``timestamp`` in milliseconds."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers | None


@dataclass(frozen=True)
class Record:
    """A record to send; without a partition Kafka's own partitioner chooses it, without a timestamp it is of now."""

    key: bytes | None
    value: bytes | None
    timestamp: int = 0
    partition: int = -1
    headers: Headers = field(default_factory=list)


def produce(bootstrap_servers: str, topic: str, records: Iterable[Record]) -> None:
    """Sends records in order, each once whatever happens to the brokers, and waits until they have all of them."""
    failures: list[Any] = []
    settings = {"partitioner": "murmur2_random", "linger.ms": 5, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
    _send(producer, topic, records, failures)
    assert producer.flush(90) == 0, f"{topic}: not everything was delivered"
    assert not failures, failures


def produce_transaction(
    bootstrap_servers: str, topic: str, records: Iterable[Record], *, transactional_id: str, commit: bool
) -> None:
    """Sends records in one transaction, which is committed or aborted."""
    failures: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random", "transactional.id": transactional_id}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    _send(producer, topic, records, failures)
    # An aborted transaction only takes offsets if its records are on the broker before.
    assert producer.flush(30) == 0
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    assert not failures, failures


def read_topic(
    bootstrap_servers: str, topic: str, *, isolation: str = "read_committed", timeout_s: float = 30.0
) -> list[ReadRecord]:
    """Every record of a topic up to its ends as they are now, by partition and offset.

    Args:
        bootstrap_servers: the broker.
        topic: its name.
        isolation: ``read_committed`` or ``read_uncommitted``.
        timeout_s: longest time on two quiet cores, seconds; elsewhere up to :data:`~tests.waiting.PATIENCE` times that.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "never-committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    timeout_s *= PATIENCE
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=timeout_s).topics[topic].partitions)
        assert partitions, f"{topic} does not exist"
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        records: list[ReadRecord] = []
        waiting = set(partitions)
        deadline = time.monotonic() + timeout_s
        while waiting:
            assert time.monotonic() < deadline, f"{topic}: the ends of {waiting} were not reached"
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                    continue
                assert error is None, error
                records.append(_read(message))
        return sorted(records, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def leader_of(bootstrap_servers: str, topic: str) -> int:
    """Number of the broker that leads the first partition of a topic; -1 where no broker says so at present."""
    # Of the broker that is gone it would write at each call.
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        partitions = client.list_topics(topic, timeout=30).topics[topic].partitions
    except KafkaException as error:
        # The broker that was asked was killed meanwhile.
        if error.args[0].code() in {KafkaError._TRANSPORT, KafkaError._TIMED_OUT}:
            return -1
        raise
    return int(partitions[0].leader) if partitions else -1


def values_by_key(records: Sequence[ReadRecord]) -> dict[bytes | None, list[bytes | None]]:
    """The values of each key, in the order of its partition."""
    found: dict[bytes | None, list[bytes | None]] = {}
    for record in records:
        found.setdefault(record.key, []).append(record.value)
    return found


def _read(message: Message) -> ReadRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    headers: Any = message.headers()
    return ReadRecord(topic, partition, offset, message.key(), message.value(), message.timestamp()[1], headers)


def _send(producer: Producer, topic: str, records: Iterable[Record], failures: list[Any]) -> None:
    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    for record in records:
        options: dict[str, Any] = {"headers": record.headers} if record.headers else {}
        while True:
            try:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    on_delivery=delivered,
                    **options,
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
