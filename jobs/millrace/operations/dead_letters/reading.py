"""Reading committed records of a topic from begin to end, once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientTopicPartition

from millrace.errors import BrokerUnavailableError
from millrace.install.connection import Connection
from millrace.kafka.clients import base_settings, consume_available, kafka_error, translate
from millrace.kafka.offsets import End, end_offsets
from millrace.operations.dead_letters.record import DeadLetterRecord, dead_letter_record_of
from millrace.topology.topic_partition import TopicPartition

_SILENCE_LIMIT_S = 30.0


def records(
    connection: Connection, starts: Mapping[TopicPartition, int], *, settled: bool = False
) -> Iterator[Message]:
    """The committed records of partitions from an offset to their ends as they are found, in no order among them.

    Args:
        connection: the cluster.
        starts: first offset of each partition.
        settled: whether transactions that are open now are waited for: one whose commit is acknowledged is open until
            its marker stands in the log. By default what comes before the first of them is all.

    Raises:
        BrokerUnavailableError: nothing came for half a minute.
    """
    ends = end_offsets(connection.administrator(), list(starts), End.HIGH_WATERMARK) if settled else {}
    consumer = Consumer(
        {
            **base_settings(connection.bootstrap_servers, connection.consumer),
            "group.id": "millrace-dead-letter-reader",  # nothing joins it, nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        consumer.assign(
            [ClientTopicPartition(topic, partition, offset) for (topic, partition), offset in starts.items()]
        )
        waiting = set(starts)
        heard_at = time.monotonic()
        while waiting:
            messages = consume_available(consumer, 1000, timeout_s=0.2)
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENCE_LIMIT_S:
                names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(waiting))
                raise BrokerUnavailableError(
                    f"Nothing came from {names} for {_SILENCE_LIMIT_S:g} s.",
                    remedy="check that the brokers that lead these partitions are up",
                )
            for message in messages:
                place = _place(message)
                error = message.error()
                if error is None:
                    if place in waiting:
                        yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    if offset_of(message) >= ends.get(place, 0):
                        waiting.discard(place)
                else:
                    raise KafkaException(error)
    except KafkaException as error:
        raise translate(
            kafka_error(error), doing="reading dead-letter records", bootstrap_servers=connection.bootstrap_servers
        ) from error
    finally:
        consumer.close()


def dead_letter_records(connection: Connection, starts: Mapping[TopicPartition, int]) -> Iterator[DeadLetterRecord]:
    """The dead-letter records in partitions of a dead-letter topic. Raises as :func:`records`."""
    for message in records(connection, starts):
        kind, timestamp = message.timestamp()
        found: Any = message.headers()
        _, partition = _place(message)
        yield dead_letter_record_of(
            partition=partition,
            offset=offset_of(message),
            key=message.key(),
            value=message.value(),
            headers=found or (),
            timestamp=timestamp,
            has_own_timestamp=kind != TIMESTAMP_LOG_APPEND_TIME,
        )


def offset_of(message: Message) -> int:
    """The offset of a record that was read."""
    offset = message.offset()
    assert offset is not None
    return offset


def _place(message: Message) -> TopicPartition:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition
