from __future__ import annotations

import pytest

from millrace.driver.restarts import RestartHistory, RestartPolicy, is_broker_away, next_restart, permanent_cause
from millrace.errors import (
    BrokerUnavailableError,
    InvalidTimestampError,
    OffsetsMovedError,
    OpenTransactionError,
    ProcessingError,
    RecordRefusedError,
    RecordTooLargeError,
    StateDirectoryLockedError,
    StateError,
    TaskMigratedError,
    TopicRefusedError,
)

POLICY = RestartPolicy(initial_s=1.0, multiplier=2.0, limit_s=5.0, max_attempts=4)


def waits_of_deaths(batches: list[int]) -> list[float | None]:
    history, waits = RestartHistory(), []
    for count in batches:
        restart = next_restart(history, count, POLICY)
        waits.append(restart.wait_s if restart else None)
        history = restart.history if restart else history
    return waits


def test_waits_double_up_to_the_limit_and_end_after_the_last_attempt() -> None:
    assert waits_of_deaths([0, 0, 0, 0, 0]) == [1.0, 2.0, 4.0, 5.0, None]


def test_a_finished_batch_resets_the_waits() -> None:
    assert waits_of_deaths([0, 0, 0, 1, 1]) == [1.0, 2.0, 4.0, 1.0, 2.0]


def test_without_attempts_the_first_death_is_the_last() -> None:
    assert next_restart(RestartHistory(), 3, RestartPolicy(max_attempts=1)) is not None
    assert next_restart(RestartHistory(), 0, RestartPolicy(max_attempts=0)) is None


@pytest.mark.parametrize("error", [StateError("x"), ProcessingError("x"), OffsetsMovedError("x")])
def test_what_a_restart_would_repeat_is_found_in_the_chain_of_causes(error: Exception) -> None:
    outer = RuntimeError("query terminated")
    outer.__cause__ = ValueError("callback")
    outer.__cause__.__context__ = error
    assert permanent_cause(outer) is error


@pytest.mark.parametrize(
    "error", [TaskMigratedError("x"), StateDirectoryLockedError("x"), BrokerUnavailableError("x"), OSError(), None]
)
def test_what_may_pass_is_not_permanent(error: Exception | None) -> None:
    assert permanent_cause(error) is None


@pytest.mark.parametrize("kind", [RecordRefusedError, RecordTooLargeError, InvalidTimestampError, TopicRefusedError])
def test_what_the_broker_refuses_for_good_is_permanent(kind: type[RecordRefusedError]) -> None:
    """Case E16: also where an error of Spark's has it as its cause."""
    error = kind("x")
    outer = RuntimeError("the query failed")
    outer.__cause__ = error
    assert permanent_cause(outer) is error


def test_restarts_for_want_of_a_broker_have_no_end_and_use_up_no_attempt() -> None:
    history = RestartHistory(attempts=POLICY.max_attempts - 1)
    for _ in range(20):
        restart = next_restart(history, 0, POLICY, broker_is_away=True)
        assert restart is not None
        assert restart.wait_s == POLICY.initial_s, "a broker that is back is found at once"
        history = restart.history
    assert next_restart(history, 0, POLICY) is not None, "the last attempt is left for what else fails"


def test_that_no_broker_answered_is_found_in_the_chain_of_causes() -> None:
    outer = RuntimeError("query terminated")
    assert not is_broker_away(outer)
    outer.__cause__ = BrokerUnavailableError("x")
    assert is_broker_away(outer)
    assert not is_broker_away(None)


def test_what_was_only_handled_is_no_cause() -> None:
    with pytest.raises(OpenTransactionError) as raised:
        _fail_with_a_broker_away(OpenTransactionError("a transaction stays open"))
    assert isinstance(raised.value.__context__, BrokerUnavailableError)
    assert not is_broker_away(raised.value), "it has its attempts as any other"


def _fail_with_a_broker_away(error: Exception) -> None:
    try:
        raise BrokerUnavailableError("x")
    except BrokerUnavailableError:
        raise error from None


def test_a_circle_of_causes_ends() -> None:
    one, two = ValueError(), ValueError()
    one.__cause__, two.__cause__ = two, one
    assert not is_broker_away(one)
    assert permanent_cause(one) is None
