"""Where a record can end: every operator is walked, and docs/dsl.md has the reasons for which records end there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    KStream,
    LogAndSkipOnInvalidTimestamp,
    Materialized,
    Processor,
    Produced,
    Record,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    ValueTransformerWithKey,
)
from millrace.metrics import DropReason, SilentDrop
from millrace.serdes import BytesSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology import foreign_key_join, operators

TEXT = StringSerde()
MINUTE = 60_000
SETTINGS = {
    "deserialization.exception.handler": "continue",
    "processing.exception.handler": "continue",
    "production.exception.handler": "continue",
    "errors.dead.letter.queue.topic.name": "dlq",
    "errors.dead.letter.queue.dropped.records": "all",
    "statestore.cache.max.bytes": 0,
}
PAGE = Path(__file__).parents[3] / "docs" / "dsl.md"

Define = Callable[[StreamsBuilder, KStream], Any]
Operators = tuple[type, ...]


def fails_at_bad(*given: Any) -> Any:
    if "bad" in given:
        raise ValueError("a bad value")
    return given[1]


def true_unless_bad(key: Any, value: Any) -> bool:
    fails_at_bad(key, value)
    return True


def stored(name: str) -> Materialized:
    return Materialized.as_(name).with_key_serde(TEXT).with_value_serde(TEXT)


def versioned(name: str) -> Materialized:
    supplier = Stores.persistent_versioned_key_value_store(name, MINUTE)
    return Materialized.as_(supplier).with_key_serde(TEXT).with_value_serde(TEXT)


def table(builder: StreamsBuilder, topic: str = "table") -> Any:
    return builder.table(topic, Consumed.with_(TEXT, TEXT), stored(f"{topic}-store"))


def grouped(stream: KStream) -> Any:
    return stream.group_by_key(Grouped.with_(TEXT, TEXT))


class WritesWindows(Processor[Any, Any]):
    def init(self, context: Any) -> None:
        self.store = context.get_state_store("windows")

    def process(self, record: Record[Any, Any]) -> None:
        fails_at_bad(record.key, record.value)
        self.store.put(record.key or "none", record.value, record.timestamp)


def written_to_windows(builder: StreamsBuilder, stream: KStream) -> None:
    supplier = Stores.persistent_window_store("windows", MINUTE, 10)
    builder.add_state_store(Stores.window_store_builder(supplier, TEXT, TEXT))
    stream.process(WritesWindows, "windows")


class TransformsUnlessBad(ValueTransformerWithKey[Any, Any, Any]):
    def transform(self, key: Any, value: Any) -> Any:
        return fails_at_bad(key, value)


def branched(_: StreamsBuilder, stream: KStream) -> None:
    stream.split().branch(true_unless_bad).no_default_branch()


def aggregated(windows: Any) -> Define:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        windowed = grouped(stream).windowed_by(windows)
        if isinstance(windows, SessionWindows):
            windowed.aggregate(lambda: "", lambda k, v, old: fails_at_bad(k, v), lambda k, a, b: b, stored("windows"))
        else:
            windowed.aggregate(lambda: "", lambda key, value, old: fails_at_bad(key, value), stored("windows"))

    return define


def joined_streams(builder: StreamsBuilder, stream: KStream) -> None:
    other = builder.stream("other", Consumed.with_(TEXT, TEXT))
    windows = JoinWindows.of_time_difference_with_no_grace(MINUTE)
    stream.join(other, fails_at_bad, windows, StreamJoined.with_(TEXT, TEXT, TEXT))


def self_joined(_: StreamsBuilder, stream: KStream) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(MINUTE)
    stream.join(stream, fails_at_bad, windows, StreamJoined.with_(TEXT, TEXT, TEXT))


def joined_tables(builder: StreamsBuilder, stream: KStream) -> None:
    left = stream.to_table(stored("left"))
    joined = left.join(table(builder), lambda value, other: fails_at_bad(other, value))
    joined.to_stream().to("out", Produced.with_(TEXT, TEXT))


def joined_versioned_tables(builder: StreamsBuilder, stream: KStream) -> None:
    other = builder.table("table", Consumed.with_(TEXT, TEXT), versioned("other"))
    stream.to_table(versioned("left")).join(other, lambda value, row: value)


def by_foreign_key(builder: StreamsBuilder, stream: KStream) -> None:
    extractor = lambda key, value: None if value == "none" else fails_at_bad(key, value)  # noqa: E731
    joined = stream.to_table(stored("left")).join(
        table(builder), lambda value, other: other, foreign_key_extractor=extractor
    )
    joined.to_stream().to("out", Produced.with_(TEXT, TEXT))


def value_alone(value: Any) -> Any:
    return value


def versioned_by_foreign_key(builder: StreamsBuilder, stream: KStream) -> None:
    left = stream.to_table(versioned("left"))
    left.join(table(builder), lambda value, other: other, foreign_key_extractor=value_alone)


GOOD, BAD, NO_KEY, NO_VALUE = (
    TestRecord("a", "1", 1_000),
    TestRecord("b", "bad", 1_000),
    TestRecord(None, "2", 1_000),
    TestRecord("c", None, 1_000),
)
LATE = TestRecord("a", "3", 5)
FAR = TestRecord("z", "4", 10 * MINUTE)
SEVERAL = (GOOD, BAD, NO_KEY, NO_VALUE, FAR, LATE)


@dataclass(frozen=True)
class Place:
    """A row of the page.

    Args:
        label: its first column.
        operators: whose records can end there.
        define: a topology with them, over the topic ``in``.
        records: what its topic has.
        before: what other topics have.
        rewrites: names of rewrites of the topology.
        topic: where the records go.
    """

    label: str
    operators: Operators
    define: Define
    records: tuple[TestRecord, ...] = SEVERAL
    before: tuple[tuple[str, TestRecord], ...] = ()
    rewrites: tuple[str, ...] = ()
    topic: str = "in"


IN_TABLE = (("table", TestRecord("a", "row", 1)), ("table", TestRecord("b", "row", 1)))
PLACES = [
    Place("`filter`, `filter_not`", (operators.Filter,), lambda _, s: s.filter(true_unless_bad)),
    Place("`split`", (operators.Branch,), branched),
    Place(
        "`map`, `select_key`, `group_by`", (operators.Map,), lambda _, s: s.map(lambda k, v: (k, fails_at_bad(k, v)))
    ),
    Place("`map`, `select_key`, `group_by`", (operators.SelectKey,), lambda _, s: s.select_key(fails_at_bad)),
    Place("`map_values`", (operators.MapValues,), lambda _, s: s.map_values(fails_at_bad)),
    Place(
        "`flat_map`, `flat_map_values`",
        (operators.FlatMap,),
        lambda _, s: s.flat_map(lambda k, v: [(k, fails_at_bad(k, v))]),
    ),
    Place(
        "`flat_map`, `flat_map_values`",
        (operators.FlatMapValues,),
        lambda _, s: s.flat_map_values(lambda k, v: [fails_at_bad(k, v)]),
    ),
    Place("`peek`, `foreach`", (operators.Peek,), lambda _, s: s.peek(fails_at_bad)),
    Place("`merge`", (operators.PassThrough,), lambda b, s: s.merge(b.stream("other", Consumed.with_(TEXT, TEXT)))),
    Place(
        "in front of a repartition topic",
        (operators.DropNullKeys,),
        lambda _, s: s.repartition(Repartitioned.as_("again").with_key_serde(TEXT).with_value_serde(TEXT)),
    ),
    Place(
        "`count`, `reduce`, `aggregate`",
        (operators.StreamAggregate,),
        lambda _, s: grouped(s).aggregate(lambda: "", lambda k, v, old: fails_at_bad(k, v), stored("store")),
    ),
    Place(
        "… in tumbling and hopping windows",
        (operators.WindowedAggregate,),
        aggregated(TimeWindows.of_size_with_no_grace(10)),
    ),
    Place("… in unlimited windows", (operators.WindowedAggregate,), aggregated(UnlimitedWindows.of().start_on(100))),
    Place(
        "… in sliding windows",
        (operators.SlidingAggregate,),
        aggregated(SlidingWindows.of_time_difference_with_no_grace(10)),
    ),
    Place(
        "… in sessions", (operators.SessionAggregate,), aggregated(SessionWindows.of_inactivity_gap_with_no_grace(10))
    ),
    Place(
        "… of a cogroup",
        (operators.CogroupAggregate, operators.CogroupMerge),
        lambda _, s: grouped(s).cogroup(lambda k, v, old: fails_at_bad(k, v)).aggregate(lambda: "", stored("store")),
    ),
    Place("`table`, `to_table`", (operators.TableSource,), lambda _, s: s.to_table(versioned("store"))),
    Place("`to_stream`", (operators.TableToStream,), lambda b, _: table(b).to_stream().to("out"), ()),
    Place(
        "a stream joined with a table",
        (operators.StreamTableJoin,),
        lambda b, s: s.join(table(b), lambda value, row: fails_at_bad(row, value)),
        before=IN_TABLE,
    ),
    Place(
        "a stream joined with a global table",
        (operators.StreamGlobalTableJoin,),
        lambda b, s: s.join(
            b.global_table("table", Consumed.with_(TEXT, TEXT)),
            lambda key, value: key,
            lambda value, row: fails_at_bad(row, value),
        ),
        before=IN_TABLE,
    ),
    Place(
        "two streams joined",
        (operators.StreamStreamJoin, operators.JoinBuffer),
        joined_streams,
        before=(("other", TestRecord("b", "1", 1_000)),),
    ),
    Place(
        "two streams joined",
        (operators.StreamSelfJoin,),
        self_joined,
        rewrites=("single-store-self-join",),
    ),
    Place("`process`, `process_values`", (operators.ProcessRecords,), written_to_windows),
    Place(
        "a table's `filter`, `filter_not`",
        (operators.TableFilter,),
        lambda b, _: table(b, "in-table").filter(true_unless_bad),
        topic="in-table",
        records=(GOOD, BAD),
    ),
    Place(
        "a table's `map_values`",
        (operators.TableMapValues,),
        lambda b, _: table(b, "in-table").map_values(fails_at_bad),
        topic="in-table",
        records=(GOOD, BAD),
    ),
    Place(
        "a table's `transform_values`",
        (operators.TableTransformValues,),
        lambda b, _: table(b, "in-table").transform_values(TransformsUnlessBad),
        topic="in-table",
        records=(GOOD, BAD),
    ),
    Place(
        "two tables joined",
        (operators.TableJoinSide, operators.TableJoinMerge),
        joined_tables,
        before=IN_TABLE,
        records=(GOOD, BAD),
    ),
    Place(
        "two tables joined",
        (operators.TableJoinSide,),
        joined_versioned_tables,
        before=(("table", TestRecord("a", "row", 1)),),
        records=(TestRecord("a", "1", 1_000), TestRecord("a", "0", 900)),
    ),
    Place(
        "a table's `group_by`",
        (operators.TableSelect, operators.TableAggregate),
        lambda b, _: (
            table(b, "in-table")
            .group_by(lambda k, v: (None if v == "1" else k, fails_at_bad(k, v)), Grouped.with_(TEXT, TEXT))
            .reduce(lambda old, new: new, lambda old, gone: old, stored("store"))
        ),
        topic="in-table",
        records=(GOOD, BAD),
    ),
    Place(
        "two tables joined by a foreign key",
        (
            foreign_key_join.SubscriptionSend,
            foreign_key_join.SubscriptionReceive,
            foreign_key_join.ForeignTableJoin,
            foreign_key_join.SubscriptionJoin,
            foreign_key_join.ResponseJoin,
        ),
        by_foreign_key,
        records=(GOOD, BAD, TestRecord("d", "none", 1), TestRecord("a", "2", 2)),
        before=(("table", TestRecord("1", "one", 1)),),
    ),
    Place(
        "two tables joined by a foreign key",
        (foreign_key_join.SubscriptionSend,),
        versioned_by_foreign_key,
        records=(TestRecord("a", "1", 1_000), TestRecord("a", "0", 900)),
    ),
    Place(
        "`suppress`",
        (operators.TableSuppress,),
        lambda _, s: (
            grouped(s)
            .windowed_by(TimeWindows.of_size_with_no_grace(10))
            .count(Materialized.as_("counts"))
            .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        ),
        records=(GOOD,),
    ),
    Place("every source", (), lambda _, s: s.to("out", Produced.with_(TEXT, TEXT)), records=(GOOD,)),
    Place(
        "every sink",
        (),
        lambda _, s: s.to(
            lambda key, value, context: fails_at_bad(key, value) and "out", Produced.with_(LongSerde(), TEXT)
        ),
        records=(GOOD, BAD),
    ),
    Place(
        "every sink",
        (),
        lambda _, s: s.to("out", Produced.with_(TEXT, TEXT).with_stream_partitioner(lambda *_: set())),
        records=(GOOD,),
    ),
    Place(
        "a global table",
        (),
        lambda b, s: s.join(
            b.global_table("table", Consumed.with_(TEXT, TEXT)), lambda key, value: key, lambda value, row: value
        ),
        records=(),
        before=(("table", NO_KEY),),
    ),
]
UNREADABLE = {"every source": "in", "a global table": "table"}
"""Where bytes come that are no text, and where the timestamp is negative."""


def reasons_at(place: Place) -> set[str]:
    """Why records of the place's topology went no further; those that Kafka Streams does not count are marked."""
    builder = StreamsBuilder()
    consumed = Consumed.with_(TEXT, TEXT).with_timestamp_extractor(LogAndSkipOnInvalidTimestamp())
    place.define(builder, builder.stream("in", consumed))
    with TopologyTestDriver(builder.build(rewrites=place.rewrites), SETTINGS) as driver:
        for topic, record in place.before:
            driver.create_input_topic(topic, TEXT, TEXT).pipe_batch([record])
        if place.label in UNREADABLE:
            broken = driver.create_input_topic(UNREADABLE[place.label], BytesSerde(), BytesSerde())
            broken.pipe_batch([TestRecord(b"a", b"\xff", 1)])
        if place.label == "every source":
            driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord("a", "1", -1)])
        if place.records:
            driver.create_input_topic(place.topic, TEXT, TEXT).pipe_batch(list(place.records))
        silent = {f"{reason} (silent)" for reason in driver.silently_dropped}
        return {*map(str, driver.dropped), *silent}


def documented() -> dict[str, set[str]]:
    """The rows of the page: for each place the reasons."""
    text = PAGE.read_text().partition("## Where a record can end")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    return {
        label.strip(): {each.replace("`", "") for each in re.findall(r"`(\w+`(?: \(silent\))?)", reasons)}
        for label, reasons, *_ in rows
    }


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.label)
def test_records_end_for_the_reasons_that_the_page_gives(place: Place) -> None:
    of_label = [other for other in PLACES if other.label == place.label]
    assert set().union(*map(reasons_at, of_label)) == documented()[place.label]


def test_every_operator_is_on_the_page() -> None:
    assert isinstance(operators.Operator, UnionType)
    assert {one for place in PLACES for one in place.operators} == set(get_args(operators.Operator))
    assert {place.label for place in PLACES} == set(documented())
    reasons = {reason.removesuffix(" (silent)") for reasons in documented().values() for reason in reasons}
    assert reasons == {*DropReason, *SilentDrop}


@pytest.mark.parametrize("reason", [*DropReason, *SilentDrop])
def test_every_reason_is_explained_on_the_page(reason: str) -> None:
    text = PAGE.read_text().partition("## Where a record can end")[2].partition("\n## ")[0]
    assert f"- `{reason}`" in text
