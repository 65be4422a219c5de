from __future__ import annotations

from datetime import UTC, datetime

import pytest

from millrace.errors import ConfigurationError
from millrace_airflow.windows import OffPeakWindow


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-01T{text}").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "now", "left_s"),
    [
        ("22:00-06:00", "23:00", 7 * 3600),
        ("22:00-06:00", "05:59", 60),
        ("22:00-06:00", "06:00", None),
        ("22:00-06:00", "21:59", None),
        ("01:00-02:00", "01:00", 3600),
        ("01:00-02:00", "02:00", None),
        ("00:00-00:00", "12:00", 12 * 3600),
    ],
)
def test_a_window_is_open_until_its_end_also_over_midnight(window: str, now: str, left_s: float | None) -> None:
    assert OffPeakWindow.parse(window).seconds_left(at(now)) == left_s


@pytest.mark.parametrize("text", ["", "22-06", "24:00-06:00", "22:00-06:60", "at night"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no window of off-peak hours"):
        OffPeakWindow.parse(text)
