from __future__ import annotations

import pytest

from millrace.cli.restore_bar import restore_bar, restore_text
from millrace.launch.observation import Observation, Reason, Verdict


def look(remaining: int, rate: float) -> Observation:
    return Observation(
        application="app",
        verdict=Verdict.WAITING,
        reason=Reason.STARTING,
        text="",
        restore_remaining=remaining,
        restore_rate=rate,
    )


def test_the_text_tells_what_remains_the_rate_and_the_time_left() -> None:
    assert restore_text(look(1_200_000, 10_000)) == "restoring: 1,200,000 records remain, 10,000/s, 2 min 0 s left"
    assert restore_text(look(500, 0)) == "restoring: 500 records remain, 0/s"
    assert restore_text(look(0, 0)) == ""


def test_without_a_terminal_a_restoration_is_told_in_lines_but_not_at_each_look(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with restore_bar("waiting until app is ready") as show:
        show(look(0, 0))
        show(look(500, 100))
        show(look(400, 100))
    lines = capfd.readouterr().err.splitlines()
    assert lines == ["waiting until app is ready", "app: restoring: 500 records remain, 100/s, 5 s left"]
