"""Where Spark keeps what nobody reads again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from millrace.spark.scratch_checkpoint import ScratchCheckpoint


def killed() -> int:
    """Number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_each_start_has_a_new_one_and_the_last_is_removed(tmp_path: Path) -> None:
    checkpoint = ScratchCheckpoint("orders-1", directory=tmp_path)
    first = checkpoint.create()
    (first / "offsets").mkdir()
    second = checkpoint.create()
    assert list(tmp_path.iterdir()) == [second]
    checkpoint.remove()
    checkpoint.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_killed_drivers_left_is_removed_and_what_others_use_is_not(tmp_path: Path) -> None:
    dead = killed()
    (tmp_path / f"millrace-checkpoint-orders-{dead}-abc").mkdir()
    other = tmp_path / f"millrace-checkpoint-orders-1-{dead}-abc"
    other.mkdir()
    running = ScratchCheckpoint("orders", directory=tmp_path).create()
    new = ScratchCheckpoint("orders", directory=tmp_path).create()
    assert set(tmp_path.iterdir()) == {other, running, new}
