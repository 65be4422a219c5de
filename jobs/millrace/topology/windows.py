"""Window definitions: frozen data, in milliseconds, aligned to the epoch in UTC.

Source: the window classes of ``org.apache.kafka.streams.kstream`` (KIP-63, KIP-633).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from millrace.errors import TopologyError

Duration = timedelta | int
"""A span of event time: a ``timedelta``, or whole milliseconds."""


def to_milliseconds(duration: Duration) -> int:
    """Whole milliseconds of ``duration``.

    Raises:
        TopologyError: it is not a whole number of milliseconds, or not a duration at all.
    """
    if isinstance(duration, timedelta):
        milliseconds, rest = divmod(duration, timedelta(milliseconds=1))
        if rest:
            raise TopologyError(f"{duration} is not a whole number of milliseconds.")
        return milliseconds
    if isinstance(duration, bool) or not isinstance(duration, int):
        raise TopologyError(f"A duration is a timedelta or whole milliseconds, not {duration!r}.")
    return duration


@dataclass(frozen=True)
class TimeWindows:
    """Tumbling (``advance_ms == size_ms``) or hopping windows, start inclusive and end exclusive.

    Args:
        size_ms: length of a window, milliseconds, above 0.
        advance_ms: distance between the starts of neighbouring windows, milliseconds, in (0, size].
        grace_ms: how long after its end a window takes late records, milliseconds, 0 or more.

    Raises:
        TopologyError: a length is out of its range.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise TopologyError(f"The window size must be above 0 ms, not {self.size_ms}.")
        if not 0 < self.advance_ms <= self.size_ms:
            raise TopologyError(
                f"The advance must be above 0 and at most the window size of {self.size_ms} ms, not {self.advance_ms}."
            )
        if self.grace_ms < 0:
            raise TopologyError(f"The grace period must be 0 ms or more, not {self.grace_ms}.")

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> TimeWindows:
        """Tumbling windows that take no late record (KIP-633)."""
        size_ms = to_milliseconds(size)
        return cls(size_ms, size_ms, 0)

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> TimeWindows:
        """Tumbling windows that take records until ``grace`` after their end (KIP-633)."""
        size_ms = to_milliseconds(size)
        return cls(size_ms, size_ms, to_milliseconds(grace))

    def advance_by(self, advance: Duration) -> TimeWindows:
        """The same windows, hopping: one starts every ``advance``."""
        return replace(self, advance_ms=to_milliseconds(advance))

    def starts_of(self, timestamp: int) -> range:
        """Starts of all windows that hold a record at ``timestamp`` (milliseconds), the oldest first; none before 0."""
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp + 1, self.advance_ms)
