"""Dead-letter records of records that operators drop: asked for by reason, one for a record, with the reason in a
header."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.config import DROPPED_BY_OPERATORS, StreamsConfig
from millrace.dsl import (
    Consumed,
    Grouped,
    JoinWindows,
    KStream,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Produced,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
)
from millrace.errors import ConfigurationError
from millrace.metrics import DropReason, SilentDrop
from millrace.serdes import JsonSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
DEAD = "dead-letters"
MINUTE = 60_000


def settings(asked: str) -> dict[str, Any]:
    return {
        "errors.dead.letter.queue.topic.name": DEAD,
        "errors.dead.letter.queue.dropped.records": asked,
        "deserialization.exception.handler": "continue",
        "processing.exception.handler": "continue",
    }


def topology(define: Any) -> FrozenTopology:
    builder = StreamsBuilder()
    define(builder, builder.stream("in", Consumed.with_(TEXT, TEXT)))
    return builder.build()


def dead_letters(driver: TopologyTestDriver) -> list[tuple[str | None, str | None, str, str]]:
    """Key, value, reason and offset of each dead-letter record."""
    found = []
    for record in driver.create_output_topic(DEAD, TEXT, TEXT).read_records():
        headers = dict(record.headers)
        reason = headers.get("__millrace.dropped.reason") or headers["__streams.errors.exception"]
        offset = headers["__streams.errors.offset"]
        assert reason is not None
        assert offset is not None
        found.append((record.key, record.value, reason.decode(), offset.decode()))
    return found


def run(
    built: FrozenTopology, records: list[TestRecord], asked: str = "all", *, in_batches: bool = False
) -> tuple[list[tuple[str | None, str | None, str, str]], dict[DropReason, int]]:
    with TopologyTestDriver(built, settings(asked)) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        if in_batches:
            topic.pipe_batch(records)
        else:
            for record in records:
                topic.pipe_batch([record])
        return dead_letters(driver), dict(driver.dropped)


def both_ways(built: FrozenTopology, records: list[TestRecord], asked: str = "all") -> list[Any]:
    """The dead-letter records, which are the same record by record and in one batch."""
    one_by_one = run(built, records, asked)
    assert run(built, records, asked, in_batches=True) == one_by_one
    return one_by_one[0]


def _counted(windows: Any) -> FrozenTopology:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        stream.group_by_key().windowed_by(windows).count(Materialized.as_("counts"))

    return topology(define)


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of_size_with_no_grace(10),
        SlidingWindows.of_time_difference_with_no_grace(10),
        SessionWindows.of_inactivity_gap_with_no_grace(10),
    ],
    ids=["tumbling", "sliding", "sessions"],
)
def test_a_late_record_and_one_without_a_key_have_a_dead_letter_each(windows: Any) -> None:
    records = [TestRecord("a", "1", 5), TestRecord("b", "2", 100), TestRecord("a", "late", 7), TestRecord(None, "x", 8)]
    built = _counted(windows)
    assert both_ways(built, records) == [("a", "late", "late", "2"), (None, "x", "null_key", "3")]
    assert both_ways(built, records, "late") == [("a", "late", "late", "2")]
    assert both_ways(built, records, "") == []


def test_a_record_that_is_too_late_for_some_of_its_windows_only_is_counted_and_not_dropped() -> None:
    built = _counted(TimeWindows.of_size_with_no_grace(10).advance_by(5))
    records = [TestRecord("a", "1", 22), TestRecord("a", "partly", 18), TestRecord("a", "wholly", 11)]
    found, dropped = run(built, records, in_batches=True)
    assert (found, dropped) == run(built, records)
    assert found == [("a", "wholly", "late", "2")]
    assert dropped == {DropReason.LATE: 3}


def test_a_dead_letter_has_the_records_bytes_and_headers_and_says_where_it_was_dropped() -> None:
    with TopologyTestDriver(_counted(TimeWindows.of_size_with_no_grace(10)), settings("null_key")) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord(None, "v", 7, headers=[("own", b"1")])])
        (record,) = driver.create_output_topic(DEAD, TEXT, TEXT).read_records()
    assert (record.key, record.value, record.timestamp) == (None, "v", 7)
    assert record.headers == [
        ("own", b"1"),
        ("__millrace.dropped.reason", b"null_key"),
        ("__millrace.dropped.node", b"KSTREAM-AGGREGATE-0000000001"),
        ("__streams.errors.topic", b"in"),
        ("__streams.errors.partition", b"0"),
        ("__streams.errors.offset", b"0"),
    ]


def test_a_record_that_several_operators_drop_has_one_dead_letter() -> None:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        stream.group_by_key().count(Materialized.as_("one"))
        stream.flat_map_values(lambda _, value: [value, value]).group_by_key().count(Materialized.as_("two"))

    found, dropped = run(topology(define), [TestRecord(None, "v", 1)])
    assert found == [(None, "v", "null_key", "0")]
    assert dropped == {DropReason.NULL_KEY: 3}


def test_a_record_for_which_a_handler_wrote_a_dead_letter_has_no_other_for_being_dropped() -> None:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        stream.map_values(lambda _, value: int(value)).to("out", Produced.with_(TEXT, JsonSerde()))
        stream.group_by_key().count(Materialized.as_("counts"))

    records = [TestRecord(None, "no number", 1), TestRecord(None, "2", 2)]
    assert both_ways(topology(define), records) == [
        (None, "no number", "builtins.ValueError", "0"),
        (None, "2", "null_key", "1"),
    ]


def test_both_sides_of_a_stream_join_give_dead_letters_and_so_do_joins_with_tables() -> None:
    def define(builder: StreamsBuilder, stream: KStream) -> None:
        windows = JoinWindows.of_time_difference_with_no_grace(MINUTE)
        other = stream.filter(lambda _, value: value != "left only")
        stream.join(other, lambda one, two: one + two, windows, StreamJoined.with_(TEXT, TEXT, TEXT)).to(
            "joined", Produced.with_(TEXT, TEXT)
        )
        table = builder.table("table", Consumed.with_(TEXT, TEXT))
        stream.join(table, lambda one, two: one + two).to("looked-up", Produced.with_(TEXT, TEXT))

    records = [
        TestRecord("a", "1", 0),
        TestRecord(None, "2", 1),
        TestRecord("b", None, 2),
        TestRecord("b", "far", 10 * MINUTE),
        TestRecord("a", "expired", 3),
    ]
    assert both_ways(topology(define), records) == [
        (None, "2", "null_key", "1"),
        ("b", None, "null_value", "2"),
        ("a", "expired", "expired_window", "4"),
    ]


def test_a_negative_timestamp_has_a_dead_letter_wherever_there_is_a_topic_for_them() -> None:
    builder = StreamsBuilder()
    consumed = Consumed.with_(TEXT, TEXT).with_timestamp_extractor(LogAndSkipOnInvalidTimestamp())
    builder.stream("in", consumed).to("out", Produced.with_(TEXT, TEXT))
    records = [TestRecord("a", "1", 5), TestRecord("a", "2", -1)]
    assert both_ways(builder.build(), records, "") == [("a", "2", "negative_timestamp", "1")]


@pytest.mark.parametrize("asked", ["all", "null_key"])
def test_a_record_without_a_key_in_front_of_a_repartition_topic_has_a_dead_letter(asked: str) -> None:
    def define(builder: StreamsBuilder, stream: KStream) -> None:
        stream.repartition(Repartitioned.with_(TEXT, TEXT))
        stream.group_by(lambda key, value: None if value == "none" else value, Grouped.with_(TEXT, TEXT)).count()
        stream.select_key(lambda key, _: key).to_table(Materialized.with_(TEXT, TEXT))

    records = [TestRecord("a", "1", 1), TestRecord(None, "2", 2), TestRecord("b", "none", 3)]
    found = both_ways(topology(define), records, asked)
    assert found == [(None, "2", "null_key", "1"), ("b", "none", "null_key", "2")]
    with TopologyTestDriver(topology(define), settings("")) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(records)
        assert dead_letters(driver) == []
        assert driver.dropped == {}
        assert driver.silently_dropped == {SilentDrop.NULL_KEY: 3}


def test_a_record_before_unlimited_windows_has_a_dead_letter() -> None:
    built = _counted(UnlimitedWindows.of().start_on(10))
    records = [TestRecord("a", "1", 9), TestRecord("a", "2", 10)]
    assert both_ways(built, records, "before_window") == [("a", "1", "before_window", "0")]
    assert both_ways(built, records, "late") == []


def test_a_record_dropped_behind_a_repartition_topic_is_known_by_its_place_there() -> None:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        grouped = stream.group_by(lambda key, _: f"new {key}", Grouped.with_(TEXT, TEXT))
        grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(Materialized.as_("counts"))

    with TopologyTestDriver(topology(define), settings("late")) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord("a", "1", 50), TestRecord("a", "late", 1)])
        (record,) = driver.create_output_topic(DEAD, TEXT, TEXT).read_records()
    headers = dict(record.headers)
    assert (record.key, headers["__streams.errors.offset"]) == ("new a", b"1")
    assert headers["__streams.errors.topic"] == b"topology-test-driver-counts-repartition"


def test_nothing_of_a_batch_that_fails_becomes_a_dead_letter() -> None:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        stream.group_by_key().count(Materialized.as_("counts"))
        stream.map_values(lambda _, value: 1 // len(value)).to("out", Produced.with_(TEXT, JsonSerde()))

    failing = {**settings("all"), "processing.exception.handler": "fail"}
    with TopologyTestDriver(topology(define), failing) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(Exception, match="ZeroDivisionError"):
            topic.pipe_batch([TestRecord(None, "a", 1), TestRecord("k", "", 2)])
        topic.pipe_batch([TestRecord("k", "a", 3)])
        assert dead_letters(driver) == []
        assert driver.dropped == {}


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"errors.dead.letter.queue.dropped.records": "late"}, "needs errors.dead.letter.queue.topic.name"),
        (
            {
                "errors.dead.letter.queue.topic.name": "dlq",
                "errors.dead.letter.queue.dropped.records": "late, lost",
            },
            "knows all, late, null_key, .*; not lost",
        ),
        (
            {
                "errors.dead.letter.queue.topic.name": "dlq",
                "errors.dead.letter.queue.dropped.records": "processing",
            },
            "not processing",
        ),
    ],
)
def test_reasons_that_are_unknown_or_have_no_topic_are_refused(asked: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "b:1", **asked})


def test_every_reason_of_operators_can_be_asked_for() -> None:
    asked = ",".join(DROPPED_BY_OPERATORS)
    config = StreamsConfig.from_mapping({"application.id": "a", "bootstrap.servers": "b:1", **settings(asked)})
    assert config.dead_lettered_drops == {*DROPPED_BY_OPERATORS}
    assert {DropReason.LATE, DropReason.NULL_KEY, DropReason.EXPIRED_WINDOW} <= config.dead_lettered_drops


def test_a_record_that_a_global_table_drops_has_a_dead_letter_too() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("global", Consumed.with_(TEXT, TEXT))
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    joined = stream.join(table, lambda _, value: value or None, lambda one, two: f"{one}{two}")
    joined.to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), settings("null_key")) as driver:
        rows = driver.create_input_topic("global", TEXT, TEXT)
        rows.pipe_batch([TestRecord(None, "no key", 1), TestRecord("x", "row", 2), TestRecord(None, "again", 3)])
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord("k", "x", 4), TestRecord("k", "", 5)])
        records = driver.create_output_topic(DEAD, TEXT, TEXT).read_records()
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("k", "xrow")]
    found = [
        (record.value, dict(record.headers)["__streams.errors.topic"], dict(record.headers)["__streams.errors.offset"])
        for record in records
    ]
    assert found == [("no key", b"global", b"0"), ("again", b"global", b"2"), ("", b"in", b"1")]
