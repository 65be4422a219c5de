"""A compaction as a test wants it, which may run in a process that is killed."""

from __future__ import annotations

from millrace.install.application import Application
from millrace.install.home import Home
from millrace.operations.compaction import CompactionOptions, compact

OPTIONS = CompactionOptions(least_bytes=10_000, budget_s=120)


def compact_now(home: Home, name: str) -> None:
    """Compacts whatever there is to gain."""
    compact(Application(home, name), OPTIONS, reason="a test")
