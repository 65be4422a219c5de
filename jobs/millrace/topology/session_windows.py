"""Session windows: periods of activity of one key, divided by inactivity.

Source: ``org.apache.kafka.streams.kstream.SessionWindows`` (KIP-94, KIP-633).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millrace.errors import TopologyError
from millrace.topology.arguments import checks_arguments
from millrace.topology.windows import Duration, to_milliseconds


@checks_arguments
@dataclass(frozen=True)
class SessionWindows:
    """Sessions ``[first, last]``, both inclusive: timestamps of the first and the last record of a session.

    Args:
        gap_ms: records of one key that lie at most this far apart belong to one session, milliseconds, 0 or more.
        grace_ms: how long after its last record and the gap a session takes late records, milliseconds, 0 or more.
        longest_ms: longest duration of a session, milliseconds from its first to its last record, 0 or more; ``None``
            (as in Kafka Streams) sets no limit. A record joins the sessions within the gap one after the other, the
            nearest first (of two equally near ones the older), as long as the session that comes of it is no longer
            than this; one that would make it longer is left alone. A record that can join none starts a new session,
            so two sessions of a key may then lie closer together than the gap. Without a limit a key that is never
            silent has one session that never closes.

    Raises:
        TopologyError: a length is out of its range.
    """

    gap_ms: int
    grace_ms: int
    longest_ms: int | None = None

    def __post_init__(self) -> None:
        if self.gap_ms < 0:
            raise TopologyError(f"The inactivity gap must be 0 ms or more, not {self.gap_ms}.")
        if self.grace_ms < 0:
            raise TopologyError(f"The grace period must be 0 ms or more, not {self.grace_ms}.")
        if self.longest_ms is not None and self.longest_ms < 0:
            raise TopologyError(f"The longest duration of a session must be 0 ms or more, not {self.longest_ms}.")

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, gap: Duration) -> SessionWindows:
        """Sessions divided by more than ``gap`` without a record, that take no late record (KIP-633)."""
        return cls(to_milliseconds(gap), 0)

    @classmethod
    def of_inactivity_gap_and_grace(cls, gap: Duration, grace: Duration) -> SessionWindows:
        """Sessions divided by more than ``gap`` without a record, that take records until ``grace`` later (KIP-633)."""
        return cls(to_milliseconds(gap), to_milliseconds(grace))

    def with_longest_duration(self, longest: Duration) -> SessionWindows:
        """Returns the windows in which no session grows longer than ``longest``: see ``longest_ms``.

        Not in Kafka Streams.
        """
        return replace(self, longest_ms=to_milliseconds(longest))

    @property
    def least_retention_ms(self) -> int:
        """Milliseconds for which a session must be kept after its end."""
        return self.gap_ms + self.grace_ms
