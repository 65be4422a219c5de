"""A table of windows that is grouped again: what a window adds is taken back before it counts again."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import (
    Consumed,
    Grouped,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from millrace.serdes import LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver

S = StringSerde()
RECORDS = [TestRecord("a", "x", at) for at in (0, 3, 9, 0, 40, 22, 30, 40, 41)]
WINDOWS = {
    "sessions": SessionWindows.of_inactivity_gap_and_grace(5, 100),
    "sliding windows": SlidingWindows.of_time_difference_and_grace(5, 100),
    "hopping windows": TimeWindows.of_size_and_grace(10, 100).advance_by(5),
}


@pytest.mark.parametrize("in_batches", [False, True], ids=["record by record", "in one batch"])
@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
def test_the_sum_over_all_windows_is_that_of_the_windows_that_are_there(
    windows: Any, cached: bool, in_batches: bool
) -> None:
    def stored(name: str) -> Materialized:
        store = Materialized.as_(name).with_key_serde(S)
        return store if cached else store.with_caching_disabled()

    builder = StreamsBuilder()
    counts = builder.stream("in", Consumed.with_(S, S)).group_by_key().windowed_by(windows).count(stored("counts"))
    counts.group_by(lambda key, count: (key.key, count), Grouped.with_(S, LongSerde())).reduce(
        lambda total, count: total + count, lambda total, count: total - count, stored("totals")
    )
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", S, S)
        if in_batches:
            topic.pipe_batch(RECORDS)
        else:
            for record in RECORDS:
                topic.pipe_batch([record])
        store = driver.session_store("counts") if isinstance(windows, SessionWindows) else driver.window_store("counts")
        there = list(store.all().values())
        assert len(there) > 3
        if isinstance(windows, SlidingWindows) and not cached:
            # As in Kafka Streams: the old value of a new window is what it takes over from the one before.
            assert driver.key_value_store("totals").get("a") == sum(there) - 1
            return
        assert driver.key_value_store("totals").get("a") == sum(there)
