"""The page of the failure matrix says what the drills saw, for every kind of failure."""

from __future__ import annotations

from tests.application import ROOT
from tests.chaos.drills.page import page
from tests.chaos.drills.results import read
from tests.chaos.drills.rows import ROWS

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


def test_every_kind_of_failure_has_a_row() -> None:
    titles = [row.failure.lower() for row in ROWS]
    assert len(titles) == len(FAILURES)
    assert [failure for failure in FAILURES if not any(failure in title for title in titles)] == []


def test_the_page_is_made_of_the_results() -> None:
    assert (ROOT / "docs" / "failure-matrix.md").read_text() == page()


def test_whoever_is_stopped_is_told_why_and_what_to_do_and_the_drill_did_it() -> None:
    results = read()
    stopped = [result for result in results.values() if not result.by_itself]
    assert {result.key for result in stopped} == {"changelog", "offsets", "partitions"}
    for result in stopped:
        assert result.states[-1] == "ERROR"
        assert result.reason
        assert result.remedy
        assert result.applied


def test_whoever_goes_on_runs_in_the_end_and_something_shows_that_it_happened() -> None:
    for result in read().values():
        assert result.seconds > 0
        if result.by_itself:
            assert result.states[-1] == "RUNNING"
        assert len(result.states) > 1 or result.metrics
