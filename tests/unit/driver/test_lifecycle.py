from __future__ import annotations

import threading

import pytest

from millrace.driver.lifecycle import TRANSITIONS, ApplicationState, Lifecycle
from millrace.errors import OperationError

S = ApplicationState


def test_the_moves_are_those_of_kafka_streams() -> None:
    assert {str(old): sorted(new) for old, new in TRANSITIONS.items()} == {
        "CREATED": ["PENDING_SHUTDOWN", "REBALANCING"],
        "REBALANCING": ["PENDING_ERROR", "PENDING_SHUTDOWN", "RUNNING"],
        "RUNNING": ["PENDING_ERROR", "PENDING_SHUTDOWN", "REBALANCING"],
        "PENDING_SHUTDOWN": ["NOT_RUNNING"],
        "NOT_RUNNING": [],
        "PENDING_ERROR": ["ERROR"],
        "ERROR": [],
    }


def test_every_state_says_what_it_means() -> None:
    assert all(state.meaning for state in S)


def test_a_move_says_that_the_state_changed() -> None:
    lifecycle = Lifecycle()
    states = []
    for state in (S.REBALANCING, S.RUNNING):
        assert lifecycle.move_to(state)
        states.append(lifecycle.state)
    assert states == [S.REBALANCING, S.RUNNING]


def test_a_move_to_the_same_state_changes_nothing() -> None:
    lifecycle = Lifecycle()
    assert not lifecycle.move_to(S.CREATED)
    assert lifecycle.state is S.CREATED


def test_an_impossible_move_is_refused_and_names_the_possible_ones() -> None:
    lifecycle = Lifecycle()
    with pytest.raises(OperationError, match=r"cannot become RUNNING; allowed: PENDING_SHUTDOWN, REBALANCING"):
        lifecycle.move_to(S.RUNNING)
    assert lifecycle.state is S.CREATED


def test_a_waiting_thread_sees_a_state_that_another_thread_moves_to() -> None:
    lifecycle = Lifecycle()
    thread = threading.Thread(target=lifecycle.move_to, args=(S.REBALANCING,))
    thread.start()
    assert lifecycle.wait_for(S.REBALANCING, timeout_s=60)
    assert not lifecycle.wait_for(S.ERROR, timeout_s=0.01)
    thread.join()
