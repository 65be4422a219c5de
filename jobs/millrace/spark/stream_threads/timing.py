"""The time that a stream thread spends on each kind of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.spark.stream_threads.messages import ThreadTiming

_PROCESSING = ("global", "read", "process")
_COMMITTING = ("commit", "store")


@dataclass
class LoopTiming:
    """The seconds spent on each kind of work. Commits and the processing of several tasks may overlap.

    Args:
        began_at: when the loop began.
    """

    began_at: float
    poll_s: float = 0.0
    process_s: float = 0.0
    commit_s: float = 0.0
    commits: int = 0
    longest_commit_s: float = field(default=0.0)

    def polled(self, seconds: float, *, brought_records: bool) -> None:
        """Adds the time of a poll, unless it returned no records: then it only waited."""
        if brought_records:
            self.poll_s += seconds

    def processed(self, durations: Mapping[str, float]) -> None:
        """Adds the time of a batch, given its seconds by phase."""
        self.process_s += sum(durations.get(phase, 0.0) for phase in _PROCESSING)
        if "commit" in durations:
            commit_s = sum(durations.get(phase, 0.0) for phase in _COMMITTING)
            self.commit_s += commit_s
            self.commits += 1
            self.longest_commit_s = max(self.longest_commit_s, commit_s)

    def take(self, now: float) -> ThreadTiming:
        """Returns the totals for a report; the longest commit is that since the last report."""
        longest, self.longest_commit_s = self.longest_commit_s, 0.0
        return ThreadTiming(
            poll_s=self.poll_s,
            process_s=self.process_s,
            commit_s=self.commit_s,
            idle_s=max(0.0, now - self.began_at - self.poll_s - self.process_s - self.commit_s),
            commits=self.commits,
            commit_latency_s=self.commit_s,
            longest_commit_s=longest,
        )
