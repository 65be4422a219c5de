"""The producer of one task: output records, changelog records and committed offsets in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import structlog
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from tenacity import RetryError, Retrying, retry_if_exception, stop_after_delay, wait_exponential_jitter

from millrace.errors import (
    BrokerUnavailableError,
    MillraceError,
    OperationError,
    TaskMigratedError,
    TransactionAbortedError,
)
from millrace.kafka.clients import base_settings, is_refusal, kafka_error, translate
from millrace.kafka.group_commits import GroupCommitter, group_metadata
from millrace.kafka.produce_loop import (
    DeliveryReport,
    OutgoingRecords,
    ProducerClient,
    QueueStayedFullError,
    produce,
)
from millrace.kafka.producer_errors import ProducerErrorKind, kind_of
from millrace.kafka.record_limits import Headers, RecordLimits, Refusal, TopicLimits
from millrace.kafka.refusals import (
    BYSTANDER,
    RECORD_REFUSALS,
    TOPIC_REFUSALS,
    RecordIdentity,
    RecordsRefusedError,
    identities,
    is_permanent_refusal,
)
from millrace.kafka.timed_calls import NeverReturnedError, TimedCalls
from millrace.metrics import TransactionOutcome

Offsets = Mapping[tuple[str, int], tuple[int, str]]
"""``(topic, partition) -> (next offset to read, metadata text)``."""

OVERDUE_S = 15.0
"""How much longer than its limit a call of the client may take before it is taken for one that never returns, seconds:
adding offsets to a transaction was seen to take 16 s instead of 5."""

_CALL_LIMIT_S = 5.0
_CONNECT_LIMIT_S = 1.0
_FLUSH_POLL_S = 0.5

_ONE_BY_ONE = {"batch.num.messages": "1", "linger.ms": "0"}

_log = structlog.get_logger(__name__)


class TaskProducer:
    """The producer that writes the results of one task's batch, all of them or none.

    With a transactional id, everything between :meth:`begin` and :meth:`commit` becomes visible to read_committed
    readers together with the committed offsets. Without one, records are idempotent and acknowledged by all in-sync
    replicas, and the offsets are committed after all of them: at least once.

    A producer whose :attr:`is_usable` is false is of no more use: nothing more is called on it, a new one takes its
    place. That is so after every error but :class:`~millrace.errors.RecordRefusedError`: a client that lost a record
    goes on with sequence numbers that the broker refuses, so its next transaction would fail as well. Not safe for
    concurrent use.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        transactional_id: ``<application-id>-<sub-topology>_<partition>``; ``None`` for at least once.
        transaction_timeout_ms: how long the broker lets the transaction stay open, milliseconds.
        settings: producer settings of the user (``compression.type``, security, ...), which win over ours.
        topic_limits: what topics take, for the check before a record is handed on; topics that are missing have the
            broker's default size.
        isolates: whether each record is sent and reported by itself, so that a refusal names it. Slow.
        timeout_s: longest time that one call of this class may take, seconds. Adding offsets to a transaction takes up
            to 20 s longer while the group's coordinator is away: librdkafka waits for it (issue 5456), in some cases
            for ever.
        on_transaction_end: called once with the outcome of each transaction. One whose commit got no answer has none:
            the committed offsets tell the next producer. Never called without a transactional id.
        client: makes the client of librdkafka; for tests.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        transactional_id: str | None,
        transaction_timeout_ms: int = 60_000,
        settings: Mapping[str, str] | None = None,
        topic_limits: Mapping[str, TopicLimits] | None = None,
        isolates: bool = False,
        timeout_s: float = 60.0,
        on_transaction_end: Callable[[TransactionOutcome], None] = lambda _: None,
        client: Callable[[dict[str, Any]], ProducerClient] = Producer,
    ) -> None:
        self.transactional_id = transactional_id
        self._bootstrap_servers = bootstrap_servers
        self._transaction_timeout_ms = transaction_timeout_ms
        self._timeout_s = timeout_s
        self._on_transaction_end = on_transaction_end
        self._limits = RecordLimits(topic_limits)
        self._isolates = isolates
        self._settings = producer_settings(
            bootstrap_servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            limits=self._limits,
            overrides={**(settings or {}), **(_ONE_BY_ONE if isolates else {})},
        )
        self._refusal: KafkaError | None = None
        self._client: ProducerClient | None = client({**self._settings, "error_cb": self._on_error})
        self._committer = GroupCommitter(bootstrap_servers, settings)
        self._sent_ends: dict[tuple[str, int], int] = {}
        self._delivery_failure: KafkaError | None = None
        self._refused: dict[RecordIdentity, KafkaError] = {}
        self._begun_at: float | None = None
        self._committing = False
        self._calls = TimedCalls(f"transactions-of-{transactional_id}")

    @property
    def is_usable(self) -> bool:
        """Whether a further transaction may be begun on this producer."""
        return self._client is not None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open: begun by :meth:`begin`, not yet ended by :meth:`commit` or :meth:`abort`."""
        return self._begun_at is not None

    def init(self) -> None:
        """Takes the transactional id over: fences older producers of it and aborts the transaction that they left open.

        Nothing without a transactional id. After a crash inside a transaction, returns when its abort is complete.

        Raises:
            TaskMigratedError: another producer took the id over meanwhile.
            BrokerUnavailableError: no broker answered in time.
        """
        if self.transactional_id is not None:
            client = self._open_client()
            self._connect(client)
            self._call("taking over the transactional id", client.init_transactions)

    def _connect(self, client: ProducerClient) -> None:
        """Waits for a connection: without one, librdkafka asks for the coordinator again only after half a second."""
        topic = next(iter(self._limits.topics), None)
        if topic is None:
            return
        try:
            # The first answer may come over the bootstrap connection, which ends once the brokers are known.
            for _ in range(2):
                client.list_topics(topic, min(_CONNECT_LIMIT_S, self._timeout_s))
        except KafkaException as error:
            # The take-over that follows asks the same broker, with a longer time limit.
            _log.debug("no connection yet", producer=str(self), problem=str(error))

    def begin(self) -> None:
        """Opens a transaction; the broker learns of it from the first record or the offsets.

        Raises:
            OperationError: one is open already.
        """
        client = self._open_client()
        if self.in_transaction:
            raise OperationError(f"{self} has an open transaction.", remedy="commit or abort it first")
        self._sent_ends.clear()
        self._delivery_failure = None
        self._refused = {}
        if self.transactional_id is not None:
            self._call("beginning a transaction", lambda _: client.begin_transaction())
        self._begun_at = time.monotonic()

    def send(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: npt.NDArray[np.int64],
        *,
        partition: int | None = None,
        partitions: npt.NDArray[np.int32] | None = None,
        headers: Sequence[Headers | None] | None = None,
        track: bool = False,
    ) -> None:
        """Hands records to the producer, which sends them in the background.

        Args:
            topic: where to.
            keys: key bytes or ``None``; as many as there are values.
            values: value bytes or ``None`` (a tombstone).
            timestamps: milliseconds, int64, as many as there are values.
            partition: the partition of all of them.
            partitions: the partition of each, int32; -1 lets the producer choose. With neither, murmur2 of the key.
            headers: for each record a list of ``(name, bytes)`` or ``None``.
            track: whether :meth:`sent_end_offset` is to know where they ended up.

        Raises:
            RecordRefusedError: the topic does not take a record; none of this call was handed on.
            TaskMigratedError, TransactionAbortedError, BrokerUnavailableError: see :meth:`commit`.
        """
        client = self._open_client()
        if not self.in_transaction:
            raise OperationError(f"{self} has no open transaction.", remedy="call begin() before send()")
        count = len(values)
        if not count:
            return
        self._limits.check(topic, keys, values, headers, timestamps)
        targets = partitions.tolist() if partitions is not None else -1 if partition is None else partition
        times = timestamps.tolist()
        reports: Sequence[DeliveryReport | None] | DeliveryReport | None
        if self._isolates:
            reports = [partial(self._isolated, one) for one in identities(topic, keys, values, headers, times)]
        else:
            reports = self._reports(targets, count, track=track)
        records = OutgoingRecords(
            topic=topic,
            keys=keys,
            values=values,
            timestamps=times,
            targets=targets,
            headers=headers,
            reports=reports,
        )
        try:
            produce(client, records, queue_limit_s=self._timeout_s)
            client.poll(0)
        except QueueStayedFullError:
            self._abort_or_discard(f"the send queue stayed full for {self._timeout_s:g} s")
        except KafkaException as error:
            self._raise(kafka_error(error), f"sending to {topic}")

    def refused(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None = None,
        timestamps: npt.NDArray[np.int64] | None = None,
    ) -> list[Refusal]:
        """Returns the records that :meth:`send` would refuse, by row, with the error of each."""
        return self._limits.refused(topic, keys, values, headers, timestamps)

    def fits(self, max_message_bytes: int) -> bool:
        """Returns whether this producer's batches and records suit a topic that takes ``max_message_bytes``."""
        return self._limits.smallest <= max_message_bytes <= self._limits.largest

    def add_topic(self, topic: str, limits: TopicLimits) -> None:
        """Adds the limits of a further topic, by which its records are checked; the producer must fit the topic."""
        self._limits = self._limits.with_topic(topic, limits)

    def flush(self) -> None:
        """Waits until every record that was sent is acknowledged.

        Raises:
            TaskMigratedError, TransactionAbortedError, BrokerUnavailableError: see :meth:`commit`.
        """
        client = self._open_client()
        deadline = time.monotonic() + self._timeout_s
        try:
            while left := client.flush(min(_FLUSH_POLL_S, self._timeout_s)):
                self._raise_refusal(client)
                if time.monotonic() >= deadline:
                    break
        except KafkaException as error:
            # A fence that the client has met on its own.
            self._raise(kafka_error(error), "delivering records")
        if self._delivery_failure is not None:
            self._raise(self._delivery_failure, "delivering records")
        if left:
            # The broker does not answer, so it would not answer an abort either: the next producer's init ends it.
            self._discard()
            raise BrokerUnavailableError(
                f"{left} records of {self} were not acknowledged within {self._timeout_s:g} s.",
                remedy="see that the broker at " + self._bootstrap_servers + " is up; the task starts again by itself",
            )

    def _raise_refusal(self, client: ProducerClient) -> None:
        """Raises the error for which the broker refused a record of this transaction; librdkafka reports it when asked.

        Raises:
            confluent_kafka.KafkaException: what has failed.
        """
        if self.transactional_id is None:
            return
        try:
            client.begin_transaction()
        except KafkaException as error:
            # It is open: that is the answer of one which is well.
            if kafka_error(error).code() != KafkaError._STATE:
                raise

    def sent_end_offset(self, topic: str, partition: int) -> int | None:
        """Returns the offset after the last tracked record sent to a partition in this transaction, once it is flushed.

        Returns:
            ``None`` where nothing tracked was sent there.
        """
        return self._sent_ends.get((topic, partition))

    def commit(self, offsets: Offsets, group: str, *, on_offsets_sent: Callable[[], None] | None = None) -> None:
        """Commits the records sent since :meth:`begin` together with offsets of a consumer group.

        A crash before it returns leaves either all or nothing committed; which of them, the group's committed offsets
        tell after :meth:`init` of the next producer.

        Args:
            offsets: for each input partition the next offset to read and the metadata text beside it.
            group: consumer group, which needs no members.
            on_offsets_sent: called between the transaction's two last requests, when the broker has the offsets and
                holds them back from readers.

        Raises:
            TaskMigratedError: another producer took the transactional id over; nothing was committed, and this
                producer is discarded.
            TransactionAbortedError: the transaction was aborted, nothing was committed; the same input is to be
                processed again by a new producer.
            RecordsRefusedError: the same, and the broker will never take some of the records.
            BrokerUnavailableError: no broker answered in time. Whether the commit took place shows in the committed
                offsets after the next :meth:`init`; this producer is discarded.
        """
        client = self._open_client()
        if not self.in_transaction:
            raise OperationError(f"{self} has no open transaction.", remedy="call begin() before commit()")
        self.flush()
        positions = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), (offset, metadata) in sorted(offsets.items())
        ]
        if self.transactional_id is None:
            self._committer.commit(positions, group, timeout_s=self._timeout_s)
        else:
            if positions:
                metadata = group_metadata(group)
                self._call(
                    f"adding offsets of group {group}",
                    lambda limit: client.send_offsets_to_transaction(positions, metadata, limit),
                )
                if on_offsets_sent is not None:
                    on_offsets_sent()
            self._committing = True
            self._call("committing", client.commit_transaction)
        self._end_transaction(TransactionOutcome.COMMITTED)

    def abort(self) -> None:
        """Aborts the open transaction; does nothing when none is open.

        Without a transactional id records that have left already stay; those still waiting are dropped.

        Raises:
            TaskMigratedError: another producer took the transactional id over; what it does is no concern of ours.
            BrokerUnavailableError: no broker answered in time; the broker aborts by its transaction timeout.
        """
        if not self.in_transaction:
            return
        client = self._open_client()
        if self.transactional_id is None:
            client.purge()
            client.flush(_CALL_LIMIT_S)
        else:
            self._call("aborting", client.abort_transaction)
        self._end_transaction(TransactionOutcome.ABORTED)

    def close(self) -> None:
        """Aborts an open transaction and closes the connections. Idempotent.

        A broker that cannot be reached is logged, not raised: it ends the transaction by itself.
        """
        try:
            if self._client is not None:
                self.abort()
        except MillraceError as error:
            _log.warning("producer closed without abort", producer=str(self), error=str(error))
        finally:
            self._discard()

    def __enter__(self) -> TaskProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return f"producer {self.transactional_id or '(not transactional)'}"

    def _open_client(self) -> ProducerClient:
        if self._client is None:
            raise OperationError(f"The {self} was discarded.", remedy="open a new one and call init()")
        return self._client

    def _discard(self, outcome: TransactionOutcome | None = TransactionOutcome.ABORTED) -> None:
        self._client = None
        self._calls.close()
        self._end_transaction(outcome)
        self._committer.close()

    def _end_transaction(self, outcome: TransactionOutcome | None) -> None:
        was_open, self._begun_at, self._committing = self.in_transaction, None, False
        if was_open and outcome is not None and self.transactional_id is not None:
            self._on_transaction_end(outcome)

    def _reports(
        self, targets: list[int] | int, count: int, *, track: bool
    ) -> list[DeliveryReport | None] | DeliveryReport | None:
        if self.transactional_id is None:
            # Without a transaction nothing else would show that a record was lost.
            return self._delivered
        if not track:
            return None
        reports: list[DeliveryReport | None] = [None] * count
        last_rows = (
            [count - 1] if isinstance(targets, int) else {each: row for row, each in enumerate(targets)}.values()
        )
        for row in last_rows:
            reports[row] = self._delivered
        return reports

    def _isolated(self, identity: RecordIdentity, error: KafkaError | None, message: Any) -> None:
        if error is not None and error.code() in RECORD_REFUSALS:
            self._refused[identity] = error
        self._delivered(error, message)

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._delivery_failure = self._delivery_failure or error
            return
        topic_partition = (message.topic(), message.partition())
        self._sent_ends[topic_partition] = max(self._sent_ends.get(topic_partition, 0), message.offset() + 1)

    def _call(self, doing: str, call: Callable[[float], None]) -> None:
        def is_retriable(error: BaseException) -> bool:
            return isinstance(error, KafkaException) and kind_of(kafka_error(error)) is ProducerErrorKind.RETRY

        attempts = Retrying(
            retry=retry_if_exception(is_retriable),
            stop=stop_after_delay(self._timeout_s),
            wait=wait_exponential_jitter(multiplier=0.02, max=1.0, jitter=0.02),
        )
        limit_s = min(_CALL_LIMIT_S, self._timeout_s)
        try:
            attempts(lambda: self._calls.call(partial(call, limit_s), limit_s + OVERDUE_S))
        except NeverReturnedError:
            # Whoever opens the next producer takes the transactional id over from the client that hangs.
            raise self._given_up(
                f"{doing}, and the client library did not return within {limit_s + OVERDUE_S:g} s"
            ) from None
        except RetryError as error:
            last = error.last_attempt.exception()
            assert isinstance(last, KafkaException)
            self._open_client().poll(0)
            given_up = self._given_up(f"{doing} for {self._timeout_s:g} s without success: {kafka_error(last).str()}")
            if self._refusal is not None:
                raise self._translated(self._refusal, doing) from last
            raise given_up from last
        except KafkaException as error:
            self._raise(kafka_error(error), doing)

    def _given_up(self, doing: str) -> BrokerUnavailableError:
        """Discards the client, and returns the error that says what it had no answer to."""
        self._discard(None if self._committing else TransactionOutcome.ABORTED)
        return BrokerUnavailableError(
            f"{self} was {doing}.",
            remedy="see that the broker at " + self._bootstrap_servers + " is up; the task starts again by itself",
        )

    def _raise(self, error: KafkaError, doing: str) -> NoReturn:
        kind = kind_of(error)
        if kind is ProducerErrorKind.FENCED:
            raise self._fenced(error, doing)
        if kind is ProducerErrorKind.FATAL and error.fatal():
            self._discard()
            raise self._translated(error, doing)
        if is_permanent_refusal(error):
            self._abandon()
            cause = self._translated(error, doing) if error.code() != BYSTANDER else None
            raise RecordsRefusedError(
                f"The broker refuses records of {self}: {error.name()}: {error.str()}.",
                remedy="the same input is processed again",
                cause=cause,
                of_topic=error.code() in TOPIC_REFUSALS,
                records=self._refused,
            )
        if is_refusal(error):
            self._abandon()
            raise self._translated(error, doing)
        self._abort_or_discard(f"{doing} failed: {error.name()}: {error.str()}")

    def _translated(self, error: KafkaError, doing: str) -> MillraceError:
        return translate(error, doing=f"{doing} ({self})", bootstrap_servers=self._bootstrap_servers)

    def _on_error(self, error: KafkaError) -> None:
        # A login that is refused shows as requests without an answer; the reason comes by this callback.
        if is_refusal(error):
            self._refusal = error

    def _fenced(self, error: KafkaError, doing: str) -> MillraceError:
        begun_at = self._begun_at
        if begun_at is not None and (time.monotonic() - begun_at) * 1000 >= self._transaction_timeout_ms:
            # The broker fences a transaction that it timed out in the same way as one that was taken over.
            self._discard(TransactionOutcome.ABORTED)
            return TransactionAbortedError(
                f"The transaction of {self} was open for longer than {self._transaction_timeout_ms} ms, so the broker "
                f"aborted it ({doing}: {error.name()}).",
                remedy="raise transaction.timeout.ms or lower max.batch.records",
            )
        self._discard(TransactionOutcome.FENCED)
        return TaskMigratedError(
            f"A newer attempt took over {self} ({doing}: {error.name()}).",
            remedy="none needed: the newer attempt goes on",
        )

    def _abort_or_discard(self, reason: str) -> NoReturn:
        self._abandon()
        happened = f"{self}" if self.transactional_id is None else f"The transaction of {self} was aborted"
        raise TransactionAbortedError(f"{happened}: {reason}.", remedy="the same input is processed again")

    def _abandon(self) -> None:
        if self.transactional_id is not None:
            try:
                self.abort()
            except OperationError as error:
                # Where its first partition was refused, the broker has no transaction that could be ended. Whatever it
                # has is ended as the next producer of this transactional id begins.
                _log.warning("a transaction was left to its successor", producer=str(self), reason=error.message)
        self._discard()


def producer_settings(
    bootstrap_servers: str,
    *,
    transactional_id: str | None,
    transaction_timeout_ms: int,
    limits: RecordLimits,
    overrides: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Returns the settings of librdkafka's producer for large batches in short transactions.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        transactional_id: ``None`` makes a merely idempotent producer.
        transaction_timeout_ms: milliseconds.
        limits: sizes that the topics take; batches stay below the least, records up to the greatest pass.
        overrides: settings of the user, which win.
    """
    settings = base_settings(bootstrap_servers, overrides)
    settings.update({
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "batch.size": min(1_000_000, limits.smallest),
        "batch.num.messages": 100_000,
        "message.max.bytes": limits.largest,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1_048_576,
        "linger.ms": 5,
    })  # fmt: skip
    if transactional_id is not None:
        settings.update({"transactional.id": transactional_id, "transaction.timeout.ms": transaction_timeout_ms})
    settings.update(overrides or {})
    return settings
