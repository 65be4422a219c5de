"""The compacted topic in which drivers publish their status, and in which a newer driver fences an older one."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from millrace.driver.status import ApplicationStatus, DriverIdentity, newest_records
from millrace.errors import (
    DriverFencedError,
    MillraceError,
    PreflightError,
    SerializationError,
    TransactionAbortedError,
)
from millrace.kafka.clients import admin_settings, base_settings, kafka_error, translate
from millrace.kafka.driver_records import STATUS_PARTITION, DriverRecord, fenced, status_reader
from millrace.kafka.topics import STATUS_TOPIC

log = structlog.get_logger(__name__)

TRANSACTION_TIMEOUT_MS = 10_000
STATUS_TOPIC_SETTINGS = {
    "cleanup.policy": "compact",
    # Small segments, cleaned early: readers start at the log's beginning and should be done in well under a second.
    "segment.bytes": str(8 * 1024 * 1024),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.1",
}
_WITHOUT_LEADER = frozenset({
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
})  # fmt: skip
_FENCED = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.PRODUCER_FENCED,
}


def driver_transactional_id(application_id: str) -> str:
    """Returns the transactional id of the application's drivers, which only the newest one can use."""
    return f"{application_id}-driver"


def ensure_status_topic(
    bootstrap_servers: str,
    *,
    replication_factor: int = -1,
    client_settings: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
) -> None:
    """Creates ``_millrace-status`` (1 partition, compacted) if it is missing.

    Raises:
        BrokerUnavailableError: no broker answered in time.
        PreflightError: the broker refused to create it.
        OperationError: the broker failed to.
    """
    admin = AdminClient(admin_settings(bootstrap_servers, client_settings))
    new = NewTopic(STATUS_TOPIC, 1, replication_factor, config=dict(STATUS_TOPIC_SETTINGS))
    created = admin.create_topics([new], operation_timeout=timeout_s, request_timeout=timeout_s)
    try:
        created[STATUS_TOPIC].result(timeout_s + 1)
    except KafkaException as error:
        if kafka_error(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        raise _translated(error, f"creating topic {STATUS_TOPIC}", bootstrap_servers) from error
    log.info("status topic created", topic=STATUS_TOPIC)


def read_statuses(
    bootstrap_servers: str,
    *,
    client_settings: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
) -> dict[str, ApplicationStatus]:
    """Returns the status of every application of a cluster, by application id; empty if the topic does not exist.

    Reads uncommitted up to the high watermark, so that a driver that died inside a transaction hides no other
    application's status, and trusts the highest driver epoch of each application.

    Args:
        bootstrap_servers: host:port list.
        client_settings: more librdkafka settings (security).
        timeout_s: longest time for everything, seconds.

    Raises:
        BrokerUnavailableError: no broker answered, or not everything could be read in time.
    """
    statuses: dict[str, ApplicationStatus] = {}
    for application_id, record in _read_records(bootstrap_servers, client_settings, timeout_s).items():
        try:
            statuses[application_id] = ApplicationStatus.from_json(record)
        except SerializationError as error:
            # One application's record, of an incompatible version, must not hide all the others.
            log.warning("status left out", application=application_id, problem=error.message)
    return statuses


def _read_records(
    bootstrap_servers: str, client_settings: Mapping[str, str] | None, timeout_s: float
) -> dict[str, bytes]:
    deadline = time.monotonic() + timeout_s
    with status_reader(bootstrap_servers, client_settings) as reader:
        try:
            low, high = _ends(reader.consumer, timeout_s, deadline)
            messages = reader.read({STATUS_PARTITION: low}, {STATUS_PARTITION: high}, timeout_s=_left(deadline))
            return newest_records(
                (key.decode(errors="replace"), message.value())
                for message in messages
                if (key := message.key()) is not None
            )
        except KafkaException as error:
            raise _translated(error, f"reading topic {STATUS_TOPIC}", bootstrap_servers) from error


def _ends(consumer: Consumer, timeout_s: float, deadline: float) -> tuple[int, int]:
    """Returns the begin and end of the log, both 0 if the topic does not exist."""

    def ask() -> tuple[int, int]:
        if not consumer.list_topics(STATUS_TOPIC, timeout=timeout_s).topics[STATUS_TOPIC].partitions:
            return 0, 0
        partition = TopicPartition(STATUS_TOPIC, 0)
        low, high = consumer.get_watermark_offsets(partition, timeout=_left(deadline), cached=False)
        return low, high

    # The topic is known before its partition and leader are, just after it was created or the broker was started.
    attempts = Retrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, KafkaException) and kafka_error(error).code() in _WITHOUT_LEADER
        ),
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return attempts(ask)


