"""The table of ``millrace status``."""

from __future__ import annotations

import re

from rich.console import Console

from millrace.cli.status_table import Row, explanations, table
from millrace.ops import Observation, Reason, Verdict
from millrace.ops.launchers.local_process import LocalProcess
from millrace.processes import ProcessIdentity


def row(
    *,
    verdict: Verdict = Verdict.HEALTHY,
    records: int = 0,
    at: float = 0.0,
    pid: int = 7,
    text: str = "",
    remedy: str = "",
    note: str = "",
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
        at=at,
        remedy=remedy,
        note=note,
    )
    return Row(observation=observation, address="http://127.0.0.1:5000")


def rendered(now: Row, before: Row | None = None) -> str:
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(table([now], before=[before] if before else []))
    return re.sub(r" +", " ", capture.get())


def test_the_rate_is_that_between_two_looks() -> None:
    text = rendered(row(records=3000, at=12.0), row(records=1000, at=10.0))
    assert "orders healthy RUNNING 1,234 1,000 0 http://127.0.0.1:5000" in text


def test_a_restarted_driver_has_no_rate_yet() -> None:
    text = rendered(row(records=10, at=12.0, pid=8), row(records=1000, at=10.0, pid=7))
    assert "RUNNING 1,234 - 0" in text


def test_what_is_wrong_is_said_in_whole_lines_below_the_table() -> None:
    long = "Input topics do not exist: " + ", ".join(f"orders-of-region-{number}" for number in range(40))
    seen = row(verdict=Verdict.DEAD, text=f"{long}.", remedy="create them\nwith `millrace topics create`")
    (line,) = explanations([seen])
    assert str(line) == f"orders: {long}. Remedy: create them with `millrace topics create`"


def test_what_is_to_be_known_beside_it_is_said_of_a_healthy_application_too() -> None:
    assert [str(line) for line in explanations([row(note="its file differs")])] == ["orders: note: its file differs"]
    assert explanations([row()]) == []
