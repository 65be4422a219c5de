"""Reading a range of a log once, record by record: status records, dead-letter records, records to be counted.

What reads whole partitions on and on, in columns, is :mod:`millrace.kafka.columns`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import TracebackType

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientTopicPartition

from millrace.errors import BrokerUnavailableError
from millrace.kafka.clients import base_settings, consume_available
from millrace.topology.topic_partition import TopicPartition

_AT_ONCE = 1_000
_POLL_S = 0.2


class IsolationLevel(StrEnum):
    """The records that a reader sees, named as in ``isolation.level``."""

    READ_COMMITTED = "read_committed"
    """Records of committed transactions, up to the first open transaction."""
    READ_UNCOMMITTED = "read_uncommitted"
    """All records, up to the high watermark."""


class OutOfRange(StrEnum):
    """The reaction to a first offset that the log does not have, named as in ``auto.offset.reset``."""

    ERROR = "error"
    EARLIEST = "earliest"
    """Reading begins at the log's first record."""


class LogReader:
    """A reader of ranges of topic-partitions; joins no group and commits nothing. To be closed, or used in ``with``.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user.
        group: a name, since the client library asks for one; the broker may want a permission for it.
        isolation: which records are seen.
        out_of_range: what follows a first offset that the log does not have.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, str] | None,
        *,
        group: str,
        isolation: IsolationLevel,
        out_of_range: OutOfRange = OutOfRange.ERROR,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self.consumer = Consumer({
            **base_settings(bootstrap_servers, settings),
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": isolation.value,
            "enable.partition.eof": True,
            "auto.offset.reset": out_of_range.value,
            "fetch.wait.max.ms": 20,
        })  # fmt: skip

    def __enter__(self) -> LogReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the consumer. Idempotent."""
        self.consumer.close()

    def read(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None = None,
        *,
        timeout_s: float,
        is_timeout_of_silence: bool = False,
        awaits_transactions: bool = False,
    ) -> Iterator[Message]:
        """Yields the records of ranges, of each partition in the order of offsets. Ends an earlier, unfinished reading.

        Args:
            starts: first offset of each partition.
            ends: first offset that is not wanted; a partition that is not in it is read to where its log ends.
            timeout_s: longest time for everything, seconds.
            is_timeout_of_silence: the time is that without any news from the broker, however long everything takes.
            awaits_transactions: whether a transaction that is open before an end is waited for. Otherwise a partition
                ends before it.

        Raises:
            BrokerUnavailableError: the time was over.
            confluent_kafka.KafkaException: what the broker or the client says.
        """
        ends = ends or {}
        unread = {
            topic_partition
            for topic_partition, start in starts.items()
            if topic_partition not in ends or start < ends[topic_partition]
        }
        if not unread:
            return
        self.consumer.assign(
            [ClientTopicPartition(*topic_partition, starts[topic_partition]) for topic_partition in sorted(unread)]
        )
        limit = time.monotonic() + timeout_s
        while unread:
            messages = consume_available(self.consumer, _AT_ONCE, timeout_s=_POLL_S)
            for message in messages:
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                topic_partition, offset = topic_partition_of(message), offset_of(message)
                end = ends.get(topic_partition)
                if error is not None:
                    # The log may end in transaction markers, which are no messages: only the end event shows them.
                    if end is None or offset >= end or not awaits_transactions:
                        unread.discard(topic_partition)
                    continue
                if topic_partition in unread and (end is None or offset < end):
                    yield message
                if end is not None and offset + 1 >= end:
                    unread.discard(topic_partition)
            if messages and is_timeout_of_silence:
                # What the caller does with records is no silence.
                limit = time.monotonic() + timeout_s
            if unread and time.monotonic() > limit:
                raise self._timed_out(unread, ends, timeout_s)

    def _timed_out(
        self, unread: set[TopicPartition], ends: Mapping[TopicPartition, int], timeout_s: float
    ) -> BrokerUnavailableError:
        names = ", ".join(
            f"{topic}-{partition}" + (f" (offset {ends[topic, partition]})" if (topic, partition) in ends else "")
            for topic, partition in sorted(unread)
        )
        return BrokerUnavailableError(
            f"{self._bootstrap_servers} did not give all records up to the end of {names} within {timeout_s:g} s.",
            remedy="check that the brokers that lead these partitions are up, and that no transaction on them hangs",
        )


def offset_of(message: Message) -> int:
    """Returns the offset of a record, or of the end of a partition."""
    offset = message.offset()
    assert offset is not None
    return offset


def topic_partition_of(message: Message) -> TopicPartition:
    """Returns the topic-partition of a record, or of an end-of-partition event."""
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition
