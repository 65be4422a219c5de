"""The restoration rate of this host, as measured in its last large restorations."""

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
    """A measured restoration rate.

    Args:
        records_per_s: changelog records per second of one restoration, from its first record to its last.
        start_s: what it took before the first record, seconds.
    """

    records_per_s: float
    start_s: float


def keep_rate(directory: Path, rate: MeasuredRate) -> None:
    """Writes a rate to the directory of an application's state; replaces the one before."""
    write_atomically(directory / RATE_FILE, orjson.dumps(asdict(rate)), waits_for_disk=False)


def kept_rate(directory: Path) -> MeasuredRate | None:
    """Returns the rate in the directory; ``None`` if there is none, or none that can be read."""
    try:
        return MeasuredRate(**orjson.loads((directory / RATE_FILE).read_bytes()))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return None
