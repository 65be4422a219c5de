"""Reads with a consumer of its own what lies between a task's committed offset and what Spark brings."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from millrace.config import StreamsConfig
from millrace.errors import BrokerUnavailableError, OffsetOutOfRangeError
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.task.input import InputBatch, TopicPartition
from millrace.task.messages import input_rows

GAP_LIMIT_RECORDS = 100_000
"""Most records of one gap that are read in one batch."""

_POLL_S = 0.2
_NO_PROGRESS_LIMIT_S = 30.0


def read_gap(
    config: StreamsConfig, topics: tuple[str, ...], place: TopicPartition, *, start: int, end: int
) -> tuple[InputBatch, int]:
    """The committed records of a partition with offsets from ``start`` up to ``end``.

    Args:
        config: the application's configuration.
        topics: names that the rows' topic column counts.
        place: topic and partition.
        start: first offset.
        end: first offset that is not wanted.

    Returns:
        The rows, and the offset up to which they are complete: ``end``, or less where there are too many.

    Raises:
        OffsetOutOfRangeError: ``start`` is not in the log any more.
        BrokerUnavailableError: nothing came for half a minute.
    """
    topic, partition = place
    consumer = Consumer({
        **base_settings(config.bootstrap_servers, config.client_settings("consumer.")),
        "group.id": config.application_id,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 20,
        "fetch.queue.backoff.ms": 10,
    })  # fmt: skip
    messages: list[Message] = []
    try:
        consumer.assign([KafkaPartition(topic, partition, start)])
        reached = start
        deadline = time.monotonic() + _NO_PROGRESS_LIMIT_S
        while reached < end and len(messages) < GAP_LIMIT_RECORDS:
            for message in consumer.consume(10_000, timeout=_POLL_S):
                error = message.error()
                if error is not None:
                    _raise(error, config, place, start)
                offset = message.offset()
                if offset is not None and offset < end:
                    messages.append(message)
            position = consumer.position([KafkaPartition(topic, partition)])[0].offset
            if position > reached:
                # Beyond the last record the position also passes transaction markers and aborted records.
                reached = position
                deadline = time.monotonic() + _NO_PROGRESS_LIMIT_S
            elif time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"Reading {topic}-{partition} from offset {start} to {end} stopped at {reached}.",
                    remedy="see that the broker is up, and that no transaction on the topic hangs",
                )
    except KafkaException as error:
        raise translate(
            kafka_error(error), doing=f"reading {topic}-{partition}", bootstrap_servers=config.bootstrap_servers
        ) from error
    finally:
        consumer.close()
    return input_rows(messages, topics), min(reached, end)


def _raise(error: KafkaError, config: StreamsConfig, place: TopicPartition, start: int) -> None:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise OffsetOutOfRangeError(
            f"Offset {start} of {place[0]}-{place[1]} is not in the log any more: {error.str()}.",
            remedy="restore a savepoint, or reset the application to an offset that exists",
        )
    raise translate(error, doing=f"reading {place[0]}-{place[1]}", bootstrap_servers=config.bootstrap_servers)
