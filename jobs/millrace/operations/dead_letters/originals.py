"""Records as they stand in the topic that they were read from, for dead-letter records that do not have them wholly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from millrace.errors import OperationError
from millrace.install.connection import Connection
from millrace.kafka.clients import kafka_error, translate
from millrace.kafka.log_reader import IsolationLevel, LogReader
from millrace.operations.dead_letters.reading import GROUP
from millrace.operations.dead_letters.record import DeadLetterRecord

_LIMIT_S = 30.0


def with_originals(
    connection: Connection, records: Iterable[DeadLetterRecord], *, where: Callable[[DeadLetterRecord], bool]
) -> Iterator[DeadLetterRecord]:
    """Yields the dead-letter records, some of them with key, value, headers and timestamp of the records in the log.

    Args:
        connection: the cluster.
        records: all dead-letter records.
        where: which of them do not have their records wholly.

    Raises:
        OperationError: a record is not there any more.
        BrokerUnavailableError: the broker did not say within half a minute whether it is.
    """
    reader = LogReader(
        connection.bootstrap_servers, connection.consumer, group=GROUP, isolation=IsolationLevel.READ_COMMITTED
    )
    with reader:
        try:
            for record in records:
                yield _with_original(reader, record) if where(record) else record
        except KafkaException as error:
            raise translate(
                kafka_error(error), doing="reading original records", bootstrap_servers=connection.bootstrap_servers
            ) from error


def _with_original(reader: LogReader, record: DeadLetterRecord) -> DeadLetterRecord:
    message = _read(reader, record)
    if message is not None:
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


def _read(reader: LogReader, record: DeadLetterRecord) -> Message | None:
    """The record in the log; ``None`` where it was compacted away, or deleted."""
    assert record.topic is not None
    where, offset = (record.topic, record.source_partition), record.source_offset
    try:
        return next(reader.read({where: offset}, {where: offset + 1}, timeout_s=_LIMIT_S), None)
    except KafkaException as error:
        if kafka_error(error).code() == KafkaError._AUTO_OFFSET_RESET:
            return None
        raise
