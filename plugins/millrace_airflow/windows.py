"""Off-peak hours: when scheduled work that costs something may begin, and when it must have ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from millrace.errors import ConfigurationError

_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True)
class OffPeakWindow:
    """A span of each day, UTC; it may go over midnight.

    Args:
        begin: inclusive.
        end: exclusive; equal to ``begin`` it means the whole day.
    """

    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> OffPeakWindow:
        """``22:00-06:00``.

        Raises:
            ConfigurationError: it is something else.
        """
        found = _WINDOW.fullmatch(text.strip())
        if found is None:
            raise ConfigurationError(f"{text!r} is no window of off-peak hours.", remedy="write it as 22:00-06:00, UTC")
        hours = [int(number) for number in found.groups()]
        return cls(time(hours[0], hours[1]), time(hours[2], hours[3]))

    def seconds_left(self, now: datetime) -> float | None:
        """Seconds until it closes; ``None`` where it is closed.

        Args:
            now: UTC.
        """
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        for day in (today - timedelta(days=1), today):
            begin = datetime.combine(day, self.begin, now.tzinfo)
            end = datetime.combine(day, self.end, now.tzinfo)
            if end <= begin:
                end += timedelta(days=1)
            if begin <= now < end:
                return (end - now).total_seconds()
        return None
