"""``python -m tests.integration.ops.compacting HOME SPECS NAME``: compacts; a test kills it at a crash point."""

from __future__ import annotations

import sys
from pathlib import Path

from millrace.ops.compaction import CompactionOptions, compact
from millrace.ops.home import Home

OPTIONS = CompactionOptions(least_bytes=10_000, budget_s=120)

if __name__ == "__main__":
    root, specs, name = sys.argv[1:]
    compact(Home(root=Path(root), specs=Path(specs)), name, OPTIONS, reason="a test")
