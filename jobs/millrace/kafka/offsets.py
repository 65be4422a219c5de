"""Offsets of logs and groups, read with a time limit, and the lag between them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
)
from confluent_kafka import (
    TopicPartition as ClientTopicPartition,
)
from confluent_kafka.admin import OffsetSpec
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_exponential_jitter

from millrace.errors import BrokerUnavailableError, OpenTransactionError
from millrace.kafka.admin import COORDINATOR_MOVES, KafkaAdmin
from millrace.kafka.clients import base_settings, kafka_error
from millrace.topology.topic_partition import TopicPartition

_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]


_PARTITIONS_OF_A_REQUEST = 5_000
_LEADER_POLL_S = 0.1
_WITHOUT_LEADER = frozenset({
    KafkaError._NOENT,
    # It remembers fewer partitions, of a topic that has got more or was created again.
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    # A leader that is new does not know yet how far the log is committed.
    KafkaError.OFFSET_NOT_AVAILABLE,
    # What this client remembers of the leader is from before the broker's restart.
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
})  # fmt: skip


class End(Enum):
    """The end of a log that is meant: high watermark or last stable offset."""

    HIGH_WATERMARK = IsolationLevel.READ_UNCOMMITTED
    """After the last replicated record, records of open transactions included."""
    LAST_STABLE = IsolationLevel.READ_COMMITTED
    """Before the first record of the oldest open transaction; where none is open, the high watermark."""


@dataclass(frozen=True)
class CommittedOffset:
    """The offset that a group has committed for a partition.

    Args:
        offset: next offset to read.
        metadata: the text beside it, empty where there is none; more may follow what another client has written.
    """

    offset: int
    metadata: str = ""


def committed_offsets(
    admin: KafkaAdmin, group: str, partitions: Collection[TopicPartition] | None = None, *, stable: bool = True
) -> dict[TopicPartition, CommittedOffset]:
    """Returns the committed offsets of a group.

    Args:
        admin: the cluster.
        group: group id; an unknown one has no offsets.
        partitions: which; default: every partition of the cluster, so that whatever the group has committed is found.
        stable: wait, within the admin's time limit, while a transaction that carries offsets of the group is open.

    Returns:
        The partitions that have one; those without are left out, no sentinel stands for them.

    Raises:
        OpenTransactionError: a transaction with offsets stayed open for longer than the time limit.
        BrokerUnavailableError, PreflightError: see :class:`KafkaAdmin`.
    """
    wanted = admin.all_partitions() if partitions is None else sorted(partitions)
    try:
        return _committed_as_consumer(admin, group, wanted, stable=stable)
    except BrokerUnavailableError:
        if not stable:
            raise
        # A broker that answers this question only holds the offsets back.
        _committed_as_consumer(admin, group, wanted, stable=False)
        raise _transaction_stays_open(admin, group) from None


def _committed_as_consumer(
    admin: KafkaAdmin, group: str, partitions: Sequence[TopicPartition], *, stable: bool
) -> dict[TopicPartition, CommittedOffset]:
    """Returns the committed offsets, asked for by a consumer that never joins the group.

    The admin client's request for the same may never be answered again, or end the process, once the broker has been
    started again (librdkafka issue 5040).
    """
    if not partitions:
        return {}
    consumer = Consumer({
        **base_settings(admin.bootstrap_servers, admin.settings),
        "group.id": group,
        "enable.auto.commit": False,
        # This decides whether the answer waits for open transactions.
        "isolation.level": "read_committed" if stable else "read_uncommitted",
    })  # fmt: skip
    try:
        found: dict[TopicPartition, CommittedOffset] = {}
        for first in range(0, len(partitions), _PARTITIONS_OF_A_REQUEST):
            part = partitions[first : first + _PARTITIONS_OF_A_REQUEST]
            found |= ask_committed(consumer, part, timeout_s=admin.timeout_s)
        return found
    except KafkaException as error:
        # Where the group may not be described the request is never sent; the consumer has the reason.
        event = consumer.poll(0)
        refusal = event.error() if event is not None else None
        raise admin.translated(refusal or kafka_error(error), f"reading committed offsets of {group}") from error
    finally:
        consumer.close()


def ask_committed(
    consumer: Consumer, partitions: Collection[TopicPartition], *, timeout_s: float
) -> dict[TopicPartition, CommittedOffset]:
    """Returns the committed offsets of a consumer's group; asks again while the group's coordinator loads or moves.

    Args:
        consumer: need not have joined the group. Its isolation level decides whether the answer waits for open
            transactions.
        partitions: which; those without an offset are left out.
        timeout_s: longest time, seconds.

    Raises:
        confluent_kafka.KafkaException: the last error of the broker or the client.
    """
    attempts = Retrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, KafkaException) and kafka_error(error).code() in COORDINATOR_MOVES
        ),
        stop=stop_after_delay(timeout_s),
        wait=wait_exponential_jitter(multiplier=0.02, max=0.5, jitter=0.02),
        reraise=True,
    )

    def ask() -> dict[TopicPartition, CommittedOffset]:
        committed: dict[TopicPartition, CommittedOffset] = {}
        for position in consumer.committed(
            [ClientTopicPartition(*topic_partition) for topic_partition in sorted(partitions)], timeout=timeout_s
        ):
            if position.error is not None:
                raise KafkaException(position.error)
            if position.offset >= 0:
                committed[position.topic, position.partition] = CommittedOffset(position.offset, _metadata(position))
        return committed

    return attempts(ask)


def _metadata(position: ClientTopicPartition) -> str:
    """Returns the text beside an offset.

    librdkafka keeps what another client has committed without a zero byte at its end, and confluent-kafka reads on to
    the next one: what follows the text is whatever follows it in memory.
    """
    try:
        return position.metadata or ""
    except UnicodeDecodeError as error:
        return error.object[: error.start].decode()


def _transaction_stays_open(admin: KafkaAdmin, group: str) -> OpenTransactionError:
    return OpenTransactionError(
        f"A transaction with offsets of group {group} was still open after {admin.timeout_s:g} s.",
        remedy="wait until it is committed or timed out; fencing its transactional id ends it at once",
    )


def begin_offsets(admin: KafkaAdmin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Returns the first offsets that the logs still contain.

    Raises:
        OperationError: a partition does not exist.
    """
    return _list_offsets(admin, dict.fromkeys(partitions, _EARLIEST), End.HIGH_WATERMARK)


