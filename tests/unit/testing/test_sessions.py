"""Session windows driven through whole topologies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import Grouped, KStream, Materialized, Produced, SessionWindows
from millrace.dsl.aggregators import avg, collect, count, first, last, max_, min_, struct, sum_
from millrace.errors import TopologyError
from millrace.metrics import DropReason
from millrace.serdes import SessionWindowedSerde, Windowed
from millrace.testing import TestRecord, TopologyTestDriver
from tests.unit.testing.test_cases import JSON, LONG, TEXT, at, build

STORE = Materialized.as_("store").with_key_serde(TEXT)
Aggregate = Callable[[Any, Materialized], Any]


def sessions(windows: SessionWindows, aggregate: Aggregate, *, cached: bool = True) -> Any:
    def define(stream: KStream) -> None:
        store = STORE if cached else STORE.with_caching_disabled()
        table = aggregate(stream.group_by_key(Grouped.with_(TEXT, LONG)).windowed_by(windows), store)
        table.to_stream().to("out", Produced.with_(SessionWindowedSerde(TEXT)))

    return build(define)


def counted(windowed: Any, store: Materialized) -> Any:
    return windowed.count(store)


def collected(windowed: Any, store: Materialized) -> Any:
    return windowed.aggregate(collect(), materialized=store.with_value_serde(JSON))


def updates(driver: TopologyTestDriver, serde: Any = LONG) -> list[tuple[Windowed, Any, int | None]]:
    records = driver.create_output_topic("out", SessionWindowedSerde(TEXT), serde).read_records()
    return [(record.key, record.value, record.timestamp) for record in records]


@pytest.mark.parametrize("in_one_batch", [False, True])
def test_a_record_at_exactly_the_gap_from_both_neighbours_makes_one_session_of_them(in_one_batch: bool) -> None:
    """Case W10."""
    for gap, final in ((5, {(0, 10): 3}), (4, {(0, 0): 1, (5, 5): 1, (10, 10): 1})):
        windows = SessionWindows.of_inactivity_gap_and_grace(gap, 10)
        with TopologyTestDriver(sessions(windows, counted, cached=False)) as driver:
            topic = driver.create_input_topic("in", TEXT, LONG)
            (topic.pipe_batch if in_one_batch else topic.pipe_records)(at(0, 10, 5))
            assert {(w.start, w.end): n for w, n in driver.session_store("store").all().items()} == final
            if gap == 5:
                assert updates(driver) == [
                    (Windowed("k", 0, 0), 1, 0),
                    (Windowed("k", 10, 10), 1, 10),
                    (Windowed("k", 0, 0), None, 0),
                    (Windowed("k", 10, 10), None, 10),
                    (Windowed("k", 0, 10), 3, 10),
                ]


def test_sessions_are_the_same_however_the_input_is_cut() -> None:
    """Case W23."""
    records = [TestRecord("x", value, 1_711_331_276_394) for value in range(10)]
    results = set()
    for size in [1, 10, 3, 4] * 5:
        with TopologyTestDriver(sessions(SessionWindows.of_inactivity_gap_with_no_grace(10_000), collected)) as driver:
            topic = driver.create_input_topic("in", TEXT, LONG)
            for start in range(0, 10, size):
                topic.pipe_batch(records[start : start + size])
            results.add(repr(driver.session_store("store").all()))
    assert results == {repr({Windowed("x", 1_711_331_276_394, 1_711_331_276_394): list(range(10))})}


def test_a_cached_store_sends_the_last_update_of_each_session_of_a_batch() -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 100)
    with TopologyTestDriver(sessions(windows, counted)) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        topic.pipe_batch(at(0, 10, 20, 20))
        assert [(key.start, key.end, value) for key, value, _ in updates(driver)] == [
            (0, 0, 1),
            (10, 10, 1),
            (20, 20, 2),
        ]
        topic.pipe_batch(at(0, 5, 15, 16, 30))
        assert [(key.start, key.end, value) for key, value, _ in updates(driver)] == [
            (0, 0, None),
            (10, 10, None),
            (20, 20, None),
            (0, 20, 8),
            (30, 30, 1),
        ]


def test_a_session_grows_no_longer_than_its_longest_duration() -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 100).with_longest_duration(10)
    with TopologyTestDriver(sessions(windows, counted)) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        topic.pipe_records(at(0, 4, 8, 10, 11, 14, 9, 19))
        assert driver.session_store("store").all() == {Windowed("k", 0, 10): 5, Windowed("k", 11, 19): 3}


def test_a_record_between_two_sessions_too_long_together_joins_the_nearer_one() -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 100).with_longest_duration(10)
    for timestamp, joined in ((4, {(0, 4): 2, (9, 12): 2}), (5, {(0, 0): 1, (5, 12): 3})):
        with TopologyTestDriver(sessions(windows, counted)) as driver:
            driver.create_input_topic("in", TEXT, LONG).pipe_records(at(0, 9, 12, timestamp))
            assert {(w.start, w.end): n for w, n in driver.session_store("store").all().items()} == joined


def test_built_in_aggregators_merge_what_two_sessions_hold() -> None:
    built_in = struct(
        n=count(), total=sum_(), least=min_(), most=max_(), mean=avg(), first=first(), last=last(), all=collect()
    )

    def aggregated(windowed: Any, store: Materialized) -> Any:
        return windowed.aggregate(built_in, materialized=store.with_value_serde(JSON))

    windows = SessionWindows.of_inactivity_gap_and_grace(5, 100)
    with TopologyTestDriver(sessions(windows, aggregated)) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        topic.pipe_records(
            [TestRecord("k", 7, 10), TestRecord("k", 2, 0), TestRecord("k", None, 5), TestRecord("k", 3, 5)]
        )
        # The session with the older end comes first, also where it was made later.
        assert updates(driver, JSON)[-1] == (
            Windowed("k", 0, 10),
            {"n": 4, "total": 12, "least": 2, "most": 7, "mean": 4.0, "first": 2, "last": 3, "all": [2, 7, 3]},
            10,
        )


def test_a_record_whose_adder_raises_leaves_the_sessions_as_they_were() -> None:
    def failing(windowed: Any, store: Materialized) -> Any:
        return windowed.aggregate(
            lambda: 0,
            lambda key, value, old: old + 1 // value,
            lambda key, one, two: one + two,
            store.with_value_serde(LONG),
        )

    windows = SessionWindows.of_inactivity_gap_and_grace(5, 100)
    with TopologyTestDriver(
        sessions(windows, failing, cached=False), {"processing.exception.handler": "continue"}
    ) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        topic.pipe_records([TestRecord("k", 1, 0), TestRecord("k", 0, 3), TestRecord("k", 1, 6)])
        assert driver.session_store("store").fetch("k") == {Windowed("k", 0, 0): 1, Windowed("k", 6, 6): 1}
        assert driver.dropped == {DropReason.PROCESSING: 1}


def test_sessions_that_cannot_be_are_refused() -> None:
    with pytest.raises(TopologyError, match="gap must be 0 ms or more"):
        SessionWindows.of_inactivity_gap_with_no_grace(-1)
    with pytest.raises(TopologyError, match="merger"):
        sessions(
            SessionWindows.of_inactivity_gap_with_no_grace(1),
            lambda windowed, store: windowed.aggregate(lambda: 0, lambda key, value, old: old, materialized=store),
        )
    with pytest.raises(TopologyError, match="need 15 ms: inactivity gap 10 ms and grace 5 ms"):
        sessions(
            SessionWindows.of_inactivity_gap_and_grace(10, 5),
            lambda windowed, store: windowed.count(store.with_retention(14)),
        )
