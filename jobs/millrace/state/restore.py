"""Replaying a changelog into a store, to exactly the offset that a commit recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from millrace.errors import StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.kafka.offsets import End, begin_offsets, end_offsets
from millrace.state.task_state import TaskState

BATCH_RECORDS = 20_000
REQUEST_TIMEOUT_S = 30.0
_POLL_S = 1.0
_CONNECTION_PREFIXES = ("bootstrap.", "security.", "sasl.", "ssl.", "reconnect.", "socket.", "client.")

_CONSUMER_SETTINGS: Mapping[str, Any] = {
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
}


@dataclass(frozen=True, kw_only=True)
class RestoreProgress:
    """How far the restoration of one store is.

    Args:
        store: name of the store.
        topic: its changelog topic.
        partition: the partition, that of the task.
        records: records applied so far.
        position: next offset to read.
        remaining: offsets up to the end; at least the records that are still to come.
        records_per_s: rate since the start of this restoration.
        newest_timestamp: largest timestamp of the records applied so far, milliseconds; -1 before the first.
    """

    store: str
    topic: str
    partition: int
    records: int
    position: int
    remaining: int
    records_per_s: float
    newest_timestamp: int = -1

    @property
    def eta_s(self) -> float | None:
        """Seconds until the end at this rate, ``None`` while there is no rate."""
        return self.remaining / self.records_per_s if self.records_per_s else None


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
        connecting = {key: value for key, value in (settings or {}).items() if key.startswith(_CONNECTION_PREFIXES)}
        self._admin = KafkaAdmin(bootstrap_servers, settings=connecting, timeout_s=REQUEST_TIMEOUT_S)
        self._consumer = Consumer({**connection, **_CONSUMER_SETTINGS})

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
        """The next records and events: one wait for the first, none for those behind it."""
        first = self._consumer.poll(_POLL_S)
        if first is None:
            return []
        return [first, *self._consumer.consume(BATCH_RECORDS - 1, timeout=0)]

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def restore(
    state: TaskState,
    store: str,
    topic: str,
    partition: int,
    *,
    from_offset: int | None,
    to_offset: int,
    bootstrap_servers: str,
    settings: Mapping[str, str] | None = None,
    on_progress: Callable[[RestoreProgress], None] | None = None,
    stall_timeout_s: float = 90.0,
    reader: ChangelogReader | None = None,
) -> RestoreProgress:
    """Replay ``[from_offset, to_offset)`` of a changelog into a store.

    The store's position in the database moves only with the caller's next commit, so a crash on the way starts over
    from the old position, which changes nothing that was already applied.

    Args:
        state: the task's state, with nothing uncommitted in the store.
        store: name of the store.
        topic: the changelog topic (or the source topic that serves as one).
        partition: the task's partition.
        from_offset: first offset that the store does not contain; ``None`` for a whole restoration of an empty store,
            from wherever the log begins.
        to_offset: end offset that the commit recorded. Markers count, so the last record may lie well before it.
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user, without prefix.
        on_progress: called after each batch, and once at the end.
        stall_timeout_s: longest time without progress, for example while another producer's transaction is open.
        reader: where records come from instead of the broker.

    Returns:
        the progress at the end: ``position`` is at least ``to_offset``, ``remaining`` is 0.

    Raises:
        StateError: the log is shorter than ``to_offset`` or begins after ``from_offset`` (also when that happens
            while it is read: wipe the store and restore it whole), the store is ahead of ``to_offset``, the topic is
            missing, or nothing came for ``stall_timeout_s``.
        BrokerUnavailableError: no broker answers.
    """
    where = f"changelog {topic}, partition {partition}, of store {store}"
    source = reader or BrokerChangelogReader(topic, partition, bootstrap_servers=bootstrap_servers, settings=settings)
    with _closing(source):
        log_start, log_end = source.log_range()
        first = log_start if from_offset is None else from_offset
        if log_end < to_offset:
            raise StateError(
                f"The {where} ends at offset {log_end}, but offset {to_offset} was committed: records are lost.",
                remedy="find out who truncated or recreated the topic; restore a savepoint or reset the application",
            )
        if first < log_start:
            raise StateError(
                f"The {where} begins at offset {log_start}, the store is at offset {first}: records are gone.",
                remedy="wipe the store and restore it whole",
            )
        if first > to_offset and from_offset is not None:
            raise StateError(
                f"The store {store} is at offset {first} of {topic}, partition {partition}, ahead of the committed "
                f"offset {to_offset}.",
                remedy="wipe the store and restore it whole",
            )
        replay = _Replay(state, store, topic, partition, position=first, end=to_offset, on_progress=on_progress)
        if first < to_offset:
            source.start(first)
        deadline = time.monotonic() + stall_timeout_s
        while replay.position < to_offset:
            before = replay.position
            try:
                replay.apply(source.read())
            except KafkaException as exception:
                raise _reading_failed(kafka_error(exception), where, replay.position, bootstrap_servers) from exception
            if replay.position > before:
                deadline = time.monotonic() + stall_timeout_s
            elif time.monotonic() > deadline:
                raise StateError(
                    f"The {where} gave nothing for {stall_timeout_s:g} s at offset {replay.position}; offset "
                    f"{to_offset} was committed.",
                    remedy="look for a transaction that hangs (kafka-transactions.sh find-hanging), or a broker that "
                    "does not answer",
                )
        return replay.progress()


@contextmanager
def _closing(reader: ChangelogReader) -> Iterator[None]:
    try:
        yield
    finally:
        reader.close()


class _Replay:
    """The position of one restoration and what was applied."""

    def __init__(
        self,
        state: TaskState,
        store: str,
        topic: str,
        partition: int,
        *,
        position: int,
        end: int,
        on_progress: Callable[[RestoreProgress], None] | None,
    ) -> None:
        self.position = position
        self._state = state
        self._store = store
        self._topic = topic
        self._partition = partition
        self._end = end
        self._on_progress = on_progress
        self._records = 0
        self._newest_timestamp = -1
        self._started = time.monotonic()

    def apply(self, messages: Sequence[Message]) -> None:
        """Apply records before the end and move the position, by events too."""
        if not messages:
            return
        keys: list[bytes] = []
        values: list[bytes | None] = []
        timestamps: list[int] = []
        headers: list[list[tuple[str, bytes | None]] | None] | None = (
            [] if self._state.restores_headers(self._store) else None
        )
        position = self.position
        for message in messages:
            error = message.error()
            if error is None:
                offset = cast(int, message.offset())
                if offset >= self._end:
                    # Whatever lies between the last record and this one was a marker or aborted.
                    position = self._end
                    break
                position = offset + 1
                key = message.key()
                # A source topic that serves as the changelog may have records without a key; no store has those.
                if key is not None:
                    keys.append(key)
                    values.append(message.value())
                    timestamps.append(message.timestamp()[1])
                    if headers is not None:
                        headers.append(cast(list[tuple[str, bytes | None]] | None, message.headers()))
            elif error.code() == KafkaError._PARTITION_EOF:
                position = max(position, cast(int, message.offset()))
            else:
                raise KafkaException(error)
        if keys:
            self._state.restore_batch(self._store, keys, values, np.array(timestamps, dtype=np.int64), headers)
            self._newest_timestamp = max(self._newest_timestamp, *timestamps)
        self._records += len(keys)
        self.position = position
        if self._on_progress is not None:
            self._on_progress(self.progress())

    def progress(self) -> RestoreProgress:
        """The progress now."""
        elapsed = time.monotonic() - self._started
        return RestoreProgress(
            store=self._store,
            topic=self._topic,
            partition=self._partition,
            records=self._records,
            position=self.position,
            remaining=max(self._end - self.position, 0),
            records_per_s=self._records / elapsed if elapsed > 0 else 0.0,
            newest_timestamp=self._newest_timestamp,
        )


def _reading_failed(error: KafkaError, where: str, position: int, bootstrap_servers: str) -> Exception:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return StateError(
            f"The {where} lost offset {position} while it was read: {error.str()}.",
            remedy="wipe the store and restore it whole",
        )
    return translate(error, doing=f"reading the {where}", bootstrap_servers=bootstrap_servers)
