from __future__ import annotations

import pytest

from millrace.install.record import DesiredState, JobRecord
from millrace.install.spec import ApplicationSpec, RestartSettings, RunState, SpecFile
from millrace.launch.observation import Observation, Reason, Verdict
from millrace.operations.action import Action
from millrace.supervise.decide import decide

NOW = 1_000.0


def spec(*, raw: str = "same", state: RunState = RunState.RUNNING) -> SpecFile:
    return SpecFile(
        spec=ApplicationSpec(
            name="payments",
            module="apps.payments:build",
            config={"bootstrap.servers": "localhost:1"},
            state=state,
            restart=RestartSettings(max_attempts=3, initial_backoff_s=4, max_backoff_s=60, reset_after_s=500),
        ),
        raw={"text": raw},
    )


def record(**changes: object) -> JobRecord:
    return JobRecord(
        application="payments",
        desired=DesiredState.RUNNING,
        spec_hash=spec().hash,
        launched_at=NOW - 100,
    ).with_changes(**changes)


def seen(verdict: Verdict, reason: Reason) -> Observation:
    return Observation(application="payments", verdict=verdict, reason=reason, text="as seen")


DEAD = seen(Verdict.DEAD, Reason.PROCESS_DIED)
WELL = seen(Verdict.HEALTHY, Reason.WORKING)


def test_what_was_never_deployed_is_left_alone() -> None:
    assert decide(DEAD, None, spec(), now=NOW).action is Action.NOTHING


def test_what_is_well_is_left_alone() -> None:
    assert decide(WELL, record(), spec(), now=NOW).action is Action.NOTHING


@pytest.mark.parametrize("reason", [Reason.STATUS_UNREADABLE, Reason.NO_ANSWER, Reason.STARTING])
def test_doubt_is_no_reason_to_restart(reason: Reason) -> None:
    assert decide(seen(Verdict.WAITING, reason), record(), spec(), now=NOW).action is Action.NOTHING


def test_a_planned_stop_is_respected() -> None:
    stopped = seen(Verdict.STOPPED, Reason.STOPPED_AS_ASKED)
    assert decide(stopped, record(desired=DesiredState.STOPPED), spec(raw="new"), now=NOW).action is Action.NOTHING


def test_a_stop_that_was_cut_short_is_finished() -> None:
    stopping = seen(Verdict.WAITING, Reason.STOPPING)
    assert decide(stopping, record(desired=DesiredState.STOPPED), spec(), now=NOW).action is Action.STOP


def test_a_dead_job_is_restarted_and_counted() -> None:
    decision = decide(DEAD, record(restarts=1), spec(), now=NOW)
    assert (decision.action, decision.restarts) == (Action.RESTART, 2)


def test_a_job_that_died_right_after_its_start_waits_for_its_backoff() -> None:
    decision = decide(DEAD, record(restarts=1, launched_at=NOW - 2), spec(), now=NOW)
    assert (decision.action, decision.not_before) == (Action.WAIT, NOW - 2 + 8)


def test_the_limit_of_restarts_ends_them() -> None:
    decision = decide(DEAD, record(restarts=3), spec(), now=NOW)
    assert decision.action is Action.GIVE_UP
    assert "3 restarts in a row did not help" in decision.text


def test_a_job_that_ran_long_enough_starts_counting_anew() -> None:
    decision = decide(DEAD, record(restarts=3, launched_at=NOW - 501), spec(), now=NOW)
    assert (decision.action, decision.restarts) == (Action.RESTART, 1)


def test_a_changed_specification_is_brought_about() -> None:
    assert decide(WELL, record(), spec(raw="new"), now=NOW).action is Action.UPGRADE


def test_a_start_that_the_preflight_refused_is_not_tried_again_at_once() -> None:
    blocked = record(not_before=NOW + 10)
    assert decide(WELL, blocked, spec(raw="new"), now=NOW).action is Action.WAIT
    assert decide(DEAD, blocked, spec(), now=NOW).action is Action.WAIT


def test_without_any_valid_specification_nothing_is_touched() -> None:
    assert decide(DEAD, record(), None, now=NOW).action is Action.NOTHING


def test_a_suspended_application_is_stopped() -> None:
    assert decide(WELL, record(), spec(state=RunState.SUSPENDED), now=NOW).action is Action.STOP


@pytest.mark.parametrize("raw", ["same", "changed"])
def test_a_fenced_job_is_not_started_again_as_it_would_fence_its_successor(raw: str) -> None:
    fenced = seen(Verdict.FENCED, Reason.FENCED)
    assert decide(fenced, record(), spec(raw=raw), now=NOW).action is Action.NOTHING


@pytest.mark.parametrize(
    "reason", [Reason.PROCESS_STOPPED, Reason.BROKER_UNREACHABLE, Reason.NOT_COMMITTING, Reason.HELD_BACK]
)
def test_a_job_that_commits_nothing_is_not_restarted_for_that(reason: Reason) -> None:
    assert decide(seen(Verdict.STALLED, reason), record(), spec(), now=NOW).action is Action.NOTHING
