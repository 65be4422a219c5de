"""The page of the failure matrix has every kind of failure, and says of each what its drill saw."""

from __future__ import annotations

from tests.application import ROOT
from tests.chaos.drills.page import page
from tests.chaos.drills.results import read
from tests.chaos.drills.rows import BY_KEY, ROWS

FAILURES = {
    "worker dies",
    "executor dies",
    "driver dies",
    "disk is lost",
    "broker restarts",
    "unreachable for longer than the transaction timeout",
    "changelog topic is deleted",
    "store is corrupted",
    "checkpoint directory is deleted",
    "offsets are moved by hand",
    "input gets more partitions",
    "every task moves at once",
    "two drivers",
}
STOPPED = {"changelog", "offsets", "partitions"}
HARMLESS = {"checkpoint"}
"""What stream threads do not need."""


def test_every_kind_of_failure_has_a_row() -> None:
    titles = [row.failure.lower() for row in ROWS]
    assert len(titles) == len(BY_KEY) == len(FAILURES)
    assert [failure for failure in FAILURES if not any(failure in title for title in titles)] == []


def test_the_page_is_made_of_the_results() -> None:
    text = page()
    assert list(read()) == list(BY_KEY)
    assert (ROOT / "docs" / "failure-matrix.md").read_text() == text
    assert all(f"## {row.failure}\n" in text for row in ROWS)


def test_whoever_is_stopped_is_told_why_and_what_to_do_and_the_drill_did_it() -> None:
    for result in read().values():
        assert result.by_itself == (result.key not in STOPPED)
        if not result.by_itself:
            assert result.states[-1] == "ERROR"
            assert result.reason
            assert result.remedy
            assert result.applied


def test_whoever_goes_on_runs_in_the_end_and_something_shows_that_it_happened() -> None:
    for result in read().values():
        assert result.seconds > 0
        if result.by_itself:
            assert result.states[-1] == "RUNNING"
            assert bool(len(result.states) > 1 or result.metrics) == (result.key not in HARMLESS)
