"""Tables: what real users met, and what parity with Kafka Streams (caching off) does not reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import (
    Consumed,
    Grouped,
    KTable,
    Materialized,
    Produced,
    StreamsBuilder,
    TimeWindows,
)
from millrace.dsl import aggregators as agg
from millrace.errors import ProcessingError, TopologyError
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver

TEXT = StringSerde()
LONG = LongSerde()
JSON = JsonSerde()
TABLE = Consumed.with_(TEXT, JSON)
Records = list[TestRecord]
Pipe = Callable[[TopologyTestDriver, Records], None]


def store(name: str, value_serde: Any = JSON) -> Materialized:
    return Materialized.as_(name).with_key_serde(TEXT).with_value_serde(value_serde)


@pytest.fixture(params=["record by record", "in one batch"])
def pipe(request: pytest.FixtureRequest) -> Pipe:
    def run(driver: TopologyTestDriver, records: Records) -> None:
        topic = driver.create_input_topic("in", TEXT, JSON)
        if request.param == "in one batch":
            topic.pipe_batch(records)
        else:
            topic.pipe_records(records)

    return run


def values_of(driver: TopologyTestDriver, topic: str = "out") -> list[tuple[Any, Any]]:
    return driver.create_output_topic(topic, TEXT, JSON).read_key_values()


def by_group(key: Any, value: Any) -> tuple[Any, Any]:
    return value["g"], value["v"]


def listed(key: Any, value: Any, rows: list[Any]) -> list[Any]:
    return sorted([*rows, value], reverse=True)[:5]


def unlisted(key: Any, value: Any, rows: list[Any]) -> list[Any]:
    return [row for row in rows if row != value]


def test_a_filter_of_sums_deletes_only_what_it_sent(pipe: Pipe) -> None:
    """Case T01."""
    builder = StreamsBuilder()
    sums = (
        builder.stream("in", TABLE)
        .group_by_key(Grouped.with_(TEXT, JSON))
        .aggregate(lambda: 0, lambda key, value, total: total + value, store("sums").with_caching_disabled())
    )
    sums.filter(lambda key, total: total > 0).to_stream().to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, [TestRecord("1", value, time) for time, value in enumerate((-5, 6, -2, -1))])
        assert values_of(driver) == [("1", 1), ("1", None)]


@pytest.mark.parametrize(
    ("aggregation", "results"),
    [((agg.sum_(), None, None), [2, 5]), ((list, listed, unlisted), [[2], [5]])],
    ids=["sum", "largest five"],
)
def test_an_update_within_a_group_shows_no_value_in_between(
    aggregation: tuple[Any, ...], results: list[Any], pipe: Pipe
) -> None:
    """Case T02: subtracted and added in one step, in this order."""
    builder = StreamsBuilder()
    rows = builder.table("in", TABLE, store("rows").with_caching_disabled())
    grouped = rows.group_by(by_group, Grouped.with_(TEXT, JSON))
    initializer, adder, subtractor = aggregation
    made = grouped.aggregate(initializer, adder, subtractor, store("groups").with_caching_disabled())
    made.to_stream().to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, [TestRecord("k1", {"g": "G", "v": 2}, 0), TestRecord("k1", {"g": "G", "v": 5}, 1)])
        assert values_of(driver) == [("G", result) for result in results]
        assert driver.key_value_store("groups").all() == {"G": results[-1]}


GROUP_CHANGES = [
    TestRecord("k1", {"g": "A", "v": 10}, 0),
    TestRecord("k1", {"g": "B", "v": 10}, 1),
    TestRecord("k1", None, 2),
    TestRecord("k1", None, 3),
]


def test_sums_of_groups_end_at_zero_when_their_rows_are_gone() -> None:
    """Case T03."""
    builder = StreamsBuilder()
    grouped = builder.table("in", TABLE).group_by(by_group, Grouped.with_(TEXT, JSON))
    sums = grouped.aggregate(agg.sum_(), None, None, store("sums").with_caching_disabled())
    sums.to_stream().to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_records(GROUP_CHANGES[:3])
        assert values_of(driver) == [("A", 10), ("A", 0), ("B", 10), ("B", 0)]
        topic.pipe_records(GROUP_CHANGES[3:])
        assert values_of(driver) == []
        assert driver.key_value_store("sums").all() == {"A": 0, "B": 0}


def test_a_change_that_is_processed_again_is_subtracted_once() -> None:
    """Case T03, with a failure between storing the row and the commit."""
    failures = [RuntimeError("before the commit")]

    def fails_once(key: Any, value: Any) -> None:
        if value is not None and value["g"] == "B" and failures:
            raise failures.pop()

    builder = StreamsBuilder()
    table = builder.table("in", TABLE, store("rows"))
    grouped = table.group_by(by_group, Grouped.with_(TEXT, JSON))
    grouped.aggregate(agg.sum_(), None, None, store("sums"))
    table.to_stream().foreach(fails_once)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_records(GROUP_CHANGES[:1])
        with pytest.raises(ProcessingError):
            topic.pipe_records(GROUP_CHANGES[1:2])
        assert driver.key_value_store("sums").all() == {"A": 10}
        topic.pipe_records(GROUP_CHANGES[1:])
        assert driver.key_value_store("sums").all() == {"A": 0, "B": 0}


def test_with_caching_a_batch_sends_one_change_whose_old_value_is_that_before_the_batch() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", TABLE, store("rows"))
    table.group_by(by_group, Grouped.with_(TEXT, JSON)).count(store("counts", LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_batch([TestRecord("k", {"g": group, "v": 1}, 0) for group in "ABC"])
        topic.pipe_batch([TestRecord("k", {"g": group, "v": 1}, 0) for group in "DE"])
        changes = driver.create_output_topic("topology-test-driver-counts-repartition", TEXT, StringSerde())
        assert changes.read_key_values() == [("C", "1\x01"), ("C", "1\x00"), ("E", "1\x01")]
        assert driver.key_value_store("counts").all() == {"C": 0, "E": 1}


@pytest.mark.parametrize("cached", [True, False])
def test_the_first_count_of_a_key_takes_nothing_from_another_group(cached: bool) -> None:
    """Kafka Streams without caching takes 0, the initializer's value, for the old count, and counts "x" out of 0."""
    builder = StreamsBuilder()
    options = store("counts", LONG)
    counts = builder.stream("in", TABLE).group_by_key().count(options if cached else options.with_caching_disabled())
    groups = counts.group_by(lambda key, count: (f"{count} times", count), Grouped.with_(TEXT, JSON))
    groups.count(store("groups", LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_records([TestRecord(key, 1, time) for time, key in enumerate("xyxz")])
        assert driver.key_value_store("groups").all() == {"1 times": 2, "2 times": 1}


def test_a_join_of_cached_tables_sees_every_update_and_ends_as_without_caching() -> None:
    ends = []
    for settings in ({}, {"statestore.cache.max.bytes": 0}):
        builder = StreamsBuilder()
        one, two = builder.table("in", TABLE, store("one")), builder.table("other", TABLE, store("two"))
        one.outer_join(two, lambda left, right: [left, right], store("joined"))
        with TopologyTestDriver(builder.build(), settings) as driver:
            left = driver.create_input_topic("in", TEXT, JSON)
            right = driver.create_input_topic("other", TEXT, JSON)
            driver.pipe_batch(
                [
                    *((left, TestRecord("a", value, value)) for value in (1, 4, 6)),
                    *((right, TestRecord("a", value, value)) for value in (2, 3, 5)),
                    (right, TestRecord("b", 7, 7)),
                    (right, TestRecord("b", None, 8)),
                ]
            )
            ends.append(driver.key_value_store("joined").all())
    assert ends == [{"a": [6, 5]}] * 2


def test_what_is_grouped_behind_a_join_ends_as_without_caching() -> None:
    ends = []
    for settings in ({}, {"statestore.cache.max.bytes": 0}):
        builder = StreamsBuilder()
        one, two = builder.table("in", TABLE, store("one")), builder.table("other", TABLE, store("two"))
        joined = one.join(two, lambda left, right: f"{left}{right}")
        grouped = joined.group_by(lambda key, pair: (pair, key), Grouped.with_(TEXT, JSON))
        grouped.count(store("pairs", LONG))
        with TopologyTestDriver(builder.build(), settings) as driver:
            left = driver.create_input_topic("in", TEXT, JSON)
            right = driver.create_input_topic("other", TEXT, JSON)
            for first in (1, 5):
                driver.pipe_batch(
                    [
                        *((left, TestRecord("a", value, value)) for value in (first, first + 2)),
                        *((right, TestRecord("a", value, value)) for value in (first + 1, first + 3)),
                    ]
                )
            ends.append(driver.key_value_store("pairs").all())
    assert ends[0] == ends[1]
    assert {pair: count for pair, count in ends[0].items() if count} == {"78": 1}
    assert min(ends[0].values()) == 0


def test_averages_of_groups_follow_their_rows() -> None:
    builder = StreamsBuilder()
    grouped = builder.table("in", TABLE).group_by(by_group, Grouped.with_(TEXT, JSON))
    made = grouped.aggregate(agg.struct(mean=agg.avg(), rows=agg.count()), None, None, store("groups"))
    made.to_stream().to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        for key, value in (("a", 2), ("b", 4), ("a", 6)):
            topic.pipe_input(key, {"g": "G", "v": value}, 0)
        topic.pipe_input("a", None, 0)
        topic.pipe_input("b", None, 0)
        assert [value for _, value in values_of(driver)] == [
            {"mean": 2.0, "rows": 1},
            {"mean": 3.0, "rows": 2},
            {"mean": 5.0, "rows": 2},
            {"mean": 4.0, "rows": 1},
            {"mean": None, "rows": 0},
        ]


def test_a_table_has_a_queryable_name_where_the_user_gave_one() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", TABLE, store("rows"))
    unnamed = builder.table("other", TABLE)
    tables: list[KTable] = [
        table,
        table.filter(lambda key, value: True, store("filtered")),
        unnamed,
        table.filter(lambda key, value: True),
        table.map_values(lambda key, value: value),
        table.join(unnamed, lambda left, right: left, Materialized.with_(TEXT, JSON)),
        builder.stream("stream", TABLE).group_by_key().count(),
    ]
    assert [each.queryable_store_name for each in tables] == ["rows", "filtered", None, None, None, None, None]


@pytest.mark.parametrize("aggregator", [agg.min_(), agg.collect(), agg.struct(rows=agg.count(), last=agg.last())])
def test_a_built_in_aggregation_that_cannot_subtract_is_refused(aggregator: Any) -> None:
    grouped = StreamsBuilder().table("in", TABLE).group_by(by_group)
    with pytest.raises(TopologyError, match="cannot take a value back"):
        grouped.aggregate(aggregator)


def test_tables_of_different_builders_are_not_joined() -> None:
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        StreamsBuilder().table("in").join(StreamsBuilder().table("other"), lambda left, right: left)


def test_a_windowed_table_is_looked_up_by_key_and_window() -> None:
    builder = StreamsBuilder()
    source = builder.stream("in", Consumed.with_(TEXT, TEXT))
    windowed = source.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count()
    joined = windowed.join(windowed.map_values(lambda key, count: count * 10), lambda left, right: [left, right])
    joined.to_stream(lambda key, _: f"{key.key}@{key.start}").to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for timestamp in (1, 2, 11):
            topic.pipe_input("a", "x", timestamp)
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values_to_map() == {
            "a@0": [2, 20],
            "a@10": [1, 10],
        }
