"""Sliding and unlimited windows driven through whole topologies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from millrace.dsl import Grouped, KStream, Materialized, Produced, SlidingWindows, UnlimitedWindows
from millrace.dsl.aggregators import collect
from millrace.errors import TopologyError
from millrace.metrics import DropReason
from millrace.serdes import TimeWindowedSerde, Windowed
from millrace.testing import TestRecord, TopologyTestDriver
from tests.unit.testing.test_cases import JSON, LONG, STORE, TEXT, at, build

Aggregate = Callable[[Any, Materialized], Any]


def windowed(windows: SlidingWindows | UnlimitedWindows, aggregate: Aggregate) -> Any:
    def define(stream: KStream) -> None:
        table = aggregate(stream.group_by_key(Grouped.with_(TEXT, LONG)).windowed_by(windows), STORE)
        table.to_stream().to("out", Produced.with_(TimeWindowedSerde(TEXT, windows.size_ms)))

    return build(define)


def collected(grouped: Any, store: Materialized) -> Any:
    return grouped.aggregate(collect(), materialized=store.with_value_serde(JSON))


def mutating(grouped: Any, store: Materialized) -> Any:
    def add(key: Any, value: Any, old: list[Any]) -> list[Any]:
        old.append(value)
        return old

    return grouped.aggregate(list, add, store.with_value_serde(JSON))


def counted(grouped: Any, store: Materialized) -> Any:
    return grouped.count(store)


def contents(driver: TopologyTestDriver) -> dict[tuple[int, int], Any]:
    return {(window.start, window.end): value for window, value in driver.window_store("store").all().items()}


CASE_W06 = (
    SlidingWindows.of_time_difference_and_grace(5000, 60_000),
    [(1, 8000), (2, 9200), (3, 12_400)],
    {(3000, 8000): [1], (4200, 9200): [1, 2], (7400, 12_400): [1, 2, 3], (8001, 13_001): [2, 3], (9201, 14_201): [3]},
)
CASE_W08 = (
    SlidingWindows.of_time_difference_and_grace(10, 1000),
    [(1, 2), (2, 5), (3, 12)],
    {(0, 10): [1, 2], (2, 12): [1, 2, 3], (3, 13): [2, 3], (6, 16): [3]},
)


@pytest.mark.parametrize("in_one_batch", [False, True])
@pytest.mark.parametrize("aggregate", [collected, mutating], ids=["built in", "an adder that changes its argument"])
@pytest.mark.parametrize(("windows", "values", "expected"), [CASE_W06, CASE_W08], ids=["W06", "W08"])
def test_sliding_windows_lie_around_the_records_and_near_the_epoch_share_the_first_one(
    windows: SlidingWindows, values: list[tuple[int, int]], expected: Any, aggregate: Aggregate, in_one_batch: bool
) -> None:
    """Cases W06 and W08."""
    with TopologyTestDriver(windowed(windows, aggregate)) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        records = [TestRecord("k", value, timestamp) for value, timestamp in values]
        (topic.pipe_batch if in_one_batch else topic.pipe_records)(records)
        assert contents(driver) == expected


def test_a_cached_store_sends_the_last_update_of_each_sliding_window_of_a_batch() -> None:
    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    with TopologyTestDriver(windowed(windows, counted)) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_batch(at(20, 20, 25, 20))
        records = driver.create_output_topic("out", TimeWindowedSerde(TEXT, 10), LONG).read_records()
        assert [(record.key.start, record.value, record.timestamp) for record in records] == [
            (21, 1, 25),
            (15, 4, 25),
            (10, 3, 20),
        ]


def test_a_record_whose_adder_raises_changes_no_sliding_window() -> None:
    def add(key: Any, value: int, old: int) -> int:
        if value == 0 and old == 1:
            raise ValueError("the second window")
        return old + 1

    windows = SlidingWindows.of_time_difference_and_grace(10, 100)
    aggregate: Aggregate = lambda grouped, store: grouped.aggregate(lambda: 0, add, store.with_value_serde(LONG))  # noqa: E731
    with TopologyTestDriver(windowed(windows, aggregate), {"processing.exception.handler": "continue"}) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        # Of the second record the window [21, 31] is computed first, and [15, 25] raises.
        topic.pipe_records([TestRecord("k", 1, 20), TestRecord("k", 0, 25)])
        assert contents(driver) == {(10, 20): 1}
        assert driver.dropped == {DropReason.PROCESSING: 1}


def test_an_unlimited_window_begins_at_its_start_and_never_closes() -> None:
    windows = UnlimitedWindows.of().start_on(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    with TopologyTestDriver(windowed(windows, counted)) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        topic.pipe_records(at(999, 1000, 10**15, 1001))
        assert driver.window_store("store").all() == {Windowed("k", 1000, 2**63 - 1): 3}
        assert not driver.dropped


def test_windows_that_cannot_be_are_refused() -> None:
    with pytest.raises(TopologyError, match="difference must be above 0 ms"):
        SlidingWindows.of_time_difference_with_no_grace(0)
    with pytest.raises(TopologyError, match="has no time zone"):
        UnlimitedWindows.of().start_on(datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(TopologyError, match="0 ms or later"):
        UnlimitedWindows.of().start_on(-1)
    with pytest.raises(TopologyError, match="twice the time difference 10 ms and grace 5 ms"):
        windowed(
            SlidingWindows.of_time_difference_and_grace(10, 5),
            lambda grouped, store: grouped.count(store.with_retention(24)),
        )
