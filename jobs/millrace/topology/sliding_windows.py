"""Sliding windows: around the records themselves, made only where their content differs.

Source: ``org.apache.kafka.streams.kstream.SlidingWindows`` (KIP-450, KIP-633).
"""

from __future__ import annotations

from dataclasses import dataclass

from millrace.errors import TopologyError
from millrace.topology.arguments import checks_arguments
from millrace.topology.windows import Duration, to_milliseconds


@checks_arguments
@dataclass(frozen=True)
class SlidingWindows:
    """Windows ``[t - difference, t]`` and ``[t + 1, t + 1 + difference]`` around each record at t, ends inclusive.

    A window is made only where its records are others than those of its neighbours. Records earlier than
    ``difference`` after the epoch share the window ``[0, difference]``.

    Args:
        difference_ms: largest difference of two timestamps in a window, milliseconds, above 0.
        grace_ms: how long after its end a window takes late records, milliseconds, 0 or more.

    Raises:
        TopologyError: a length is out of its range.
    """

    difference_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.difference_ms <= 0:
            raise TopologyError(f"The time difference must be above 0 ms, not {self.difference_ms}.")
        if self.grace_ms < 0:
            raise TopologyError(f"The grace period must be 0 ms or more, not {self.grace_ms}.")

    @classmethod
    def of_time_difference_with_no_grace(cls, difference: Duration) -> SlidingWindows:
        """Returns the windows that take no late record (KIP-633)."""
        return cls(to_milliseconds(difference), 0)

    @classmethod
    def of_time_difference_and_grace(cls, difference: Duration, grace: Duration) -> SlidingWindows:
        """Returns the windows that take records until ``grace`` after their end (KIP-633)."""
        return cls(to_milliseconds(difference), to_milliseconds(grace))

    @property
    def size_ms(self) -> int:
        """The time from a window's start to its end, which is inclusive, milliseconds."""
        return self.difference_ms

    @property
    def least_retention_ms(self) -> int:
        """Milliseconds for which a window must be kept after its start: later records copy from earlier windows."""
        return 2 * self.difference_ms + self.grace_ms
