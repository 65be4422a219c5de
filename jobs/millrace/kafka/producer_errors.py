"""The kinds of errors of a transactional producer, and the order in which they are distinguished."""

from __future__ import annotations

from enum import StrEnum

from confluent_kafka import KafkaError

_FENCED = frozenset({
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
})  # fmt: skip


class ProducerErrorKind(StrEnum):
    """The kind of a producer's error, by the reaction that it requires.

    Source: the error handling that KIP-360 and librdkafka's introduction to the transactional producer ask for.
    """

    FENCED = "fenced"
    """Another producer took the transactional id over: this one is discarded, nothing more is called."""
    FATAL = "fatal"
    """The producer is discarded; a new one may try again."""
    ABORT = "abort"
    """The transaction is aborted and the same input is processed again."""
    RETRY = "retry"
    """The same call again, after a wait."""


def kind_of(error: KafkaError) -> ProducerErrorKind:
    """Returns the kind of an error: fatal is checked first, then abort, then retry; anything else is fatal."""
    if error.fatal() or error.code() in _FENCED:
        return ProducerErrorKind.FENCED if error.code() in _FENCED else ProducerErrorKind.FATAL
    if error.txn_requires_abort():
        return ProducerErrorKind.ABORT
    if error.retriable():
        return ProducerErrorKind.RETRY
    return ProducerErrorKind.FATAL
