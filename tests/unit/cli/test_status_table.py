"""The table of ``millrace status``."""

from __future__ import annotations

import re

from rich.console import Console

from millrace.cli.status_table import Row, exit_code, explanations, table
from millrace.driver.status import StreamThreadStatus
from millrace.install.launchers.local_process import LocalProcess
from millrace.launch import Observation, Reason, Verdict
from millrace.processes import ProcessIdentity


def row(
    *,
    verdict: Verdict = Verdict.HEALTHY,
    records: int = 0,
    at: float = 0.0,
    pid: int = 7,
    text: str = "",
    lag_age_s: float = 1.0,
    remedy: str = "",
    note: str = "",
    stream_threads: tuple[StreamThreadStatus, ...] = (),
) -> Row:
    observation = Observation(
        application="orders",
        verdict=verdict,
        reason=Reason.WORKING,
        text=text,
        driver=LocalProcess(ProcessIdentity(pid, 1)),
        state="RUNNING",
        lag=1234,
        records=records,
        last_commit_at=at - 2,
        lag_at=at - lag_age_s,
        at=at,
        remedy=remedy,
        note=note,
        stream_threads=stream_threads,
    )
    return Row(observation=observation, address="http://127.0.0.1:5000")


def rendered(now: Row, before: Row | None = None) -> str:
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(table([now], before=[before] if before else []))
    return re.sub(r" +", " ", capture.get())


def test_the_rate_is_that_between_two_looks() -> None:
    text = rendered(row(records=3000, at=12.0), row(records=1000, at=10.0))
    assert "orders healthy RUNNING 1,234 2 s ago 1,000 0 http://127.0.0.1:5000" in text


def test_a_restarted_driver_has_no_rate_yet() -> None:
    text = rendered(row(records=10, at=12.0, pid=8), row(records=1000, at=10.0, pid=7))
    assert "RUNNING 1,234 2 s ago - 0" in text


def test_what_is_wrong_is_said_in_whole_lines_below_the_table() -> None:
    long = "Input topics do not exist: " + ", ".join(f"orders-of-region-{number}" for number in range(40))
    seen = row(verdict=Verdict.DEAD, text=f"{long}.", remedy="create them\nwith `millrace topics create`")
    (line,) = explanations([seen])
    assert str(line) == f"orders: {long}. Remedy: create them with `millrace topics create`"


def test_what_is_to_be_known_beside_it_is_said_of_a_healthy_application_too() -> None:
    assert [str(line) for line in explanations([row(note="its file differs")])] == ["orders: note: its file differs"]
    assert explanations([row()]) == []


def test_stream_threads_are_shown_with_their_tasks_and_what_they_spend_their_time_on() -> None:
    thread = StreamThreadStatus(
        slot=1,
        worker="h/12",
        tasks=["0_1", "1_0"],
        poll=0.125,
        process=0.25,
        commit=0.025,
        idle=0.6,
        commits_per_s=9.84,
        commit_latency_s=0.0312,
    )
    (line,) = explanations([row(stream_threads=(thread,))])
    assert str(line) == (
        "orders: stream thread 1 on h/12: 0_1 1_0; 12% poll, 25% process, 2% commit, 60% idle; 9.8 commits/s of 31 ms"
    )
    keeps = thread.model_copy(update={"standbys": ["1_1", "1_2"], "standby_lag": 1200})
    (line,) = explanations([row(stream_threads=(keeps,))])
    assert str(line).endswith("commits/s of 31 ms; standby copies of 1_1 1_2, lag 1,200")
    fails = keeps.model_copy(update={"standby_lag": None, "standby_problems": ["1_2: the broker is away"]})
    (line,) = explanations([row(stream_threads=(fails,))])
    assert str(line).endswith("standby copies of 1_1 1_2, lag unknown; copy of 1_2: the broker is away")
    lines = explanations([row(stream_threads=(thread,) * 10)])
    assert str(lines[-1]) == "orders: 2 more stream threads: see /tasks of its control plane"


def test_a_lag_that_the_broker_has_not_said_for_long_is_shown_with_its_age() -> None:
    assert "RUNNING 1,234 (9 s ago) 2 s ago" in rendered(row(verdict=Verdict.STALLED, lag_age_s=9.0))


def test_the_exit_code_tells_what_does_not_work_from_what_does_not_progress() -> None:
    well, stalled = row(), row(verdict=Verdict.STALLED)
    assert exit_code([well, row(verdict=Verdict.WAITING), row(verdict=Verdict.STOPPED)]) == 0
    assert exit_code([well, stalled]) == 4
    for verdict in (Verdict.DEAD, Verdict.UNHEALTHY, Verdict.FENCED):
        assert exit_code([stalled, row(verdict=verdict)]) == 1
