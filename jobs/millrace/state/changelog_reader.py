"""Reading a changelog from the broker: committed records only, from an offset that must be there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from millrace.config import LOGIN_PREFIXES
from millrace.errors import StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import base_settings, translate
from millrace.kafka.offsets import End, begin_offsets, end_offsets

READ_RECORDS = 300
"""Messages that are taken from the client at once. Python looks for garbage each time that 700 objects more are alive:
with 5,000 messages at a time a record took 1.4 microseconds of the reading thread, with 300 it takes 0.6."""

REQUEST_TIMEOUT_S = 30.0
_POLL_S = 1.0
_CONNECTION_PREFIXES = (*LOGIN_PREFIXES, "bootstrap.", "reconnect.", "socket.", "client.")

CONSUMER_SETTINGS: Mapping[str, Any] = {
    # Only assigned, never subscribed or committed: the group is a name that the client library asks for.
    "group.id": "millrace-restore",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    # A reset would leave a hole in the store: an offset that is gone has to be an error.
    "auto.offset.reset": "error",
    # Markers and aborted records are never delivered; the end-of-partition event tells how far they reach.
    "enable.partition.eof": True,
    "fetch.message.max.bytes": 10 * 1024 * 1024,
    "fetch.wait.max.ms": 20,
    "queued.max.messages.kbytes": 64 * 1024,
    "queued.min.messages": 100_000,
    # Once so many wait, the client asks for no more until this time is over: a second by default, in which a
    # restoration applies all that waits and then idles (170,000 records/s instead of 900,000).
    "fetch.queue.backoff.ms": 5,
}


class ChangelogReader(Protocol):
    """What a restoration needs of the broker."""

    def log_range(self) -> tuple[int, int]:
        """First offset of the log, and its end with open transactions included.

        Raises:
            StateError: the topic or partition does not exist.
        """

    def start(self, offset: int) -> None:
        """Read from ``offset``."""

    def read(self) -> Sequence[Message]:
        """The next records and events, waiting about a second for the first."""

    def close(self) -> None:
        """Stop reading."""


def admin_beside_consumer(bootstrap_servers: str, settings: Mapping[str, str] | None) -> KafkaAdmin:
    """An administrator of the cluster that a consumer reads from; it connects as the consumer does.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: of the consumer; those that have nothing to do with the connection are left out.
    """
    connecting = {key: value for key, value in (settings or {}).items() if key.startswith(_CONNECTION_PREFIXES)}
    return KafkaAdmin(bootstrap_servers, settings=connecting, timeout_s=REQUEST_TIMEOUT_S)


def next_portion(consumer: Consumer, wait_s: float) -> list[Message]:
    """The next records and events: one wait for the first, seconds, none for those behind it."""
    first = consumer.poll(wait_s)
    return [] if first is None else [first, *consumer.consume(READ_RECORDS - 1, timeout=0)]


class BrokerChangelogReader:
    """A :class:`ChangelogReader` on the broker, for committed records.

    Args:
        topic: the changelog topic.
        partition: the partition.
        bootstrap_servers: comma-separated ``host:port``.
        settings: settings of the client that the user passes on (``consumer.*``), without their prefix. Those that
            make a restoration right are not open to change.
    """

    def __init__(
        self, topic: str, partition: int, *, bootstrap_servers: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._bootstrap_servers = bootstrap_servers
        connection = base_settings(bootstrap_servers, settings)
        self._admin = admin_beside_consumer(bootstrap_servers, settings)
        self._consumer = Consumer({**connection, **CONSUMER_SETTINGS})

    def log_range(self) -> tuple[int, int]:
        """First offset of the log and its end."""
        description = self._admin.describe_topics([self._topic]).get(self._topic)
        if description is None or description.partitions <= self._partition:
            raise StateError(
                f"Changelog topic {self._topic} has no partition {self._partition} at {self._bootstrap_servers}.",
                remedy="if the topic was deleted on purpose, reset the application; otherwise bring it back",
            )
        place = (self._topic, self._partition)
        # The last stable offset would hide what was committed behind the first open transaction.
        ends = end_offsets(self._admin, [place], End.HIGH_WATERMARK)
        return begin_offsets(self._admin, [place])[place], ends[place]

    def start(self, offset: int) -> None:
        """Read from ``offset``."""
        self._consumer.assign([TopicPartition(self._topic, self._partition, offset)])

    def read(self) -> Sequence[Message]:
        """The next records and events, see :func:`next_portion`."""
        return next_portion(self._consumer, _POLL_S)

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def reading_failed(error: KafkaError, where: str, position: int, bootstrap_servers: str) -> Exception:
    """What a failure of the client means for who reads the log.

    Args:
        error: the failure.
        where: the log, as a message names it.
        position: the offset that was to be read next.
        bootstrap_servers: the broker's address.
    """
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return StateError(
            f"The {where} lost offset {position} while it was read: {error.str()}.",
            remedy="wipe the store and restore it whole",
        )
    return translate(error, doing=f"reading the {where}", bootstrap_servers=bootstrap_servers)