def end_offsets(
    admin: KafkaAdmin, partitions: Collection[TopicPartition], end: End = End.LAST_STABLE
) -> dict[TopicPartition, int]:
    """Returns the ends of logs: the offset of the next record, or the one up to which a read_committed reader may read.

    Raises:
        OperationError: a partition does not exist.
    """
    return _list_offsets(admin, dict.fromkeys(partitions, _LATEST), end)


def offsets_for_times(admin: KafkaAdmin, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    """Returns the first offsets whose records have a timestamp at or after a given time.

    Args:
        admin: the cluster.
        times: milliseconds since 1970 by partition.

    Returns:
        ``None`` where no such record exists. A transaction's marker counts as a record, with the time of its commit.
    """
    found = _list_offsets(
        admin,
        {topic_partition: OffsetSpec.for_timestamp(time) for topic_partition, time in times.items()},
        End.HIGH_WATERMARK,
    )
    return {topic_partition: None if offset < 0 else offset for topic_partition, offset in found.items()}


def lag(committed: CommittedOffset | int | None, end: int | None) -> int | None:
    """Returns the number of records (and markers) from a committed offset to the end; ``None`` where either is unknown.

    Read the committed offset before the end: the other way round a fast reader seems to be past the end.
    """
    if committed is None or end is None:
        return None
    return max(0, end - (committed if isinstance(committed, int) else committed.offset))


def _list_offsets(admin: KafkaAdmin, specs: Mapping[TopicPartition, Any], end: End) -> dict[TopicPartition, int]:
    """Returns the offsets, asking until every partition has answered: one that has no leader yet does not answer."""
    found: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + admin.timeout_s
    while len(found) < len(specs):
        futures = admin.client.list_offsets(
            {
                ClientTopicPartition(*topic_partition): spec
                for topic_partition, spec in specs.items()
                if topic_partition not in found
            },
            isolation_level=end.value,
            request_timeout=admin.timeout_s,
        )
        is_last = time.monotonic() >= deadline
        tolerated = frozenset() if is_last else _WITHOUT_LEADER
        for position, future in futures.items():
            answer: Any = admin.result(
                future, doing=f"reading offsets of {position.topic}-{position.partition}", unless=tolerated
            )
            # librdkafka's way to say that the leader that it knew of did not answer: the call itself succeeds.
            is_missing = answer is None or answer.offset == OFFSET_INVALID
            if not is_missing:
                found[position.topic, position.partition] = answer.offset
            elif is_last:
                raise BrokerUnavailableError(
                    f"The leader of {position.topic}-{position.partition} did not answer within {admin.timeout_s:g} s.",
                    remedy="see whether its broker runs",
                )
        if len(found) < len(specs):
            time.sleep(_LEADER_POLL_S)
            _ask_for_leaders(admin)
    return found


def _ask_for_leaders(admin: KafkaAdmin) -> None:
    try:
        admin.client.list_topics(timeout=admin.timeout_s)
    except KafkaException as error:
        raise admin.translated(kafka_error(error), "asking for the leaders of partitions") from error
