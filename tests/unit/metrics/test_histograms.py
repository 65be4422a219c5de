from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import ConfigurationError
from millrace.metrics import (
    LATENCY_BUCKETS,
    LATENESS_BUCKETS,
    BucketCounts,
    no_observations,
    observe,
    record_lateness_ms,
)
from millrace.metrics.histograms import END_TO_END_BUCKETS

BOUNDS = (0.0, 1.0, 2.5)


@given(st.lists(st.sampled_from([-3.0, 0.0, 0.5, 1.0, 2.5, 2.6, 1e9]), max_size=20))
def test_bulk_observation_equals_counting_one_by_one(values: list[float]) -> None:
    counts = [0, 0, 0, 0]
    for value in values:
        counts[next((index for index, bound in enumerate(BOUNDS) if value <= bound), 3)] += 1
    observed = observe(values, BOUNDS)
    assert observed.counts == tuple(counts)
    assert observed.observations == len(values)
    assert observed.total == pytest.approx(sum(max(0.0, value) for value in values))


def test_histograms_add_up_and_nothing_adds_nothing() -> None:
    one, other = observe([0.5], BOUNDS), observe([0.5, 3.0], BOUNDS)
    assert one.plus(other) == observe([0.5, 0.5, 3.0], BOUNDS)
    assert one.plus(no_observations(BOUNDS)) == one
    with pytest.raises(ConfigurationError, match="version"):
        one.plus(no_observations((1.0,)))
    with pytest.raises(ConfigurationError):
        BucketCounts(BOUNDS, (1,), 0.0)


@pytest.mark.parametrize("bounds", [LATENCY_BUCKETS, END_TO_END_BUCKETS, LATENESS_BUCKETS])
def test_bounds_ascend(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))


def test_lateness_is_stream_time_minus_timestamp_and_positive_for_a_late_record() -> None:
    """Case W05."""
    assert record_lateness_ms(np.array([13, 9]), -1).tolist() == [0, 4]
    assert record_lateness_ms(np.array([9]), 13).tolist() == [4]


@given(st.lists(st.integers(0, 50), max_size=10), st.integers(-1, 60))
def test_lateness_is_never_negative_and_counts_the_record_itself(timestamps: list[int], stream_time: int) -> None:
    expected = []
    reached = stream_time
    for timestamp in timestamps:
        reached = max(reached, timestamp)
        expected.append(reached - timestamp)
    lateness = record_lateness_ms(np.array(timestamps, dtype=np.int64), stream_time)
    assert lateness.tolist() == expected
    assert all(late >= 0 for late in expected)
