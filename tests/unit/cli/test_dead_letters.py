from __future__ import annotations

from millrace.cli.dead_letters import _time


def test_a_dead_letter_s_time_may_be_later_than_any_date() -> None:
    """Case E18."""
    assert _time(253_402_300_799_000) == "9999-12-31T23:59:59.000+00:00"
    assert _time(1_795_947_275_026_000) == "1795947275026000 ms"
    assert _time(2**63 - 1) == f"{2**63 - 1} ms"
    assert _time(-1) == ""
