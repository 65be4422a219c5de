"""The restarts of a failed query: exponential backoff that progress resets, and a limit of attempts. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from millrace.errors import (
    BrokerUnavailableError,
    ConfigurationError,
    DriverFencedError,
    OffsetOutOfRangeError,
    OffsetsMovedError,
    ProcessingError,
    RecordRefusedError,
    SerializationError,
    StateDirectoryLockedError,
    StateError,
    TopologyError,
    UnknownTopicError,
)

NEVER_RETRIED = (
    ConfigurationError,
    DriverFencedError,
    OffsetOutOfRangeError,
    OffsetsMovedError,
    ProcessingError,
    RecordRefusedError,
    SerializationError,
    StateError,
    TopologyError,
    UnknownTopicError,
)
"""Failures that the same input and state would only repeat."""


@dataclass(frozen=True, kw_only=True)
class RestartPolicy:
    """The policy of restarts: the backoff, and the limit of attempts.

    Args:
        initial_s: wait before the first restart, seconds.
        multiplier: each further wait is that many times the one before.
        limit_s: longest wait, seconds.
        max_attempts: restarts without progress before giving up; those for want of a broker do not count.
    """

    initial_s: float = 1.0
    multiplier: float = 2.0
    limit_s: float = 60.0
    max_attempts: int = 5


@dataclass(frozen=True, kw_only=True)
class RestartHistory:
    """The history of a query's restarts.

    Args:
        attempts: restarts since the last progress.
        batches: the query's finished batches when it last died.
    """

    attempts: int = 0
    batches: int = 0


@dataclass(frozen=True, kw_only=True)
class Restart:
    """A planned restart of a failed query, after ``wait_s`` seconds."""

    wait_s: float
    history: RestartHistory


def next_restart(
    history: RestartHistory, batches: int, policy: RestartPolicy, *, broker_is_away: bool = False
) -> Restart | None:
    """Returns the restart of a query that has just failed.

    Args:
        history: as of its death before, or a new one.
        batches: batches the query has finished since the driver started; more than at its last death is progress.
        policy: waits and limit.
        broker_is_away: whether it failed since no broker answered: it is started again until one does, however often,
            as clients of Kafka go on asking.

    Returns:
        When to start it again, or ``None``: the attempts without progress are used up.
    """
    attempts = 0 if batches > history.batches else history.attempts
    if broker_is_away:
        return Restart(wait_s=policy.initial_s, history=RestartHistory(attempts=attempts, batches=batches))
    if attempts >= policy.max_attempts:
        return None
    wait_s = min(policy.limit_s, policy.initial_s * policy.multiplier**attempts)
    return Restart(wait_s=wait_s, history=RestartHistory(attempts=attempts + 1, batches=batches))


def permanent_cause(error: BaseException | None) -> BaseException | None:
    """Returns the first error in the chain of causes that a restart would only repeat; ``None`` if there is none."""
    return next(
        (
            each
            for each in _chain(error)
            if isinstance(each, NEVER_RETRIED) and not isinstance(each, StateDirectoryLockedError)
        ),
        None,
    )


def is_broker_away(error: BaseException | None) -> bool:
    """Returns whether the chain of causes says that no broker answered."""
    return any(isinstance(each, BrokerUnavailableError) for each in _chain(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        # `raise ... from None` says that what was handled is not the cause.
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
