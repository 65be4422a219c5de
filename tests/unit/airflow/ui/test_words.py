"""How times are written on pages."""

from __future__ import annotations

import pytest

from millrace_airflow.ui import words


@pytest.mark.parametrize("timestamp", [1_795_947_275_026_000, 1_795_947_275_026_000_000, 2**63 - 1])
def test_a_time_beyond_the_year_9999_is_shown_in_milliseconds(timestamp: int) -> None:
    """Case E18: dead-letter records of such records stand on a page beside others."""
    assert words.moment(timestamp / 1000).endswith(" ms")
    assert words.iso(timestamp / 1000) == ""
    assert words.ago(timestamp / 1000)


def test_a_time_is_a_date() -> None:
    assert words.moment(0.0) == "1970-01-01 00:00:00 UTC"
    assert words.moment(253_402_300_799.0) == "9999-12-31 23:59:59 UTC"
    assert words.moment(None) == words.NOTHING
