"""Reading the demo's topics: alerts as they come, and at the end everything that is committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from confluent_kafka import Consumer, Message, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from apps.fraud_model import Alert, LoggedPayment
from millrace.errors import BrokerUnavailableError, OpenTransactionError, OperationError
from millrace.kafka import offsets
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import base_settings, consume_available

_LIMIT_S = 120.0
_ANSWER_LIMIT_S = 10.0
_AGAIN_S = 0.2


def reader(bootstrap_servers: str, group: str) -> Consumer:
    """A consumer of committed records that joins no group."""
    return Consumer(
        {
            **base_settings(bootstrap_servers),
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )


def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """The last stable offset of each partition."""
    return _asked(lambda admin: offsets.end_offsets(admin, _partitions(admin, topic)), bootstrap_servers)


def committed_offsets(bootstrap_servers: str, group: str, topic: str) -> dict[int, int]:
    """The committed offset of each partition; 0 where there is none."""

    def ask(admin: KafkaAdmin) -> dict[tuple[str, int], int]:
        partitions = _partitions(admin, topic)
        found = offsets.committed_offsets(admin, group, partitions)
        return {each: found[each].offset if each in found else 0 for each in partitions}

    return _asked(ask, bootstrap_servers)


def _partitions(admin: KafkaAdmin, topic: str) -> list[tuple[str, int]]:
    return admin.describe_topics([topic])[topic].topic_partitions


def _asked(ask: Callable[[KafkaAdmin], Mapping[tuple[str, int], int]], bootstrap_servers: str) -> dict[int, int]:
    """Offsets by partition; asked again where a broker was lost meanwhile, or has left a transaction open."""
    attempts = Retrying(
        retry=retry_if_exception_type((BrokerUnavailableError, OpenTransactionError)),
        stop=stop_after_delay(_LIMIT_S),
        wait=wait_fixed(_AGAIN_S),
        reraise=True,
    )
    found = attempts(ask, KafkaAdmin(bootstrap_servers, timeout_s=_ANSWER_LIMIT_S))
    return {partition: offset for (_, partition), offset in found.items()}


class TopicReader:
    """Reads a whole topic from its beginning, in a thread of its own, committed records only.

    Args:
        bootstrap_servers: the broker.
        topic: the topic.
        on_record: called for each record, in the reading thread.
    """

    def __init__(self, bootstrap_servers: str, topic: str, on_record: Callable[[Message], None]) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._on_record = on_record
        self._stop = threading.Event()
        self._positions: dict[int, int] = {}
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"reads-{topic}", daemon=True)
        self._thread.start()

    def read_to_the_end(self, *, timeout_s: float = 120.0) -> None:
        """Waits until everything that is committed now has been read, and ends.

        Raises:
            OperationError: it was not read in time, or reading failed.
        """
        ends = end_offsets(self._bootstrap_servers, self._topic)
        deadline = time.monotonic() + timeout_s
        while self._failure is None and any(self._positions.get(number, 0) < end for number, end in ends.items()):
            if time.monotonic() > deadline:
                raise OperationError(
                    f"{self._topic} was read to {self._positions} and not to its end {ends} in {timeout_s:g} s.",
                    remedy="see the broker's log",
                )
            time.sleep(0.1)
        self.close()
        if self._failure is not None:
            raise OperationError(
                f"{self._topic} could not be read: {self._failure}", remedy="see the broker's log"
            ) from self._failure

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        consumer = reader(self._bootstrap_servers, f"demo-reader-of-{self._topic}")
        try:
            numbers = consumer.list_topics(self._topic, timeout=_LIMIT_S).topics[self._topic].partitions
            places = [TopicPartition(self._topic, number, 0) for number in numbers]
            consumer.assign(places)
            while not self._stop.is_set():
                for message in consume_available(consumer, 500, timeout_s=0.2):
                    if message.error() is not None:
                        raise OperationError(str(message.error()), remedy="see the broker's log")
                    self._on_record(message)
                # The position, not the last record's offset: the markers of transactions have offsets too.
                for place in consumer.position(places):
                    self._positions[place.partition] = max(place.offset, 0)
        except Exception as error:
            self._failure = error
        finally:
            consumer.close()


def alert_of(message: Message) -> Alert:
    """An alert as it was read.

    Raises:
        OperationError: it is none, or its key is not its account.
    """
    key, value = _bytes(message.key()), _bytes(message.value())
    if key is None or value is None:
        raise OperationError(f"An alert without key or value: {key!r}, {value!r}.")
    document: Mapping[str, Any] = orjson.loads(value)
    alert = Alert(**document)
    if key.decode() != alert.account:
        raise OperationError(f"The alert {alert} has the key {key!r}.")
    return alert


def payment_of(message: Message) -> LoggedPayment:
    """A payment as it stands in its topic."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return LoggedPayment(partition, offset, message.timestamp()[1], _bytes(message.key()), _bytes(message.value()))


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
