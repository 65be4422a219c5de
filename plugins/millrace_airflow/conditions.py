"""What sensors wait for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from millrace.launch import Observation, Verdict


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A state of an application that is waited for: that it is ready, and perhaps that it is not far behind.

    Args:
        max_lag: most records behind, over all partitions; ``None`` does not ask.
        for_s: for how long it must have held without interruption, seconds.
    """

    max_lag: int | None = None
    for_s: float = 0.0

    def why_not(self, observation: Observation) -> str:
        """Why it does not hold; empty where it does. Pure."""
        if observation.verdict is not Verdict.HEALTHY:
            return f"{observation.verdict}: {observation.text}"
        if self.max_lag is None:
            return ""
        if observation.lag is None:
            return "its lag is not known yet"
        return "" if observation.lag <= self.max_lag else f"it is {observation.lag:,} records behind"

    def serialize(self) -> dict[str, Any]:
        """For the trigger."""
        return asdict(self)
