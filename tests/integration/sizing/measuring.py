"""What the measured runs have in common."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tests.broker import RUN_VARIABLE

DRAW = np.random.default_rng(20)


def random_bytes(count: int, length: int) -> list[bytes]:
    """``count`` byte strings that do not compress, the same in each run."""
    data = DRAW.bytes(count * length)
    return [data[start : start + length] for start in range(0, count * length, length)]


def log_bytes(topic: str) -> int:
    """Bytes in the log files of a topic on the run's broker."""
    broker = Path(os.environ[RUN_VARIABLE]) / "broker"
    return sum(file.stat().st_size for file in broker.rglob(f"{topic}-*/*.log"))
