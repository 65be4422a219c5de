"""Java in tests."""

from __future__ import annotations

QUICK_TO_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of virtual machines that live for minutes: the time that the second compiler takes does not come back."""
