"""Reading committed records of a topic from begin to end, once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException, Message

from millrace.install.connection import Connection
from millrace.kafka.clients import kafka_error, translate
from millrace.kafka.log_reader import IsolationLevel, LogReader, OutOfRange, offset_of, topic_partition_of
from millrace.kafka.offsets import End, end_offsets
from millrace.operations.dead_letters.record import DeadLetterRecord, dead_letter_record_of
from millrace.topology.topic_partition import TopicPartition

GROUP = "millrace-dead-letter-reader"
"""A name that the client library asks for: nothing joins it, nothing is committed."""

_SILENCE_LIMIT_S = 30.0


def records(
    connection: Connection, starts: Mapping[TopicPartition, int], *, settled: bool = False
) -> Iterator[Message]:
    """Yields the committed records of partitions from an offset to their ends, in no order among partitions.

    Args:
        connection: the cluster.
        starts: first offset of each partition.
        settled: whether transactions that are open now are waited for: one whose commit is acknowledged is open until
            its marker stands in the log. By default what comes before the first of them is all.

    Raises:
        BrokerUnavailableError: nothing came for half a minute.
    """
    ends = end_offsets(connection.administrator(), list(starts), End.HIGH_WATERMARK) if settled else {}
    reader = LogReader(
        connection.bootstrap_servers,
        connection.consumer,
        group=GROUP,
        isolation=IsolationLevel.READ_COMMITTED,
        out_of_range=OutOfRange.EARLIEST,
    )
    with reader:
        try:
            yield from reader.read(
                starts,
                ends,
                timeout_s=_SILENCE_LIMIT_S,
                is_timeout_of_silence=True,
                awaits_transactions=settled,
            )
        except KafkaException as error:
            raise translate(
                kafka_error(error), doing="reading dead-letter records", bootstrap_servers=connection.bootstrap_servers
            ) from error


def dead_letter_records(connection: Connection, starts: Mapping[TopicPartition, int]) -> Iterator[DeadLetterRecord]:
    """Yields the dead-letter records in partitions of a dead-letter topic. Raises as :func:`records`."""
    for message in records(connection, starts):
        kind, timestamp = message.timestamp()
        found: Any = message.headers()
        _, partition = topic_partition_of(message)
        yield dead_letter_record_of(
            partition=partition,
            offset=offset_of(message),
            key=message.key(),
            value=message.value(),
            headers=found or (),
            timestamp=timestamp,
            has_own_timestamp=kind != TIMESTAMP_LOG_APPEND_TIME,
        )