class StatusPublisher:
    """A publisher of one application's status, each time in one transaction. Thread-safe.

    Its transactional id belongs to the newest driver: :meth:`open` fences every older one, whose next :meth:`publish`
    raises. If the process dies inside a transaction, the broker aborts it after 10 s.

    Args:
        bootstrap_servers: host:port list.
        application_id: whose status it is.
        replication_factor: of the topic, where it has to be created; -1 takes the broker's default.
        client_settings: more librdkafka settings (security).
        timeout_s: longest time of one publication, seconds.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        application_id: str,
        *,
        replication_factor: int = -1,
        client_settings: Mapping[str, str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._application_id = application_id
        self._replication_factor = replication_factor
        self._client_settings = dict(client_settings or {})
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._epoch = 0
        self._run: tuple[DriverIdentity, str] | None = None
        self._fenced: DriverFencedError | None = None

    @property
    def epoch(self) -> int:
        """The epoch of this driver; 0 before :meth:`open`."""
        return self._epoch

    def peek(self) -> ApplicationStatus | None:
        """Returns the last status of the application, by whichever driver; fences no driver.

        Raises as :meth:`open`.
        """
        self._ensure_topic()
        return self._last_status()

    def open(self) -> ApplicationStatus | None:
        """Fences older drivers, then takes the next epoch.

        Returns:
            The last status of the application, by whichever driver; ``None`` if there is none.

        Raises:
            BrokerUnavailableError: no broker answered in time.
            PreflightError: the broker refused.
            SerializationError: the last status is of an incompatible version.
        """
        with self._lock:
            self._ensure_topic()
            self._producer = self._new_producer()
            # Only after the older driver is fenced can it not publish behind the reader's back.
            last = self._last_status()
            self._epoch = (last.driver_epoch if last else 0) + 1
            return last

    def publish(self, status: ApplicationStatus) -> None:
        """Writes ``status`` as the application's newest status.

        Raises:
            DriverFencedError: a newer driver has taken over. Every later call raises it again.
            TransactionAbortedError: it was not written; the next call may succeed.
            BrokerUnavailableError: no broker answered in time; the next call may succeed.
        """
        with self._lock:
            if self._fenced is not None:
                raise self._fenced
            self._run = (status.driver, status.run_id)
            if self._producer is None:
                self._reopen()
            try:
                self._write(status)
            except KafkaException as error:
                self._after_failure(error)

    def close(self) -> None:
        """Closes the producer. Idempotent."""
        with self._lock:
            self._discard()

    def __enter__(self) -> StatusPublisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ensure_topic(self) -> None:
        ensure_status_topic(
            self._bootstrap_servers,
            replication_factor=self._replication_factor,
            client_settings=self._client_settings,
            timeout_s=self._timeout_s,
        )

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                **base_settings(self._bootstrap_servers, self._client_settings),
                "transactional.id": driver_transactional_id(self._application_id),
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
                "compression.type": "zstd",
            }
        )
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                producer.init_transactions(max(0.1, _left(deadline)))
            except KafkaException as error:
                # The same call again is how librdkafka goes on with an initialisation that was slow.
                if kafka_error(error).retriable() and time.monotonic() < deadline:
                    continue
                doing = f"registering the driver of {self._application_id}"
                raise _translated(error, doing, self._bootstrap_servers) from error
            return producer

    def _last_status(self) -> ApplicationStatus | None:
        records = _read_records(self._bootstrap_servers, self._client_settings, self._timeout_s)
        record = records.get(self._application_id)
        return None if record is None else ApplicationStatus.from_json(record)

    def _reopen(self) -> None:
        """Creates a new producer after a failure that was no fence, unless another driver took over meanwhile."""
        if self._epoch == 0:
            raise PreflightError(f"The status publisher of {self._application_id} is not open.", remedy="call open()")
        self._raise_if_taken_over()
        self._producer = self._new_producer()
        self._raise_if_taken_over()

    def _raise_if_taken_over(self) -> None:
        last = self._last_status()
        # Two drivers that start at the same moment may have found the same epoch: then the run tells them apart.
        if last is not None and (
            last.driver_epoch > self._epoch
            or (last.driver_epoch == self._epoch and (last.driver, last.run_id) != self._run)
        ):
            self._discard()
            self._fenced = fenced(self._application_id, epoch=self._epoch, by=record_of(last))
            raise self._fenced

    def _write(self, status: ApplicationStatus) -> None:
        producer = self._producer
        assert producer is not None
        failures: list[KafkaError] = []
        producer.begin_transaction()
        producer.produce(
            STATUS_TOPIC,
            key=self._application_id.encode(),
            value=status.to_json(),
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error is not None else None,
        )
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                producer.commit_transaction(max(0.1, _left(deadline)))
            except KafkaException as error:
                if kafka_error(error).retriable() and time.monotonic() < deadline:
                    continue
                raise
            return

    def _after_failure(self, error: KafkaException) -> None:
        cause = kafka_error(error)
        if cause.txn_requires_abort() and self._producer is not None:
            try:
                self._producer.abort_transaction(self._timeout_s)
            except KafkaException as second:
                cause = kafka_error(second)
            else:
                raise TransactionAbortedError(
                    f"The status of {self._application_id} was not written: {cause.str()}.",
                    remedy="none: it is written again with the next heartbeat",
                ) from error
        self._discard()
        if cause.code() in _FENCED:
            self._resolve_fence()
            raise TransactionAbortedError(
                f"The status of {self._application_id} was not written: its transaction was open for longer than "
                f"{TRANSACTION_TIMEOUT_MS} ms.",
                remedy="none, unless it repeats: then the driver's host is overloaded or is being suspended",
            ) from error
        raise _translated(error, f"writing the status of {self._application_id}", self._bootstrap_servers) from error

    def _discard(self) -> None:
        if self._producer is not None:
            self._producer.purge()  # destroying a producer waits for what it still holds
            self._producer = None

    def _resolve_fence(self) -> None:
        """Finds the cause of a fence: a newer driver, or a transaction that the broker ended as open too long.

        A newer driver publishes as soon as it has its epoch, so a short wait tells the two apart.
        """
        deadline = time.monotonic() + 3.0
        while True:
            self._raise_if_taken_over()
            if time.monotonic() >= deadline:
                return
            threading.Event().wait(0.1)


def record_of(status: ApplicationStatus) -> DriverRecord:
    """Returns the record of the driver that published a status."""
    return DriverRecord(
        epoch=status.driver_epoch,
        run=status.run_id,
        host=status.driver.host,
        pid=status.driver.pid,
        started_at=status.started_at,
    )


def _left(deadline: float) -> float:
    return max(0.05, deadline - time.monotonic())


def _translated(error: KafkaException, doing: str, bootstrap_servers: str) -> MillraceError:
    return translate(kafka_error(error), doing=doing, bootstrap_servers=bootstrap_servers)
