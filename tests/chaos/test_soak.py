"""A short soak: see :mod:`tests.soak.run`, or ``make soak MINUTES=30`` for a long one."""

from __future__ import annotations

from pathlib import Path

from tests.soak.run import soak

MINUTES = 3.0


def test_nothing_is_lost_doubled_or_wrong_after_minutes_of_disturbances(tmp_path: Path) -> None:
    tally = soak(tmp_path, minutes=MINUTES, seed=3)
    assert sum(tally.done.values()) >= 3, tally.text()
    assert tally.records > 20_000, tally.text()
    assert tally.ok, tally.text()
