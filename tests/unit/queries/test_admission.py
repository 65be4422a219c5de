from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.processes import ProcessIdentity
from millrace.queries.admission import Admission, behind, view_of
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.state import TaskPosition
from tests.waiting import eventually

MakeStatus = Callable[..., ApplicationStatus]
GONE = DriverIdentity.of_this_process().model_copy(update={"start_time": 1})


def refusal(status: ApplicationStatus | None, partition: int = 0) -> QueryRefusedError | None:
    try:
        Admission(lambda: status, "app").check(view_of(status, 0, partition))
    except QueryRefusedError as error:
        return error
    return None


def test_a_task_that_runs_may_answer(make_status: MakeStatus) -> None:
    assert refusal(make_status()) is None


def test_a_task_that_runs_may_answer_while_another_one_is_restored(make_status: MakeStatus) -> None:
    status = make_status(tasks={"0_0": "RUNNING", "0_1": "RESTORING"}, state=ApplicationState.REBALANCING)
    assert refusal(status) is None
    refused = refusal(status, 1)
    assert refused is not None
    assert refused.reason is Reason.RESTORING
    assert refused.details == {"task": "0_1", "state": "RESTORING", "remaining": 7, "retry_after_s": 1}


@pytest.mark.parametrize("fields", [{"tasks": {}}, {"active": False}, {"progress": {}}])
def test_a_task_of_which_nothing_is_known_is_being_placed(make_status: MakeStatus, fields: dict[str, object]) -> None:
    refused = refusal(make_status(**fields))
    assert refused is not None
    assert refused.reason is Reason.RESTORING


@pytest.mark.parametrize(
    "fields",
    [{"state": state} for state in ApplicationState if not state.is_working] + [{"driver": GONE}],
)
def test_an_application_that_does_not_run_refuses(make_status: MakeStatus, fields: dict[str, object]) -> None:
    refused = refusal(make_status(**fields))
    assert refused is not None
    assert refused.reason is Reason.NOT_RUNNING


def test_the_driver_of_another_host_counts_as_lost_when_it_is_silent(make_status: MakeStatus) -> None:
    driver = DriverIdentity(host="elsewhere.invalid", pid=1, start_time=1)
    assert refusal(make_status(driver=driver)) is None
    refused = refusal(make_status(driver=driver, updated_at=time.time() - 60))
    assert refused is not None
    assert refused.reason is Reason.NOT_RUNNING


def test_without_a_status_nothing_is_answered() -> None:
    refused = refusal(None)
    assert refused is not None
    assert refused.reason is Reason.NOT_RUNNING


def test_how_far_a_state_is_behind_the_committed_offsets(make_status: MakeStatus) -> None:
    status = make_status()
    assert behind(status, TaskPosition(inputs={("in", 1): 15})) == 5
    assert behind(status, TaskPosition(inputs={("in", 1): 20})) == 0
    assert behind(status, TaskPosition(inputs={("in", 1): 25})) == 0  # the status is older than the commit
    assert behind(status, TaskPosition(inputs={("other", 0): 1})) is None
    assert behind(None, TaskPosition(inputs={("in", 1): 20})) is None


def test_a_driver_that_dies_is_noticed_when_what_was_seen_has_expired(make_status: MakeStatus) -> None:
    driver = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = ProcessIdentity.of(driver.pid)
    assert process is not None
    here = DriverIdentity.of_this_process()
    status = make_status(driver=DriverIdentity(host=here.host, pid=process.pid, start_time=process.start_time))
    admission = Admission(lambda: status, "app", check_ms=50)
    try:
        admission.check(admission.view(0, 0))
    finally:
        driver.kill()
        driver.wait()
    eventually(lambda: reason(admission), Reason.NOT_RUNNING)


def test_a_new_status_is_looked_at_at_once(make_status: MakeStatus) -> None:
    statuses = [make_status()]
    admission = Admission(lambda: statuses[-1], "app", check_ms=3_600_000)
    assert reason(admission) is None
    statuses.append(make_status(tasks={"0_0": "RESTORING"}))
    assert reason(admission) is Reason.RESTORING
    statuses.append(make_status(state=ApplicationState.ERROR))
    assert reason(admission) is Reason.NOT_RUNNING


def reason(admission: Admission) -> Reason | None:
    try:
        admission.check(admission.view(0, 0))
    except QueryRefusedError as error:
        return error.reason
    return None
