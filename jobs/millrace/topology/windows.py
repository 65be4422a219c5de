"""Window definitions: frozen data, in milliseconds, aligned to the epoch in UTC.

Source: the window classes of ``org.apache.kafka.streams.kstream`` (KIP-63, KIP-633).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from millrace.errors import TopologyError
from millrace.topology.arguments import checks_arguments

Duration = timedelta | int
"""A span of event time: a ``timedelta``, or whole milliseconds."""


def to_milliseconds(duration: Duration) -> int:
    """Returns the whole milliseconds of ``duration``.

    Raises:
        TopologyError: it is not a whole number of milliseconds, or not a duration at all.
    """
    if isinstance(duration, timedelta):
        milliseconds, remainder = divmod(duration, timedelta(milliseconds=1))
        if remainder:
            raise TopologyError(f"{duration} is not a whole number of milliseconds.")
        return milliseconds
    if isinstance(duration, bool) or not isinstance(duration, int):
        raise TopologyError(f"A duration is a timedelta or whole milliseconds, not {duration!r}.")
    return duration


@checks_arguments
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
        """Returns tumbling windows that take no late record (KIP-633)."""
        size_ms = to_milliseconds(size)
        return cls(size_ms, size_ms, 0)

    @classmethod
    def of_size_and_grace(cls, size: Duration, grace: Duration) -> TimeWindows:
        """Returns tumbling windows that take records until ``grace`` after their end (KIP-633)."""
        size_ms = to_milliseconds(size)
        return cls(size_ms, size_ms, to_milliseconds(grace))

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Returns the same windows, hopping: one starts every ``advance``."""
        return replace(self, advance_ms=to_milliseconds(advance))

    def starts_of(self, timestamp: int) -> range:
        """Starts of all windows that hold a record at ``timestamp`` (milliseconds), the oldest first; none before 0."""
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return range(first, timestamp + 1, self.advance_ms)


@checks_arguments
@dataclass(frozen=True)
class JoinWindows:
    """The windows of a stream-stream join: the other record is within ``[t - before, t + after]``.

    Both bounds are inclusive and belong to the left stream's record at ``t``; seen from a right record they swap.

    Args:
        before_ms: how much earlier than the left record the right one may be, milliseconds; negative: must be later.
        after_ms: how much later than the left record the right one may be, milliseconds; negative: must be earlier.
        grace_ms: how much longer records wait for a partner that comes out of order, milliseconds, 0 or more.

    Raises:
        TopologyError: the window is empty (``before + after < 0``), or the grace is negative.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"The join window is empty: it reaches {self.before_ms} ms back and {self.after_ms} ms ahead."
            )
        if self.grace_ms < 0:
            raise TopologyError(f"The grace period must be 0 ms or more, not {self.grace_ms}.")

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> JoinWindows:
        """Returns windows of records at most ``difference`` apart, earlier or later (KIP-633)."""
        return cls.of_time_difference_and_grace(difference, 0)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> JoinWindows:
        """Returns windows of records at most ``difference`` apart (KIP-633).

        Records wait ``grace`` longer for a partner that is out of order.
        """
        difference_ms = to_milliseconds(difference)
        return cls(difference_ms, difference_ms, to_milliseconds(grace))

    def before(self, difference: Duration) -> JoinWindows:
        """Returns the windows with the right record at most ``difference`` earlier than the left one."""
        return replace(self, before_ms=to_milliseconds(difference))

    def after(self, difference: Duration) -> JoinWindows:
        """Returns the windows with the right record at most ``difference`` later than the left one."""
        return replace(self, after_ms=to_milliseconds(difference))

    @property
    def size_ms(self) -> int:
        """Length of the window, milliseconds."""
        return self.before_ms + self.after_ms

    @property
    def retention_ms(self) -> int:
        """The time for which a record is kept as a partner for the other side, milliseconds of its side's time."""
        return self.size_ms + self.grace_ms
