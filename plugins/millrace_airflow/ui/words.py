"""How values are written on the pages. Pure."""

from __future__ import annotations

import time
from datetime import UTC, datetime

NOTHING = "-"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_LATEST_DATE = 253_402_300_799.0
"""End of the year 9999, seconds: Python's dates end there, the timestamps of records do not."""


def number(value: float | None) -> str:
    """``12,345``; a dash where it is not known."""
    return NOTHING if value is None else f"{value:,.0f}"


def per_second(value: float | None) -> str:
    """``1,234/s``, ``0.4/s``; a dash where it is not known."""
    if value is None:
        return NOTHING
    if value == 0 or value >= 10:
        return f"{value:,.0f}/s"
    return f"{value:.1f}/s" if value >= 0.1 else "<0.1/s"


def short_number(value: float | None) -> str:
    """``980``, ``12.3k``, ``4.5M``: for pictures, where there is no room."""
    if value is None:
        return NOTHING
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.0f}"


def size(value: float | None) -> str:
    """``12.3 MB``; a dash where it is not known."""
    if value is None:
        return NOTHING
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float | None) -> str:
    """``4 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``; a dash where it is not known."""
    if seconds is None:
        return NOTHING
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        hours, rest = divmod(whole, _HOUR)
        return f"{hours} h {rest // _MINUTE} min"
    days, rest = divmod(whole, _DAY)
    return f"{days} d {rest // _HOUR} h"


def ago(at: float | None) -> str:
    """``4 s ago``; a dash where it is not known."""
    return NOTHING if at is None else f"{duration(time.time() - at)} ago"


def moment(at: float | None) -> str:
    """``2026-01-31 12:00:00 UTC``; a dash where it is not known, the milliseconds where no date is so late."""
    if at is not None and at > _LATEST_DATE:
        return f"{at * 1000:.0f} ms"
    return NOTHING if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: float | None) -> str:
    """For ``<time datetime>``; empty where it is not known or no date is so late."""
    return "" if at is None or at > _LATEST_DATE else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def journal_time(text: str) -> str:
    """A journal's ISO 8601 as people read it; whatever else it is, as it is."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return text
