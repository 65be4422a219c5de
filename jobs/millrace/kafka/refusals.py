"""The broker's refusals of records that it will never accept, known only from their delivery reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaError

from millrace.errors import (
    InvalidTimestampError,
    MillraceError,
    RecordRefusedError,
    RecordTooLargeError,
    TransactionAbortedError,
)
from millrace.kafka.record_limits import Headers, Refusal

RECORD_REFUSALS = frozenset({
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
})  # fmt: skip
"""Codes for one refused record, or for a whole batch of the client with one such record."""

BYSTANDER = KafkaError._INVALID_DIFFERENT_RECORD
"""The code for a record in the same batch of the client as a refused one."""

TOPIC_REFUSALS = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
})  # fmt: skip
"""Codes for the refusal of all records of a topic, which the answer does not name."""

RecordIdentity = tuple[str, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
"""Topic, key, value, timestamp and headers. The broker checks nothing else, so equal records are refused alike."""


def is_permanent_refusal(error: KafkaError) -> bool:
    """Returns whether the broker would refuse the same records again."""
    return error.code() in RECORD_REFUSALS or error.code() in TOPIC_REFUSALS or error.code() == BYSTANDER


class RecordsRefusedError(TransactionAbortedError):
    """The error of a transaction that was aborted because the broker will never accept some of its records.

    Args:
        message: what the broker said.
        remedy: what follows.
        cause: the error where it turns out that no output is to blame.
        of_topic: whether everything for a topic is refused.
        records: those that are known, and what the broker said of each; none unless every record was reported.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        cause: MillraceError | None = None,
        of_topic: bool = False,
        records: dict[RecordIdentity, KafkaError] | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.cause = cause
        self.of_topic = of_topic
        self.records = records or {}

    def __reduce__(self) -> tuple[object, ...]:
        # What else it has is for the task that runs the batch again, in this process.
        return (TransactionAbortedError, (self.message,))


def identities(
    topic: str,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[Headers | None] | None,
    timestamps: Sequence[int],
) -> Iterator[RecordIdentity]:
    """Yields the identity of each record of a batch; a delivery report of a refused one does not have all of it."""
    for row, (key, value, timestamp) in enumerate(zip(keys, values, timestamps, strict=True)):
        own = tuple((headers[row] or ()) if headers is not None else ())
        yield topic, key, value, timestamp, own


@dataclass
class KnownRefusals:
    """The records of a batch that the broker has refused, kept for the next attempt at the batch.

    Args:
        errors: why, by record.
    """

    errors: dict[RecordIdentity, KafkaError] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.errors)

    def add(self, records: dict[RecordIdentity, KafkaError]) -> bool:
        """Adds refused records; returns whether any of them was not known before."""
        known = len(self.errors)
        self.errors.update(records)
        return len(self.errors) > known

    def among(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None,
        timestamps: npt.NDArray[np.int64],
    ) -> list[Refusal]:
        """Returns the known refusals among the records, by their rows."""
        found: list[Refusal] = []
        for row, identity in enumerate(identities(topic, keys, values, headers, timestamps.tolist())):
            error = self.errors.get(identity)
            if error is not None:
                found.append((row, _refusal(row, identity, error)))
        return found


def _refusal(row: int, identity: RecordIdentity, error: KafkaError) -> RecordRefusedError:
    topic, key, _, timestamp, _ = identity
    kind = {
        KafkaError.INVALID_TIMESTAMP: InvalidTimestampError,
        KafkaError.MSG_SIZE_TOO_LARGE: RecordTooLargeError,
        KafkaError.RECORD_LIST_TOO_LARGE: RecordTooLargeError,
    }.get(error.code(), RecordRefusedError)
    return kind(
        f"The broker refuses record {row} of the batch for topic {topic} (key {(key or b'')[:64]!r}, timestamp "
        f"{timestamp}): {error.name()}: {error.str()}.",
        remedy=f"see the settings of {topic} (message.timestamp.*, max.message.bytes, cleanup.policy) and what else "
        "its broker checks, and correct them or the record",
    )
