"""What was seen at the last probes of an application: rates and the trend of the lag come from it.

It lives in the memory of the process that looks. Nothing writes it down: a rate needs two probes and a trend a minute
of them, so a new process knows both again before anybody misses them, and looking at an application changes no file of
it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from millrace.insight.overview.graph import Flows
from millrace.insight.overview.model import LagPoint, Trend

RATE_WINDOW_S = 30.0
TREND_WINDOW_S = 120.0
_SHORTEST_TREND_S = 9.0
_KEPT_PROBES = 360
_SHOWN_POINTS = 60
_STEADY_SHARE = 0.05
_Key = TypeVar("_Key")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One probe of an application that answered.

    Args:
        at: seconds since the epoch.
        driver: which driver it was: counters of another one begin again.
        lag: records behind, where known.
        records: input records processed since the driver started.
        read: positions summed over a topic's partitions, by topic.
        written: records written, by sub-topology and topic.
        processed: input records, by sub-topology.
        transactions: by outcome.
    """

    at: float
    driver: str
    lag: int | None = None
    records: int = 0
    read: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[tuple[int, str], int] = field(default_factory=dict)
    processed: Mapping[int, int] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)


class History:
    """The last probes, half an hour of them at one every five seconds. Safe to use from any thread."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_KEPT_PROBES)
        self._lock = threading.Lock()

    def add(self, sample: Sample) -> None:
        """Another probe; one that is not later than the last is left out."""
        with self._lock:
            if not self._samples or sample.at > self._samples[-1].at:
                self._samples.append(sample)

    def samples(self) -> tuple[Sample, ...]:
        """All probes that are kept, oldest first."""
        with self._lock:
            return tuple(self._samples)


def lag_points(samples: tuple[Sample, ...]) -> tuple[LagPoint, ...]:
    """The lag over time, thinned out to what a small picture can show; the last one is always there."""
    known = [LagPoint(at=each.at, lag=each.lag) for each in samples if each.lag is not None]
    step = -(-len(known) // _SHOWN_POINTS) or 1
    return tuple(reversed(known[::-1][::step]))


def lag_trend(samples: tuple[Sample, ...]) -> Trend:
    """Whether the lag grows: by the means of the first and the last third of the last two minutes."""
    if not samples:
        return Trend.UNKNOWN
    recent = [
        (each.at, each.lag) for each in samples if each.lag is not None and samples[-1].at - each.at <= TREND_WINDOW_S
    ]
    if len(recent) < 3 or recent[-1][0] - recent[0][0] < _SHORTEST_TREND_S:
        return Trend.UNKNOWN
    third = max(1, len(recent) // 3)
    first = sum(lag for _, lag in recent[:third]) / third
    last = sum(lag for _, lag in recent[-third:]) / third
    # Of a few records nothing can be said: one batch's worth comes and goes all the time.
    tolerance = max(10.0, _STEADY_SHARE * max(first, last))
    if abs(last - first) <= tolerance:
        return Trend.STEADY
    return Trend.GROWING if last > first else Trend.FALLING


def rate(samples: tuple[Sample, ...], value: Callable[[Sample], int | None]) -> float | None:
    """How fast a counter grew over the last half minute, per second; none where one driver was not seen twice.

    Args:
        samples: oldest first.
        value: reads the counter.
    """
    pair = _pair(samples)
    if pair is None:
        return None
    before, now = value(pair[0]), value(pair[1])
    return None if before is None or now is None else max(0.0, (now - before) / (pair[1].at - pair[0].at))


def rates(samples: tuple[Sample, ...], value: Callable[[Sample], Mapping[_Key, int]]) -> dict[_Key, float]:
    """As :func:`rate`, of many counters at once."""
    pair = _pair(samples)
    if pair is None:
        return {}
    before, now = value(pair[0]), value(pair[1])
    seconds = pair[1].at - pair[0].at
    return {key: max(0.0, (now[key] - before.get(key, 0)) / seconds) for key in now}


def flows(samples: tuple[Sample, ...]) -> Flows:
    """What flows along the edges of the topology."""
    return Flows(
        read=rates(samples, lambda sample: sample.read),
        written=rates(samples, lambda sample: sample.written),
        processed=rates(samples, lambda sample: sample.processed),
    )


def _pair(samples: tuple[Sample, ...]) -> tuple[Sample, Sample] | None:
    if not samples:
        return None
    now = samples[-1]
    same = [each for each in samples[:-1] if each.driver == now.driver and now.at - each.at <= RATE_WINDOW_S]
    return (same[0], now) if same else None
