"""Ranges of logs that transactions have written."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from millrace.errors import BrokerUnavailableError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.log_reader import IsolationLevel, LogReader
from millrace.kafka.offsets import End, end_offsets
from millrace.topology.topic_partition import TopicPartition
from tests.records import Record, produce, produce_transaction

LIMIT_S = 60.0


@pytest.fixture
def topic_partition(bootstrap_servers: str, make_topic: Callable[[str], str], unique: str) -> TopicPartition:
    """A partition with a record, an aborted one, a committed one, and their markers."""
    topic = make_topic("log")
    produce(bootstrap_servers, topic, [Record(b"k", b"plain")])
    for value, commit in ((b"aborted", False), (b"committed", True)):
        produce_transaction(
            bootstrap_servers, topic, [Record(b"k", value)], transactional_id=f"{unique}-writer", commit=commit
        )
    return topic, 0


@pytest.fixture
def open_transaction(bootstrap_servers: str, topic_partition: TopicPartition, unique: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{unique}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic_partition[0], b"open", b"k", partition=topic_partition[1])
    assert producer.flush(30) == 0
    return producer


def read(
    bootstrap_servers: str,
    topic_partition: TopicPartition,
    isolation: IsolationLevel,
    *,
    awaits_transactions: bool = False,
) -> list[bytes | None]:
    ends = end_offsets(KafkaAdmin(bootstrap_servers), [topic_partition], End.HIGH_WATERMARK)
    with LogReader(bootstrap_servers, None, group="any", isolation=isolation) as reader:
        messages = reader.read({topic_partition: 0}, ends, timeout_s=LIMIT_S, awaits_transactions=awaits_transactions)
        return [message.value() for message in messages]


def test_committed_records_end_behind_the_last_marker(bootstrap_servers: str, topic_partition: TopicPartition) -> None:
    assert read(bootstrap_servers, topic_partition, IsolationLevel.READ_COMMITTED) == [b"plain", b"committed"]
    assert read(bootstrap_servers, topic_partition, IsolationLevel.READ_UNCOMMITTED) == [
        b"plain",
        b"aborted",
        b"committed",
    ]


def test_an_open_transaction_ends_the_range_or_is_waited_for(
    bootstrap_servers: str, topic_partition: TopicPartition, open_transaction: Producer
) -> None:
    assert read(bootstrap_servers, topic_partition, IsolationLevel.READ_COMMITTED) == [b"plain", b"committed"]
    found: list[bytes | None] = []
    committing = threading.Event()

    def read_all() -> None:
        ends = end_offsets(KafkaAdmin(bootstrap_servers), [topic_partition], End.HIGH_WATERMARK)
        with LogReader(bootstrap_servers, None, group="any", isolation=IsolationLevel.READ_COMMITTED) as reader:
            for message in reader.read({topic_partition: 0}, ends, timeout_s=LIMIT_S, awaits_transactions=True):
                found.append(message.value())
                committing.set()

    thread = threading.Thread(target=read_all)
    thread.start()
    assert committing.wait(LIMIT_S)
    open_transaction.commit_transaction(30)
    thread.join(LIMIT_S)
    assert found == [b"plain", b"committed", b"open"]


def test_a_transaction_that_stays_open_ends_the_wait_with_its_partition(
    bootstrap_servers: str, topic_partition: TopicPartition, open_transaction: Producer
) -> None:
    ends = end_offsets(KafkaAdmin(bootstrap_servers), [topic_partition], End.HIGH_WATERMARK)
    with (
        LogReader(bootstrap_servers, None, group="any", isolation=IsolationLevel.READ_COMMITTED) as reader,
        pytest.raises(BrokerUnavailableError, match=rf"{topic_partition[0]}-0 \(offset {ends[topic_partition]}\)"),
    ):
        list(reader.read({topic_partition: 0}, ends, timeout_s=2, is_timeout_of_silence=True, awaits_transactions=True))
