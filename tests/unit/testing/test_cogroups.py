"""Cogroups driven through whole topologies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.dsl import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from millrace.errors import ProcessingError
from millrace.metrics import DropReason
from millrace.serdes import BytesSerde, JsonSerde, LongSerde, SessionWindowedSerde, StringSerde, TimeWindowedSerde
from millrace.testing import TestInputTopic, TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT, LONG, JSON = StringSerde(), LongSerde(), JsonSerde()
TOPICS = ("one", "two", "three")
WINDOWS: dict[str, Any] = {
    "none": None,
    "tumbling": TimeWindows.of_size_and_grace(10, 5),
    "hopping": TimeWindows.of_size_and_grace(10, 20).advance_by(4),
    "sliding": SlidingWindows.of_time_difference_and_grace(8, 10),
    "sessions": SessionWindows.of_inactivity_gap_and_grace(4, 10),
}
Row = tuple[str, str | None, int | None, int]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(TOPICS), st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 9), st.integers(0, 60)
    ),
    max_size=20,
)


def _adder(topic: str) -> Any:
    return lambda key, value, aggregate: f"{aggregate}{topic[:2]}{value};"


def _merger(key: Any, one: Any, other: Any) -> str:
    return f"({one}{other})"


def cogrouped(windows: Any, *, fails_on: int = -1, cached: bool = False) -> FrozenTopology:
    def failing(key: Any, value: Any, aggregate: Any) -> Any:
        if value == fails_on:
            raise ValueError(value)
        return _adder("two")(key, value, aggregate)

    builder = StreamsBuilder()
    one, second, three = (
        builder.stream(topic, Consumed.with_(TEXT, LONG)).group_by_key(Grouped.with_(TEXT, LONG)) for topic in TOPICS
    )
    both: Any = one.cogroup(_adder("one")).cogroup(second, failing).cogroup(three, _adder("three"))
    store = Materialized.as_("both").with_value_serde(JSON)
    store = store if cached else store.with_caching_disabled()
    windowed = both if windows is None else both.windowed_by(windows)
    if isinstance(windows, SessionWindows):
        table = windowed.aggregate(str, _merger, store)
    else:
        table = windowed.aggregate(str, store)
    key_serde: Any = TEXT
    if windows is not None:
        key_serde = SessionWindowedSerde(TEXT)
        if not isinstance(windows, SessionWindows):
            key_serde = TimeWindowedSerde(TEXT, windows.size_ms)
    table.to_stream().to("out", Produced.with_(key_serde, JSON))
    return builder.build()


def _run(topology: FrozenTopology, rows: list[Row], sizes: list[int], **more: Any) -> Any:
    with TopologyTestDriver(topology, more) as driver:
        topics: dict[str, TestInputTopic] = {name: driver.create_input_topic(name, TEXT, LONG) for name in TOPICS}
        start = turn = 0
        while start < len(rows):
            batch = rows[start : start + sizes[turn % len(sizes)]]
            driver.pipe_batch([(topics[name], TestRecord(key, value, time)) for name, key, value, time in batch])
            start, turn = start + len(batch), turn + 1
        out = [
            (record.key, record.value, record.timestamp)
            for record in driver.create_output_topic("out", BytesSerde(), BytesSerde()).read_records()
        ]
        changelogs = {
            name: [(raw.key, raw.value, raw.timestamp) for raw in logged] for name, logged in driver.changelogs.items()
        }
        return out, changelogs, dict(driver.dropped), sorted(driver.lateness)


@pytest.mark.parametrize("name", WINDOWS)
@given(rows=ROWS, sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5))
@settings(max_examples=15, deadline=None)
def test_records_of_all_inputs_are_taken_in_order_wherever_batches_end(
    name: str, rows: list[Row], sizes: list[int]
) -> None:
    # So that every cut merges them in this order.
    in_order = sorted(rows, key=lambda row: (row[3], row[0]))
    topology = cogrouped(WINDOWS[name])
    assert _run(topology, in_order, sizes) == _run(topology, in_order, [1])


def test_a_cached_store_sends_the_last_update_of_each_key_of_a_batch() -> None:
    rows: list[Row] = [("one", "a", 1, 0), ("two", "a", 2, 1), ("three", "b", 3, 2), ("one", "a", 4, 3)]
    out, changelogs, _, _ = _run(cogrouped(None, cached=True), rows, [4])
    expected = [(b"b", b'"th3;"', 2), (b"a", b'"on1;tw2;on4;"', 3)]
    assert out == expected
    assert sorted(changelogs["topology-test-driver-both-changelog"]) == sorted(expected)


def test_an_adder_that_fails_costs_its_record_and_tells_of_it() -> None:
    rows: list[Row] = [("one", "a", 7, 0), ("two", "a", 7, 1), ("two", "a", 2, 2)]
    out, _, dropped, _ = _run(cogrouped(None, fails_on=7), rows, [3], **{"processing.exception.handler": "continue"})
    assert [value for _, value, _ in out] == [b'"on7;"', b'"on7;tw2;"']
    assert dropped == {DropReason.PROCESSING: 1}
    with pytest.raises(ProcessingError, match=r"COGROUPKSTREAM-MERGE-.* failed at the record at two-0 offset 0"):
        _run(cogrouped(None, fails_on=7), rows, [3])


LAGGED_BEHIND: dict[str, tuple[Any, int]] = {
    # A window that has expired is not found either, so each record begins its sliding window or session again.
    "tumbling": (TimeWindows.of_size_and_grace(10, 5), 4),
    "hopping": (TimeWindows.of_size_and_grace(10, 5).advance_by(5), 8),
    "sliding": (SlidingWindows.of_time_difference_and_grace(10, 5), 4),
    "sessions": (SessionWindows.of_inactivity_gap_and_grace(10, 5), 4),
}


@pytest.mark.parametrize("cached", [False, True], ids=["not cached", "cached"])
@pytest.mark.parametrize("sizes", [[1], [2, 10]], ids=["record by record", "in two batches"])
@pytest.mark.parametrize("name", LAGGED_BEHIND)
def test_what_an_input_writes_into_windows_that_have_expired_is_counted_and_a_dead_letter(
    name: str, sizes: list[int], cached: bool
) -> None:
    windows, lost = LAGGED_BEHIND[name]
    topology = cogrouped(windows, cached=cached)
    rows: list[Row] = [
        ("two", "b", 1, 500_000),
        ("two", "c", 1, 500_001),
        ("one", "a", 2, 100),
        ("one", "a", 3, 104),
        ("one", "b", 4, 200_000),
        ("one", "b", 5, 200_010),
        ("one", "b", 6, 499_999),
        ("one", "a", 7, 99),
    ]
    dead = {
        "errors.dead.letter.queue.topic.name": "dead",
        "errors.dead.letter.queue.dropped.records": "all",
    }
    with TopologyTestDriver(topology, dead) as driver:
        topics: dict[str, TestInputTopic] = {name: driver.create_input_topic(name, TEXT, LONG) for name in TOPICS}
        start = 0
        for size in sizes * len(rows):
            batch = rows[start : start + size]
            start += size
            if batch:
                driver.pipe_batch([(topics[topic], TestRecord(key, value, at)) for topic, key, value, at in batch])
        dead_letters = [
            (record.value, dict(record.headers)["__millrace.dropped.reason"])
            for record in driver.create_output_topic("dead", TEXT, LONG).read_records()
        ]
        assert driver.dropped[DropReason.EXPIRED_WINDOW] == lost
        assert sorted(dead_letters) == [
            *((value, b"expired_window") for value in (2, 3, 4, 5)),
            (7, b"late"),
        ]
        # As in Kafka Streams each of them has given its update.
        assert len(driver.create_output_topic("out", BytesSerde(), BytesSerde()).read_records()) > 2
