"""Reads the topic of a global store with a consumer of its own, which stays open between batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from millrace.config import StreamsConfig
from millrace.errors import OffsetOutOfRangeError
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.task.input import InputBatch, empty_input
from millrace.task.messages import input_rows

BATCH_RECORDS = 20_000
_POLL_S = 0.02
"""Longest wait for a message: what is behind the last one, markers, shows in the position only."""


@dataclass(frozen=True)
class GlobalRows:
    """What was read of a global topic.

    Args:
        batch: committed records, by partition in the order of their offsets.
        positions: by partition the offset up to which nothing is missing; partitions of which nothing is known are
            left out.
    """

    batch: InputBatch
    positions: Mapping[int, int]


class GlobalTopicReader(Protocol):
    """Where the records of a global topic come from."""

    def read(self, ends: Mapping[int, int]) -> GlobalRows:
        """Committed records before an end offset of each partition, those that were not read yet.

        Waits a moment where there are none. Records at and behind the ends are kept for a later call.

        Raises:
            OffsetOutOfRangeError: the next offset to read is not in the log any more.
            MillraceError: the broker refuses.
        """

    def close(self) -> None:
        """Stops reading."""


class BrokerTopicReader:
    """A :class:`GlobalTopicReader` on the broker.

    Args:
        config: the application's configuration.
        topic: the topic.
        starts: for each partition the next offset to read, ``None`` for the begin of its log.
    """

    def __init__(self, config: StreamsConfig, topic: str, starts: Mapping[int, int | None]) -> None:
        self._config = config
        self._topic = topic
        self._waiting: dict[int, deque[Message]] = {partition: deque() for partition in starts}
        self._reached: dict[int, int] = {}
        self._consumer = Consumer({
            **base_settings(config.bootstrap_servers, config.client_settings("consumer.")),
            # Only assigned, never subscribed or committed: the application's group has no say in a global topic.
            "group.id": config.application_id,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            # Where a log ends in what is never delivered, and its records were compacted away.
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 10,
        })  # fmt: skip
        self._consumer.assign(
            [
                TopicPartition(topic, partition, OFFSET_BEGINNING if start is None else start)
                for partition, start in starts.items()
            ]
        )

    def read(self, ends: Mapping[int, int]) -> GlobalRows:
        """Committed records before an end offset of each partition."""
        try:
            if any(self._reached.get(partition, -1) < end for partition, end in ends.items()):
                self._poll()
        except KafkaException as error:
            raise self._translated(kafka_error(error)) from error
        messages: list[Message] = []
        for partition, end in ends.items():
            waiting = self._waiting[partition]
            while waiting and cast(int, waiting[0].offset()) < end:
                messages.append(waiting.popleft())
        batch = input_rows(messages, (self._topic,)) if messages else empty_input((self._topic,))
        positions = {
            partition: min(end, self._reached[partition])
            for partition, end in ends.items()
            if partition in self._reached
        }
        return GlobalRows(batch, positions)

    def close(self) -> None:
        """Stops reading."""
        self._consumer.close()

    def _poll(self) -> None:
        first = self._consumer.poll(_POLL_S)
        for message in [] if first is None else [first, *self._consumer.consume(BATCH_RECORDS - 1, timeout=0)]:
            self._take(message)
        # Beyond the last record the position also passes transaction markers and aborted records.
        for position in self._consumer.position([TopicPartition(self._topic, number) for number in self._waiting]):
            if position.offset >= 0:
                self._reach(position.partition, position.offset)

    def _take(self, message: Message) -> None:
        error, offset = message.error(), message.offset()
        if error is None:
            assert offset is not None
            self._waiting[cast(int, message.partition())].append(message)
            self._reach(cast(int, message.partition()), offset + 1)
        elif error.code() == KafkaError._PARTITION_EOF:
            assert offset is not None
            self._reach(cast(int, message.partition()), offset)
        else:
            raise self._translated(error)

    def _reach(self, partition: int, offset: int) -> None:
        self._reached[partition] = max(self._reached.get(partition, 0), offset)

    def _translated(self, error: KafkaError) -> Exception:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return OffsetOutOfRangeError(
                f"Global topic {self._topic}: the next offset is not in the log any more: {error.str()}.",
                remedy="none needed: the global store is built anew from what the topic has",
            )
        return translate(
            error, doing=f"reading global topic {self._topic}", bootstrap_servers=self._config.bootstrap_servers
        )
