"""Unlimited windows: one window a key, that never ends.

Source: ``org.apache.kafka.streams.kstream.UnlimitedWindows``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from millrace.errors import TopologyError
from millrace.topology.arguments import checks_arguments
from millrace.topology.windows import to_milliseconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_MS = 2**63 - 1


@checks_arguments
@dataclass(frozen=True)
class UnlimitedWindows:
    """A single window ``[start, infinity)``; records before the start are in none, and are dropped silently.

    Args:
        start_ms: first timestamp of the window, milliseconds since the epoch, 0 or more.

    Raises:
        TopologyError: the start is negative.
    """

    start_ms: int = 0

    def __post_init__(self) -> None:
        if self.start_ms < 0:
            raise TopologyError(f"An unlimited window must start at 0 ms or later, not at {self.start_ms}.")

    @classmethod
    def of(cls) -> UnlimitedWindows:
        """Returns the window from the epoch on."""
        return cls()

    def start_on(self, start: datetime | int) -> UnlimitedWindows:
        """Returns the window from ``start`` on: a time with a zone, or milliseconds since the epoch.

        Raises:
            TopologyError: the time has no zone, is before the epoch or between two milliseconds.
        """
        since_epoch: timedelta | int
        if isinstance(start, datetime):
            if start.tzinfo is None:
                raise TopologyError(
                    f"The start {start} has no time zone.", remedy="give it one: datetime(..., tzinfo=UTC)"
                )
            since_epoch = start - _EPOCH
        else:
            since_epoch = start
        return replace(self, start_ms=to_milliseconds(since_epoch))

    @property
    def size_ms(self) -> int:
        """The longest there is."""
        return _LONGEST_MS

    @property
    def advance_ms(self) -> int:
        """There is no second window."""
        return _LONGEST_MS

    @property
    def grace_ms(self) -> int:
        """No record is late."""
        return 0
