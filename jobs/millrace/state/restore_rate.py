"""The rate at which this host restores, as its last large restorations have shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from millrace.files import write_atomically

RATE_FILE = "restore-rate.json"
LEAST_RECORDS = 100_000
"""Restorations of fewer records say nothing of the rate."""


@dataclass(frozen=True, kw_only=True)
class MeasuredRate:
    """One measurement.

    Args:
        records_per_s: changelog records per second of one restoration, from its first record to its last.
        start_s: what it took before the first record, seconds.
    """

    records_per_s: float
    start_s: float


def keep_rate(directory: Path, rate: MeasuredRate) -> None:
    """Remember a rate in the directory of an application's state. The last one counts."""
    write_atomically(directory / RATE_FILE, orjson.dumps(asdict(rate)), waits_for_disk=False)


def kept_rate(directory: Path) -> MeasuredRate | None:
    """The rate that was remembered; ``None`` where there is none, or none that can be read."""
    try:
        return MeasuredRate(**orjson.loads((directory / RATE_FILE).read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return None
