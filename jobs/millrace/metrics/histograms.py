"""Histograms as counts of fixed buckets: small enough to travel with every batch, and exact to add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from millrace.errors import ConfigurationError

LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds for durations of the engine's own work, seconds."""

END_TO_END_BUCKETS = (
    0.05,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    1.5,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1_800.0,
    3_600.0,
    86_400.0,
)
"""Upper bounds for the age of a record at its commit, seconds: up to a day, for what is read again from old offsets."""

LATENESS_BUCKETS = (0.0, 0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0)
"""Upper bounds for the lateness of records, seconds. The first bucket has those in order."""


@dataclass(frozen=True)
class BucketCounts:
    """The number of observations in each bucket, and their sum.

    Args:
        bounds: inclusive upper bounds, ascending; above the last one is a bucket without a bound.
        counts: observations of each bucket (not cumulative), one more than ``bounds``.
        total: sum of the observations.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.bounds) + 1:
            raise ConfigurationError(
                f"{len(self.bounds)} bounds make {len(self.bounds) + 1} buckets, not {len(self.counts)}."
            )

    @property
    def observations(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    def plus(self, other: BucketCounts) -> BucketCounts:
        """Returns both histograms in one.

        Raises:
            ConfigurationError: their bounds differ.
        """
        if self.bounds != other.bounds:
            raise ConfigurationError(
                f"Histograms with the bounds {self.bounds} and {other.bounds} do not add up.",
                remedy="run the same version of Millrace on the driver and its workers",
            )
        counts = tuple(mine + its for mine, its in zip(self.counts, other.counts, strict=True))
        return BucketCounts(self.bounds, counts, self.total + other.total)

    def cumulative(self) -> list[tuple[str, float]]:
        """Pairs of ``le`` and cumulative count, as Prometheus wants them; the last ``le`` is ``+Inf``."""
        names = [*map(repr, self.bounds), "+Inf"]
        return list(zip(names, map(float, np.cumsum(self.counts)), strict=True))


def no_observations(bounds: tuple[float, ...]) -> BucketCounts:
    """Returns an empty histogram."""
    return BucketCounts(bounds, (0,) * (len(bounds) + 1), 0.0)


def observe(values: np.ndarray[Any, Any] | list[float], bounds: tuple[float, ...]) -> BucketCounts:
    """Returns the histogram of many values at once.

    Args:
        values: observations in the unit of ``bounds``. Those below 0 count as 0: a record whose timestamp lies in the
            future has no negative latency, and a histogram's sum may not fall.
        bounds: inclusive upper bounds, ascending.
    """
    observed = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    counts = np.bincount(np.searchsorted(bounds, observed, side="left"), minlength=len(bounds) + 1)
    return BucketCounts(bounds, tuple(counts.tolist()), float(observed.sum()))


def record_lateness_ms(timestamps: np.ndarray[Any, Any], stream_time_ms: int) -> np.ndarray[Any, Any]:
    """Lateness of each record: stream time when it was seen, itself included, minus its timestamp. Never negative.

    Args:
        timestamps: n record timestamps in the order of processing, milliseconds, int64.
        stream_time_ms: stream time before the first of them, milliseconds; any negative number for "none yet".

    Returns:
        n latenesses, milliseconds, int64.
    """
    if not len(timestamps):
        return np.zeros(0, dtype=np.int64)
    stream_times = np.maximum(np.maximum.accumulate(timestamps), stream_time_ms)
    return np.asarray(stream_times - timestamps, dtype=np.int64)
