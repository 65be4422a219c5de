"""Case A08."""

from __future__ import annotations

import pytest

from millrace.ops.launchers import DriverVerdict, verdict


@pytest.mark.parametrize("state", ["SUBMITTED", "RUNNING", "RELAUNCHING", "UNKNOWN"])
def test_a_driver_that_may_live_is_alive(state: str) -> None:
    assert verdict(state, stop_requested=False) is DriverVerdict.ALIVE


def test_an_unknown_state_is_alive_only_up_to_a_limit() -> None:
    assert verdict("UNKNOWN", stop_requested=False, unknown_in_a_row=10) is DriverVerdict.FAILED


@pytest.mark.parametrize(("asked", "expected"), [(True, DriverVerdict.SUCCESS), (False, DriverVerdict.FAILED)])
@pytest.mark.parametrize("state", ["FINISHED", "KILLED"])
def test_an_end_is_a_success_only_if_it_was_asked_for(state: str, asked: bool, expected: DriverVerdict) -> None:
    assert verdict(state, stop_requested=asked) is expected


@pytest.mark.parametrize("state", ["FAILED", "ERROR"])
def test_a_failure_stays_one_also_after_a_stop_request(state: str) -> None:
    assert verdict(state, stop_requested=True) is DriverVerdict.FAILED


@pytest.mark.parametrize("answer", [None, 500, 403, "<html>"])
def test_no_usable_answer_is_asked_again(answer: str | int | None) -> None:
    assert verdict(answer, stop_requested=False) is DriverVerdict.ASK_AGAIN
