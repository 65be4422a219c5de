"""Records as they stand in the topic that they were read from, for letters that do not have them wholly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millrace.errors import OperationError
from millrace.install.connection import Connection
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.ops.dead_letters.letter import DeadLetter

_LIMIT_S = 30.0


def with_originals(
    connection: Connection, letters: Iterable[DeadLetter], *, where: Callable[[DeadLetter], bool]
) -> Iterator[DeadLetter]:
    """The letters, some of them with key, value, headers and timestamp of the records in the log.

    Args:
        connection: the cluster.
        letters: all letters.
        where: which of them do not have their records wholly.

    Raises:
        OperationError: a record is not there any more.
    """
    consumer = Consumer({
        **base_settings(connection.bootstrap_servers, connection.consumer),
        "group.id": "millrace-dead-letter-reader",  # nothing joins it, nothing is committed
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
    })  # fmt: skip
    try:
        for letter in letters:
            yield _with_original(consumer, letter) if where(letter) else letter
    except KafkaException as error:
        raise translate(
            kafka_error(error), doing="reading original records", bootstrap_servers=connection.bootstrap_servers
        ) from error
    finally:
        consumer.close()


def _with_original(consumer: Consumer, letter: DeadLetter) -> DeadLetter:
    assert letter.topic is not None
    consumer.assign([TopicPartition(letter.topic, letter.source_partition, letter.source_offset)])
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() not in {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}:
            raise KafkaException(error)
        if error is not None or message.offset() != letter.source_offset:
            break  # compacted, or deleted
        headers: Any = message.headers()
        return replace(
            letter,
            key=message.key(),
            value=message.value(),
            headers=list(headers or ()),
            timestamp=message.timestamp()[1],
            has_own_timestamp=True,
        )
    raise OperationError(
        f"The record of dead letter {letter.name} is not at {letter.topic}-{letter.source_partition} offset "
        f"{letter.source_offset} any more, and the letter does not have it wholly.",
        remedy="abandon this replay (`millrace operations abandon`) and replay the other letters",
    )
