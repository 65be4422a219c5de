"""Helpers of the tests against the real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from millrace.kafka.clients import base_settings
from millrace.kafka.producer import TaskProducer
from tests.waiting import PATIENCE


@dataclass(frozen=True)
class ReadRecord:
    offset: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Any


@pytest.fixture
def read_all(bootstrap_servers: str) -> Callable[..., list[ReadRecord]]:
    """Reads one partition to its end (read_committed: its last stable offset), which a position never reports
    where a transaction's marker comes last."""

    def read(topic: str, partition: int = 0, *, isolation: str = "read_committed") -> list[ReadRecord]:
        consumer = Consumer({
            **base_settings(bootstrap_servers),
            "group.id": "never-committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        })  # fmt: skip
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            records: list[ReadRecord] = []
            deadline = time.monotonic() + 30 * PATIENCE
            while time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return records
                assert error is None, error
                records.append(
                    ReadRecord(
                        message.offset(), message.key(), message.value(), message.timestamp()[1], message.headers()
                    )
                )
            raise AssertionError(f"{topic} was not read to its end in time")
        finally:
            consumer.close()

    return read


@pytest.fixture
def open_producer(bootstrap_servers: str) -> Iterator[Callable[..., TaskProducer]]:
    """Opens producers that are closed after the test."""
    opened: list[TaskProducer] = []

    def open_one(transactional_id: str | None, **options: object) -> TaskProducer:
        producer = TaskProducer(bootstrap_servers, transactional_id=transactional_id, **options)  # type: ignore[arg-type]
        opened.append(producer)
        producer.init()
        return producer

    yield open_one
    for producer in opened:
        producer.close()
