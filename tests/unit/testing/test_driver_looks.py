"""What a test can see of a topology: the clock, its stores, its metrics and its output."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from millrace.errors import ConfigurationError, TopologyError
from millrace.serdes import BytesSerde, LongSerde, StringSerde, Windowed
from millrace.testing import (
    TestJoinStore,
    TestKeyValueStore,
    TestOuterJoinStore,
    TestRecord,
    TestSuppressionBuffer,
    TestWindowStore,
    TopologyTestDriver,
)

TEXT = StringSerde()
LONG = LongSerde()
READ = Consumed.with_(TEXT, TEXT)
SECOND = timedelta(seconds=1)


class TellsTheTime(Processor[Any, Any]):
    def init(self, context: Any) -> None:
        context.schedule(SECOND, PunctuationType.WALL_CLOCK_TIME, self.tell)
        self.context = context

    def tell(self, now: int) -> None:
        self.context.forward(Record("now", str(now), now))

    def process(self, record: Any) -> None:
        """Nothing is made of the input."""


@pytest.mark.parametrize("start", [1_600_000_000_000, datetime(2020, 9, 13, 12, 26, 40, tzinfo=UTC)])
def test_the_wall_clock_begins_where_the_test_says(start: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).process(TellsTheTime).to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), initial_wall_clock=start) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v")
        driver.advance_wall_clock_time(SECOND)
        out = driver.create_output_topic("out", TEXT, TEXT)
        assert [record.value for record in out.read_records()] == ["1600000001000"]


def test_a_time_without_a_zone_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).to("out")
    with pytest.raises(TopologyError, match="has no time zone"):
        TopologyTestDriver(builder.build(), initial_wall_clock=datetime(2020, 9, 13))  # noqa: DTZ001


def joined() -> StreamsBuilder:
    builder = StreamsBuilder()
    left, right = builder.stream("left", READ), builder.stream("right", READ)
    window = JoinWindows.of_time_difference_with_no_grace(SECOND)
    left.outer_join(right, lambda one, other: f"{one}+{other}", window, StreamJoined.as_("near")).to(
        "out", Produced.with_(TEXT, TEXT)
    )
    counted = left.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(SECOND)).count(Materialized.as_("seen"))
    counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("late")).to_stream(
        lambda key, _: key.key
    ).to("closed", Produced.with_(TEXT, LONG))
    builder.global_table("rates", READ, Materialized.as_("rates"))
    return builder


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(joined()) as found:
        yield found


def test_every_store_is_shown_by_its_name_those_of_joins_and_suppressions_too(driver: TopologyTestDriver) -> None:
    left = driver.create_input_topic("left", TEXT, TEXT)
    left.pipe_input("a", "1", 5)
    left.pipe_input("a", "2", 5)
    driver.create_input_topic("right", TEXT, TEXT).pipe_input("b", "3", 6)
    driver.create_input_topic("rates", TEXT, TEXT).pipe_input("EUR", "1.1", 7)
    stores = driver.all_state_stores()
    assert {name: type(store) for name, store in stores.items()} == {
        "late-store": TestSuppressionBuffer,
        "near-outer-other-join-store": TestJoinStore,
        "near-outer-shared-join-store": TestOuterJoinStore,
        "near-outer-this-join-store": TestJoinStore,
        "rates": TestKeyValueStore,
        "seen": TestWindowStore,
    }
    ours: Any = stores
    assert ours["near-outer-this-join-store"].fetch("a") == [(5, "1"), (5, "2")]
    assert list(ours["near-outer-other-join-store"].entries()) == [("b", "3", 6)]
    assert list(ours["near-outer-shared-join-store"].entries()) == [
        ("a", "1", 5, "left"),
        ("a", "2", 5, "left"),
        ("b", "3", 6, "right"),
    ]
    assert list(ours["late-store"].entries()) == [(Windowed("a", 0, 1000), 2, 5)]
    assert ours["seen"].all() == {Windowed("a", 0, 1000): 2}
    assert ours["rates"].all() == {"EUR": "1.1"}
    with pytest.raises(TopologyError, match="There is no store 'other'"):
        driver.state_store("other")


def test_output_of_all_topics_is_told_in_the_order_in_which_it_was_written(driver: TopologyTestDriver) -> None:
    left, right = driver.create_input_topic("left", TEXT, TEXT), driver.create_input_topic("right", TEXT, TEXT)
    left.pipe_input("a", "1", 5)
    right.pipe_input("a", "2", 6)
    driver.create_output_topic("out", TEXT, TEXT).read_records()
    left.pipe_input("b", "3", 2_500)
    assert driver.produced_records() == [
        ("out", TestRecord("a", "1+2", 6)),
        ("closed", TestRecord("a", 1, 5)),
    ]


def test_records_of_repartition_topics_are_told_as_bytes_where_they_are_asked_for() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", READ).group_by(lambda _, value: value, Grouped.with_(TEXT, TEXT).with_name("by"))
    grouped.count(Materialized.as_("counts")).to_stream().to("out", Produced.with_(TEXT, LONG))
    with TopologyTestDriver(builder.build(), {"application.id": "app"}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", 3)
        assert driver.produced_records() == [("out", TestRecord("v", 1, 3))]
        assert driver.produced_records(internal=True) == [
            ("app-by-repartition", TestRecord(b"v", b"v", 3)),
            ("out", TestRecord("v", 1, 3)),
        ]
        changelog = driver.create_output_topic("app-counts-changelog", TEXT, LONG)
        assert changelog.read_key_values() == [("v", 1)]


def test_names_of_produced_topics_are_those_that_got_a_record_and_no_others(driver: TopologyTestDriver) -> None:
    driver.create_output_topic("out", TEXT, TEXT)
    assert driver.produced_topic_names() == set()
    driver.create_input_topic("left", TEXT, TEXT).pipe_input("a", "1", 5)
    application = "topology-test-driver-"
    assert driver.produced_topic_names() == {
        f"{application}seen-changelog",
        f"{application}late-store-changelog",
        f"{application}near-outer-this-join-store-changelog",
        f"{application}near-outer-shared-join-store-changelog",
    }


def test_an_output_topic_that_nothing_writes_is_refused_with_those_that_there_are(driver: TopologyTestDriver) -> None:
    with pytest.raises(TopologyError, match=r"Nothing of the topology writes to the topic 'uot'.*closed, out"):
        driver.create_output_topic("uot", TEXT, TEXT)
    with pytest.raises(IndexError, match="No record is left in topic out"):
        driver.create_output_topic("out", TEXT, TEXT).read_value()


def test_where_records_choose_their_topic_any_may_be_read() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).to(lambda key, value, context: value, Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        chosen = driver.create_output_topic("chosen", TEXT, TEXT)
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "chosen", 1)
        assert chosen.read_key_value() == ("k", "chosen")
        assert driver.produced_records() == [("chosen", TestRecord("k", "chosen", 1))]


def test_metrics_are_told_by_their_names_here_and_in_kafka_streams() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(SECOND)).count(
        Materialized.as_("seen")
    ).to_stream(lambda key, _: key.key).to("out", Produced.with_(TEXT, LONG))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for key, time in (("a", 5_000), ("a", 4_999), (None, 5_001), ("b", 6_500)):
            topic.pipe_input(key, "v", time)
        assert driver.metric("millrace_stream_task_process_total") == 4
        assert driver.metric("process-total") == 4
        assert driver.metric("dropped-records-total") == 2
        assert driver.metric("dropped-records-total", reason="null_key") == 1
        assert driver.metric("records-produced-total", topic="out") == 2
        assert driver.metric("millrace_stream_task_stream_time_timestamp_seconds", store="seen") == 6.5
        (labels,) = driver.metrics()["millrace_stream_task_process_total"]
        assert labels == (("subtopology", "0"), ("task", "0_0"))
        with pytest.raises(ConfigurationError, match="does not measure commit-total"):
            driver.metric("commit-total")
        with pytest.raises(ConfigurationError, match="There is no metric 'records-lost'"):
            driver.metric("records-lost")
        with pytest.raises(ConfigurationError, match="has no label topic"):
            driver.metric("process-total", topic="in")


def test_a_builder_is_built_with_the_settings_of_the_driver() -> None:
    builder = StreamsBuilder()
    builder.table("prices", READ, Materialized.as_("prices"))
    with TopologyTestDriver(builder, {"topology.optimization": "all"}) as driver:
        driver.create_input_topic("prices", TEXT, TEXT).pipe_input("a", "1")
        assert driver.produced_topic_names() == set()
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("prices", TEXT, TEXT).pipe_input("a", "1")
        assert driver.produced_topic_names() == {"topology-test-driver-prices-changelog"}
    unnamed = StreamsBuilder()
    unnamed.stream("in", READ).group_by_key().count()
    with pytest.raises(TopologyError, match="naming"):
        TopologyTestDriver(unnamed, {"ensure.explicit.internal.resource.naming": True})


def test_records_come_in_pairs_and_values_at_the_topic_s_clock() -> None:
    topology = Topology()
    topology.add_source("s", "in", key_serde=TEXT, value_serde=TEXT)
    topology.add_sink("k", "out", "s", key_serde=TEXT, value_serde=TEXT)
    start = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT, start_timestamp=start, auto_advance=10)
        topic.pipe_key_values([("a", "1"), ("b", "2")])
        topic.advance_time(100)
        topic.pipe_values(["3"])
        out = driver.create_output_topic("out", TEXT, TEXT)
        assert out.queue_size == 3
        records = out.read_records()
        assert [(record.key, record.value, record.timestamp) for record in records] == [
            ("a", "1", 1000),
            ("b", "2", 1010),
            (None, "3", 1120),
        ]
        assert driver.create_output_topic("out", BytesSerde(), TEXT).read_values() == []
