"""The number of distinct entries that a load touches: keys of a batch, windows that a store keeps."""

from __future__ import annotations

import math

from millrace.errors import TopologyError
from millrace.sizing.checks import not_negative, positive
from millrace.topology.windows import Duration, to_milliseconds

MIN_SEGMENT_INTERVAL_MS = 60_000
"""Shortest segment of a window store, as in Kafka Streams' ``WindowStoreBuilder``."""


def distinct_keys(records: float, keys: float) -> float:
    """Returns how many distinct keys ``n`` records with evenly drawn keys have: ``keys (1 - (1 - 1/keys)^n)``.

    It is the number of updates that a cached store sends on for a batch. Skewed keys give fewer.

    Args:
        records: records of the batch, n.
        keys: different keys that there are.

    Raises:
        ConfigurationError: keys is not 1 or more, or records is negative.
    """
    not_negative(records=records)
    positive(keys=keys)
    if keys <= 1:
        return min(records, 1.0)
    # expm1 and log1p: 1 - 1/keys loses its digits where there are many keys.
    return -keys * math.expm1(records * math.log1p(-1 / keys))


def live_windows(retention: Duration, advance: Duration) -> int:
    """Returns how many windows of one key a store holds at most: ``ceil((retention + segment) / advance)``.

    A segment is ``max(retention / 2, 60 s)`` long and is dropped as a whole, so windows stay for up to one segment
    longer than their retention. Source: ``AbstractSegments`` of Kafka Streams.

    Args:
        retention: how long a window is kept after its start, a ``timedelta`` or milliseconds.
        advance: distance between the starts of neighbouring windows; the size, for tumbling ones.

    Raises:
        TopologyError: one of them is not above 0.
    """
    retention_ms, advance_ms = to_milliseconds(retention), to_milliseconds(advance)
    if retention_ms <= 0 or advance_ms <= 0:
        raise TopologyError(
            f"Retention and advance must be above 0 ms, not {retention_ms} and {advance_ms}.",
            remedy="give those of the windowed operator",
        )
    return math.ceil((retention_ms + max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)) / advance_ms)
