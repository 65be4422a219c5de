"""Records as they stand in the topic that they were read from, for dead-letter records that do not have them wholly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millrace.errors import OperationError
from millrace.install.connection import Connection
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.operations.dead_letters.record import DeadLetterRecord

_LIMIT_S = 30.0


def with_originals(
    connection: Connection, records: Iterable[DeadLetterRecord], *, where: Callable[[DeadLetterRecord], bool]
) -> Iterator[DeadLetterRecord]:
    """The dead-letter records, some of them with key, value, headers and timestamp of the records in the log.

    Args:
        connection: the cluster.
        records: all dead-letter records.
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
        for record in records:
            yield _with_original(consumer, record) if where(record) else record
    except KafkaException as error:
        raise translate(
            kafka_error(error), doing="reading original records", bootstrap_servers=connection.bootstrap_servers
        ) from error
    finally:
        consumer.close()


def _with_original(consumer: Consumer, record: DeadLetterRecord) -> DeadLetterRecord:
    assert record.topic is not None
    consumer.assign([TopicPartition(record.topic, record.source_partition, record.source_offset)])
    deadline = time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() not in {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET}:
            raise KafkaException(error)
        if error is not None or message.offset() != record.source_offset:
            break  # compacted, or deleted
        headers: Any = message.headers()
        return replace(
            record,
            key=message.key(),
            value=message.value(),
            headers=list(headers or ()),
            timestamp=message.timestamp()[1],
            has_own_timestamp=True,
        )
    raise OperationError(
        f"The original of dead-letter record {record.name} is not at {record.topic}-{record.source_partition} offset "
        f"{record.source_offset} any more, and the dead-letter record does not have it wholly.",
        remedy="abandon this replay (`millrace operations abandon`) and replay the other dead-letter records",
    )
