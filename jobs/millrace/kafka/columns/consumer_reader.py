"""The reader over :class:`confluent_kafka.Consumer`, for processes that cannot use librdkafka's C interface.

Each record passes through a Python object, which costs about 2 microseconds of processor time more than
:class:`~millrace.kafka.columns.librdkafka_reader.LibrdkafkaReader` takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as ClientPartition

from millrace.kafka.clients import kafka_error, translate
from millrace.kafka.columns.disputed import ASKING_LIMIT_MS, DisputedOffsets
from millrace.kafka.columns.problems import OUT_OF_RANGE, ReaderProblems
from millrace.kafka.columns.reader import BEGINNING, NO_TIMESTAMP, PartitionColumns, RecordHeaders
from millrace.kafka.columns.settings import KIBIBYTE, QUEUED, ReaderSettings, refused_settings
from millrace.topology.topic_partition import TopicPartition

_AT_ONCE = 300
"""Messages that are taken from the client at once. Python looks for garbage each time that 700 objects more are alive:
with 5,000 messages at a time a record took 1.4 microseconds of the reading thread, with 300 it takes 0.6."""


class ConsumerReader:
    """The :class:`~millrace.kafka.columns.reader.PartitionReader` over ``confluent_kafka.Consumer``.

    Args:
        settings: how to connect, and how much to buffer.

    Raises:
        ConfigurationError: the client does not take a setting.
    """

    def __init__(self, settings: ReaderSettings) -> None:
        self._bootstrap_servers = settings.bootstrap_servers
        self._problems = ReaderProblems(settings.bootstrap_servers)
        self._positions: dict[TopicPartition, int] = {}
        self._disputed = DisputedOffsets(self._ask_log)
        self._is_closed = False
        of_client = settings.of_client()
        self._most_bytes = int(of_client[QUEUED]) * KIBIBYTE
        try:
            self._consumer: Any = Consumer({**of_client, "error_cb": self._problems.of_client})
        except KafkaException as error:
            raise refused_settings(kafka_error(error).str()) from error

    @property
    def trouble(self) -> str:
        """The reason why no records may arrive at present."""
        return self._problems.trouble

    @property
    def failed(self) -> TopicPartition | None:
        """The topic-partition that the last error is about."""
        return self._problems.failed

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Assigns further topic-partitions."""
        self.unassign(starts)
        self._assign(starts)

    def _assign(self, starts: Mapping[TopicPartition, int]) -> None:
        if starts:
            self._positions |= starts
            self._consumer.incremental_assign(
                [
                    ClientPartition(*each, OFFSET_BEGINNING if start == BEGINNING else start)
                    for each, start in starts.items()
                ]
            )

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Removes topic-partitions from the assignment."""
        for each in partitions:
            self._disputed.discard(each)
        self._unassign(partitions)

    def _unassign(self, partitions: Collection[TopicPartition]) -> None:
        known = [each for each in partitions if self._positions.pop(each, None) is not None]
        if known:
            self._consumer.incremental_unassign(_as_client_has(known))

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Pauses topic-partitions until they are resumed."""
        self._consumer.pause(_as_client_has(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Resumes paused topic-partitions."""
        self._consumer.resume(_as_client_has(partitions))

    def poll(self, timeout_s: float, max_records: int) -> list[PartitionColumns]:
        """Returns the records and events that are available."""
        if again := self._disputed.take_due():
            self._unassign(again)
            self._assign(again)
        self._problems.raise_first()
        found: dict[TopicPartition, _News] = {}
        try:
            first = self._consumer.poll(timeout_s)
            messages = [] if first is None else [first]
            remaining, bytes_left = max_records, self._most_bytes
            while messages:
                self._take(messages, found)
                remaining -= len(messages)
                # Else a fast broker would fill the queue faster than it is emptied here.
                bytes_left -= sum(map(len, messages))
                if remaining <= 0 or bytes_left <= 0:
                    break
                messages = self._consumer.consume(min(_AT_ONCE, remaining), timeout=0)
        except KafkaException as error:
            raise translate(kafka_error(error), doing="reading", bootstrap_servers=self._bootstrap_servers) from error
        if not found:
            self._problems.raise_first()
            return []
        return [self._columns(where, news) for where, news in found.items()]

    def close(self) -> None:
        """Closes the consumer."""
        if not self._is_closed:
            self._is_closed = True
            self._consumer.close()

    def _take(self, messages: list[Message], found: dict[TopicPartition, _News]) -> None:
        for message in messages:
            error = message.error()
            if error is not None and message.topic() is None:
                self._problems.of_client(error)
                continue
            where = (cast(str, message.topic()), cast(int, message.partition()))
            if where not in self._positions:
                continue
            offset = cast(int, message.offset())
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                self._disputed.discard(where)
            if error is None:
                news = found.setdefault(where, _News())
                news.messages.append(message)
                news.end = None
                self._positions[where] = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                found.setdefault(where, _News()).end = offset
                self._positions[where] = max(self._positions[where], offset)
            elif error.code() not in OUT_OF_RANGE or not self._disputed.disputes(where, self._positions[where]):
                self._problems.of_partition(error, where, self._positions[where])

    def _ask_log(self, where: TopicPartition) -> tuple[int, int] | None:
        try:
            low, high = self._consumer.get_watermark_offsets(ClientPartition(*where), timeout=ASKING_LIMIT_MS / 1000)
        except KafkaException:
            return None
        return low, high

    def _columns(self, where: TopicPartition, news: _News) -> PartitionColumns:
        messages = news.messages
        stamps = [message.timestamp() for message in messages]
        headers = [message.headers() or None for message in messages]
        _, log_end = self._consumer.get_watermark_offsets(ClientPartition(*where), cached=True)
        return PartitionColumns(
            topic=where[0],
            partition=where[1],
            offsets=np.array([message.offset() for message in messages], dtype=np.int64),
            timestamps=np.array(
                [NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else time_ms for kind, time_ms in stamps],
                dtype=np.int64,
            ),
            keys=pa.array([message.key() for message in messages], type=pa.binary()),
            values=pa.array([message.value() for message in messages], type=pa.binary()),
            headers=cast(list[RecordHeaders | None], headers) if any(headers) else None,
            position=self._positions[where],
            end=news.end,
            log_end=log_end if log_end >= 0 else None,
        )


@dataclass
class _News:
    """The records and events of one topic-partition in a poll."""

    messages: list[Message] = field(default_factory=list)
    end: int | None = None


def _as_client_has(partitions: Collection[TopicPartition]) -> list[ClientPartition]:
    return [ClientPartition(*each) for each in partitions]
