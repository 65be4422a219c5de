"""The newest driver of an application, read from the end of the status topic.

A task asks before it takes its transactional id over, so that one of a driver that was replaced takes nothing back. The
whole topic has the history of every application of the cluster; a driver that lives has published moments ago.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millrace.errors import DriverFencedError
from millrace.kafka.clients import kafka_error, translate
from millrace.kafka.log_reader import IsolationLevel, LogReader
from millrace.kafka.topics import STATUS_TOPIC

RECENT_S = 60.0
"""How far back records count at least, seconds: hosts' clocks differ, and heartbeats may be rare."""

STATUS_PARTITION = (STATUS_TOPIC, 0)
"""The only partition of the status topic."""

_MISSING = frozenset({
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
})  # fmt: skip

FENCED_REMEDY = "nothing, if the newer driver is meant; otherwise stop it, and start this one again"
"""The remedy for a driver that a newer one has replaced."""


@dataclass(frozen=True, kw_only=True)
class DriverRecord:
    """A driver, as its status record identifies it.

    Args:
        epoch: number of the driver; a higher one took over from all lower ones.
        run: identifies the run; two drivers that started at the same moment may have the same number.
        host: its host.
        pid: its process there.
        started_at: when it started, seconds since the epoch.
    """

    epoch: int
    run: str
    host: str = ""
    pid: int = 0
    started_at: float = 0.0

    def replaces(self, *, epoch: int, run: str) -> bool:
        """Returns whether this driver replaced the driver of the given number and run."""
        return self.epoch > epoch or (self.epoch == epoch and self.run != run)

    def __str__(self) -> str:
        at = f"{datetime.fromtimestamp(self.started_at, UTC):%Y-%m-%dT%H:%M:%SZ}" if self.started_at else "unknown"
        return (
            f"driver {self.epoch} (process {self.pid} on {self.host or 'an unknown host'}, run "
            f"{self.run or 'unknown'}, started {at})"
        )


def fenced(application_id: str, *, epoch: int, by: DriverRecord, task: str = "") -> DriverFencedError:
    """Returns the error of a driver, or of its task, that was replaced; it names the newer driver.

    Args:
        application_id: the application.
        epoch: number of the driver that was replaced.
        by: the newer one.
        task: the task that noticed; empty where the driver did.
    """
    noticed = f", as task {task} found" if task else ""
    return DriverFencedError(
        f"Driver {epoch} of {application_id} was fenced by a newer driver: {by}{noticed}.", remedy=FENCED_REMEDY
    )


def status_reader(bootstrap_servers: str, client_settings: Mapping[str, str] | None) -> LogReader:
    """Returns a reader of the status topic, which also sees records of a driver that died inside a transaction."""
    return LogReader(
        bootstrap_servers,
        client_settings,
        group="millrace-status-reader",
        isolation=IsolationLevel.READ_UNCOMMITTED,
    )


def newest_driver(
    bootstrap_servers: str,
    application_id: str,
    *,
    client_settings: Mapping[str, str] | None = None,
    recent_s: float = RECENT_S,
    timeout_s: float = 5.0,
) -> DriverRecord | None:
    """Returns the newest driver of an application among those that published lately.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        application_id: the application.
        client_settings: client settings of the user (security).
        recent_s: how far back records count, seconds.
        timeout_s: longest time for everything, seconds.

    Returns:
        ``None`` where none published lately.

    Raises:
        BrokerUnavailableError: no broker answered in time.
        PreflightError: the broker refused.
        OperationError: the broker failed to answer.
    """
    deadline = time.monotonic() + timeout_s
    with status_reader(bootstrap_servers, client_settings) as reader:
        try:
            begin, end = _recent(reader.consumer, recent_s, deadline)
            newest, key = None, application_id.encode()
            for message in reader.read({STATUS_PARTITION: begin}, {STATUS_PARTITION: end}, timeout_s=_left(deadline)):
                if message.key() == key:
                    newest = _newer(newest, message.value())
            return newest
        except KafkaException as error:
            cause = kafka_error(error)
            if cause.code() in _MISSING:
                return None
            raise translate(
                cause, doing=f"reading topic {STATUS_TOPIC}", bootstrap_servers=bootstrap_servers
            ) from error


def _recent(consumer: Consumer, recent_s: float, deadline: float) -> tuple[int, int]:
    """Returns the first offset of the recent records, and the end of the log."""
    since_ms = int((time.time() - recent_s) * 1000)
    (first,) = consumer.offsets_for_times([TopicPartition(STATUS_TOPIC, 0, since_ms)], timeout=_left(deadline))
    if first.error is not None:
        raise KafkaException(first.error)
    _, end = consumer.get_watermark_offsets(TopicPartition(STATUS_TOPIC, 0), timeout=_left(deadline), cached=False)
    return (first.offset if first.offset >= 0 else end), end


def _newer(newest: DriverRecord | None, value: bytes | None) -> DriverRecord | None:
    """Returns the newest driver after a further record of the application; a tombstone discards the earlier ones."""
    if value is None:
        return None
    found = _record(value)
    return newest if found is None or (newest is not None and found.epoch < newest.epoch) else found


def _record(value: bytes) -> DriverRecord | None:
    """Returns the driver in a status record; ``None`` where the record is no driver's status."""
    try:
        fields: Any = orjson.loads(value)
        driver = fields.get("driver") or {}
        return DriverRecord(
            epoch=int(fields["driver_epoch"]),
            run=str(fields.get("run_id", "")),
            host=str(driver.get("host", "")),
            pid=int(driver.get("pid", 0)),
            started_at=float(fields.get("started_at") or 0.0),
        )
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        return None


def _left(deadline: float) -> float:
    return max(0.05, deadline - time.monotonic())
