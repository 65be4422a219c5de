"""A follower of the status topic, for processes that always need the current status of one application."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millrace.driver.status import ApplicationStatus, newest_records
from millrace.errors import SerializationError
from millrace.kafka.clients import consume_available
from millrace.kafka.driver_records import status_reader
from millrace.kafka.topics import STATUS_TOPIC

log = structlog.get_logger(__name__)

_RETRY_S = 1.0
_POLL_S = 0.5


class StatusFollower:
    """A thread that follows the status topic and keeps the newest status of an application.

    A broker that does not answer, and a topic that does not exist yet, are waited for; meanwhile the status is the last
    one that was read.

    Args:
        bootstrap_servers: host:port list.
        application_id: the application.
        client_settings: more librdkafka settings (security).
    """

    def __init__(
        self, bootstrap_servers: str, application_id: str, *, client_settings: Mapping[str, str] | None = None
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._application_id = application_id
        self._client_settings = client_settings
        self._stopping = threading.Event()
        self._caught_up = threading.Event()
        self._newest: bytes | None = None
        self._status: ApplicationStatus | None = None
        self._thread = threading.Thread(target=self._follow, name="status-follower", daemon=True)

    @property
    def status(self) -> ApplicationStatus | None:
        """The newest status; ``None`` if there is none, or none was read yet."""
        return self._status

    def start(self, timeout_s: float = 10.0) -> None:
        """Starts the thread; returns once it has read to the end of the topic, or after the time limit."""
        self._thread.start()
        self._caught_up.wait(timeout_s)

    def stop(self) -> None:
        """Stops the thread. Idempotent."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                with status_reader(self._bootstrap_servers, self._client_settings) as reader:
                    self._follow_with(reader.consumer)
            except KafkaException as error:
                log.warning("status topic not followed", problem=str(error))
                self._stopping.wait(_RETRY_S)

    def _follow_with(self, consumer: Consumer) -> None:
        topic = consumer.list_topics(STATUS_TOPIC, timeout=10).topics[STATUS_TOPIC]
        if not topic.partitions:
            self._caught_up.set()
            self._stopping.wait(_RETRY_S)
            return
        low, _ = consumer.get_watermark_offsets(TopicPartition(STATUS_TOPIC, 0), timeout=10, cached=False)
        consumer.assign([TopicPartition(STATUS_TOPIC, 0, low)])
        while not self._stopping.is_set():
            messages = consume_available(consumer, 500, timeout_s=_POLL_S)
            records: list[tuple[str, bytes | None]] = []
            if self._newest is not None:
                records.append((self._application_id, self._newest))
            at_end = False
            for message in messages:
                error, key = message.error(), message.key()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    at_end = True
                elif error is not None:
                    raise KafkaException(error)
                elif key is not None and key.decode(errors="replace") == self._application_id:
                    records.append((self._application_id, message.value()))
            self._take(newest_records(records).get(self._application_id))
            if at_end:
                self._caught_up.set()

    def _take(self, newest: bytes | None) -> None:
        if newest is self._newest:
            return
        self._newest = newest
        try:
            self._status = None if newest is None else ApplicationStatus.from_json(newest)
        except SerializationError as error:
            log.warning("status left out", application=self._application_id, problem=error.message)
