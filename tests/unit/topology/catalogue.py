"""The topologies whose descriptions Kafka Streams gave: the same as in tests/parity/java/DescribeTopologies.java."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from millrace.dsl import (
    Branched,
    BufferConfig,
    CogroupedKStream,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    KGroupedStream,
    KStream,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    UnlimitedWindows,
)
from millrace.serdes import LongSerde, StringSerde

S = StringSerde()
STRINGS = Consumed.with_(S, S)
MINUTE = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(timedelta(minutes=5), timedelta(minutes=1))
SLIDING = SlidingWindows.of_time_difference_and_grace(timedelta(minutes=5), timedelta(minutes=1))

NEAR = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
DAY = timedelta(days=1)
STREAMS_JOINED = StreamJoined.with_(S, S, S)

Write = Callable[[StreamsBuilder], object]
CATALOGUE: dict[str, Write] = {}
OPTIMISED: dict[str, Write] = {}


def catalogued(write: Write) -> Write:
    CATALOGUE[write.__name__] = write
    return write


def optimised(write: Write) -> Write:
    OPTIMISED[write.__name__] = write
    return write


def true(key: Any, value: Any) -> bool:
    return True


def same(key: Any, value: Any) -> Any:
    return value


def pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
    return [(key, value)]


def values(key: Any, value: Any) -> list[Any]:
    return [value]


def left(value: Any, other: Any) -> Any:
    return value


def empty() -> str:
    return ""


def kept(key: Any, value: Any, aggregate: Any) -> Any:
    return aggregate


@catalogued
def filter_to(b: StreamsBuilder) -> None:
    b.stream("in").filter(true).to("out")


@catalogued
def stateless_unnamed(b: StreamsBuilder) -> None:
    stream = b.stream("in")
    mapped = stream.filter_not(true).map(pair).map_values(same).flat_map(pairs).flat_map_values(values)
    mapped.select_key(same).peek(same).to("out")
    stream.foreach(same)


@catalogued
def stateless_named(b: StreamsBuilder) -> None:
    stream = b.stream(["in-a", "in-b", "in-c"], Consumed.as_("inputs"))
    (
        stream.filter(true, named=Named.as_("keep"))
        .map(pair, named="re-map")
        .map_values(same, named="re-value")
        .flat_map(pairs, named="explode")
        .flat_map_values(values, named="explode-values")
        .select_key(same, named="re-key")
        .peek(same, named="look")
        .to("out", Produced.as_("output"))
    )
    stream.foreach(same, named="end")
    stream.filter(true).to("other")


@catalogued
def group_by_key_count(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().count().to_stream().to("out")


@catalogued
def map_group_by_key_count(b: StreamsBuilder) -> None:
    b.stream("in").map(pair).group_by_key().count().to_stream().to("out")


@catalogued
def group_by_count_named_store(b: StreamsBuilder) -> None:
    b.stream("in").group_by(same).count(Materialized.as_("counts")).to_stream().to("out")


@catalogued
def group_by_count_all_named(b: StreamsBuilder) -> None:
    grouped = b.stream("in", Consumed.as_("input")).group_by(same, Grouped.as_("by-value"))
    counts = grouped.count(Materialized.as_("counts"), named="counting")
    counts.to_stream(named="changes").to("out", Produced.as_("output"))


@catalogued
def count_with_unnamed_materialized(b: StreamsBuilder) -> None:
    b.stream("in").group_by(same).count(Materialized.with_(None, LongSerde())).to_stream().to("out")


@catalogued
def aggregations_unnamed(b: StreamsBuilder) -> None:
    grouped = b.stream("in", STRINGS).group_by(same)
    grouped.count().to_stream().to("out-count")
    grouped.reduce(left).to_stream().to("out-reduce")
    grouped.aggregate(empty, kept).to_stream().to("out-aggregate")


@catalogued
def aggregations_sharing_a_named_repartition(b: StreamsBuilder) -> None:
    grouped = b.stream("in", STRINGS).group_by(same, Grouped.as_("by-value"))
    grouped.count().to_stream().to("out-count")
    grouped.reduce(left, Materialized.as_("reduced")).to_stream().to("out-reduce")
    grouped.windowed_by(MINUTE).count().to_stream().to("out-windowed")


@catalogued
def windowed_count(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().windowed_by(MINUTE).count().to_stream().to("out")


@catalogued
def windowed_all_unnamed_after_key_change(b: StreamsBuilder) -> None:
    windows = TimeWindows.of_size_and_grace(timedelta(minutes=5), timedelta(minutes=1)).advance_by(timedelta(minutes=1))
    windowed = b.stream("in", STRINGS).select_key(same).group_by_key().windowed_by(windows)
    windowed.count().to_stream(lambda window, value: window.key).to("out-count")
    windowed.reduce(left).to_stream().to("out-reduce")
    windowed.aggregate(empty, kept).to_stream().to("out-aggregate")


@catalogued
def windowed_named(b: StreamsBuilder) -> None:
    windowed = b.stream("in").group_by(same, Grouped.as_("by-value")).windowed_by(MINUTE)
    windowed.count(Materialized.as_("counts"), named="counting").to_stream(named="changes").to("out")


@catalogued
def branches_unnamed(b: StreamsBuilder) -> None:
    branches = b.stream("in").split().branch(true).branch(true).branch(true).default_branch()
    for name in sorted(branches):
        branches[name].map_values(same).to(f"out-{name}")


@catalogued
def branches_named(b: StreamsBuilder) -> None:
    branches = (
        b.stream("in")
        .split(named="by-size-")
        .branch(true, Branched.as_("large"))
        .branch(true, Branched.with_function(lambda stream: stream.map_values(same), name="middle"))
        .branch(true, Branched.with_consumer(lambda stream: stream.to("small"), name="small"))
        .no_default_branch()
    )
    branches["by-size-large"].to("large")
    branches["by-size-middle"].to("middle")


@catalogued
def branches_of_different_sizes(b: StreamsBuilder) -> None:
    def two_ends(stream: Any) -> None:
        stream.map_values(same).to("three")
        stream.peek(same).filter(true).to("four")

    (
        b.stream("in")
        .split()
        .branch(true, Branched.with_consumer(lambda stream: stream.to("one")))
        .branch(true, Branched.with_consumer(lambda stream: stream.map_values(same).map_values(same).to("two")))
        .branch(true, Branched.with_consumer(two_ends))
        .branch(true, Branched.with_consumer(lambda stream: stream.group_by_key().count().to_stream().to("five")))
        .branch(true, Branched.with_consumer(lambda stream: stream.to("six")))
        .default_branch(Branched.with_consumer(lambda stream: stream.map_values(same).to("seven")))
    )


@catalogued
def merge(b: StreamsBuilder) -> None:
    b.stream("a").merge(b.stream("b")).to("out")


@catalogued
def merge_of_branches_then_count(b: StreamsBuilder) -> None:
    a = b.stream("a")
    other = b.stream("b").select_key(same)
    both = a.map_values(same).merge(other, named="both").merge(a.filter(true))
    both.group_by_key().count().to_stream().to("out")


@catalogued
def repartition_unnamed(b: StreamsBuilder) -> None:
    b.stream("in").repartition().map_values(same).to("out")


@catalogued
def repartition_named(b: StreamsBuilder) -> None:
    spread = b.stream("in").select_key(same).repartition(Repartitioned.as_("spread").with_number_of_partitions(3))
    spread.group_by_key().count().to_stream().to("out")


@catalogued
def to_table_unnamed(b: StreamsBuilder) -> None:
    b.stream("in").to_table().to_stream().to("out")


@catalogued
def to_table_after_key_change(b: StreamsBuilder) -> None:
    b.stream("in").map(pair).to_table(Materialized.as_("latest")).to_stream().to("out")


@catalogued
def to_table_named_after_key_change(b: StreamsBuilder) -> None:
    b.stream("in").select_key(same).to_table(named="as-table").to_stream().to("out")


@catalogued
def table_unnamed(b: StreamsBuilder) -> None:
    b.table("in").to_stream().to("out")


@catalogued
def table_named(b: StreamsBuilder) -> None:
    b.table("in", Consumed.as_("table"), Materialized.as_("latest")).to_stream().to("out")


@catalogued
def stream_table_join(b: StreamsBuilder) -> None:
    b.stream("clicks").join(b.table("users"), left).to("out")


@catalogued
def stream_table_left_join_after_select_key(b: StreamsBuilder) -> None:
    b.stream("clicks").select_key(same).left_join(b.table("users"), left).to("out")


@catalogued
def stream_table_join_named(b: StreamsBuilder) -> None:
    clicks = b.stream("clicks", STRINGS).select_key(same, named="by-user")
    users = b.table("users", STRINGS, Materialized.as_("users-store"))
    clicks.join(users, left, joined=Joined.with_(S, S).with_name("with-user")).to("out")


@catalogued
def two_joins_of_one_re_keyed_stream(b: StreamsBuilder) -> None:
    clicks = b.stream("clicks", STRINGS).select_key(same)
    users = b.table("users", STRINGS)
    plans = b.table("plans", STRINGS)
    clicks.join(users, left).to("with-users")
    clicks.left_join(plans, left).to("with-plans")


@catalogued
def join_with_an_aggregated_table(b: StreamsBuilder) -> None:
    payments = b.stream("payments")
    counts = payments.group_by_key().count(Materialized.as_("counts"))
    payments.join(counts, left).to("out")


@catalogued
def join_with_to_table(b: StreamsBuilder) -> None:
    table = b.stream("users").filter(true).to_table()
    b.stream("clicks").left_join(table, left).to("out")


@catalogued
def same_topic_twice(b: StreamsBuilder) -> None:
    b.stream("in").filter(true).to("one")
    b.stream("in").map_values(same).to("two")


@catalogued
def chained_sub_topologies(b: StreamsBuilder) -> None:
    first = b.stream("in").group_by(same).count(Materialized.as_("first")).to_stream()
    second = first.group_by(same).count(Materialized.as_("second")).to_stream()
    second.select_key(same).repartition(Repartitioned.as_("last")).to("out")


@catalogued
def independent_sub_topologies(b: StreamsBuilder) -> None:
    b.stream("b").to("out-b")
    b.stream("a").group_by(same).count().to_stream().to("out-a")
    b.stream("c").map_values(same).to("out-c")


@catalogued
def store_without_changelog(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().count(Materialized.as_("counts").with_logging_disabled()).to_stream().to("out")


def older(key: Any, aggregate: Any, other: Any) -> Any:
    return aggregate


@catalogued
def sessions_unnamed_after_key_change(b: StreamsBuilder) -> None:
    windowed = b.stream("in", STRINGS).select_key(same).group_by_key().windowed_by(SESSIONS)
    windowed.count().to_stream().to("out-count")
    windowed.reduce(left).to_stream().to("out-reduce")
    windowed.aggregate(empty, kept, older).to_stream().to("out-aggregate")


@catalogued
def sessions_named(b: StreamsBuilder) -> None:
    windowed = b.stream("in").group_by(same, Grouped.as_("by-value")).windowed_by(SESSIONS)
    windowed.count(Materialized.as_("counts"), named="counting").to_stream(named="changes").to("out")


@catalogued
def sessions_counted_with_unnamed_materialized(b: StreamsBuilder) -> None:
    windowed = b.stream("in").group_by_key().windowed_by(SESSIONS)
    windowed.count(Materialized.with_(None, LongSerde())).to_stream().to("out")


@catalogued
def sliding_unnamed_after_key_change(b: StreamsBuilder) -> None:
    windowed = b.stream("in", STRINGS).select_key(same).group_by_key().windowed_by(SLIDING)
    windowed.count().to_stream().to("out-count")
    windowed.reduce(left).to_stream().to("out-reduce")
    windowed.aggregate(empty, kept).to_stream().to("out-aggregate")


@catalogued
def sliding_named(b: StreamsBuilder) -> None:
    windowed = b.stream("in").group_by(same, Grouped.as_("by-value")).windowed_by(SLIDING)
    windowed.count(Materialized.as_("counts"), named="counting").to_stream(named="changes").to("out")


@catalogued
def sliding_counted_with_unnamed_materialized(b: StreamsBuilder) -> None:
    windowed = b.stream("in").group_by_key().windowed_by(SLIDING)
    windowed.count(Materialized.with_(None, LongSerde())).to_stream().to("out")


@catalogued
def unlimited_window(b: StreamsBuilder) -> None:
    b.stream("in").group_by_key().windowed_by(UnlimitedWindows.of()).count().to_stream().to("out")


@catalogued
def suppressed_unnamed(b: StreamsBuilder) -> None:
    grouped = b.stream("in", STRINGS).group_by_key()
    final = Suppressed.until_window_closes(BufferConfig.unbounded())
    grouped.windowed_by(MINUTE).count().suppress(final).to_stream().to("final")
    limited = Suppressed.until_time_limit(timedelta(seconds=5), BufferConfig.max_records(10))
    grouped.count().suppress(limited).map_values(same).to_stream().to("latest")


@catalogued
def emitted_on_close(b: StreamsBuilder) -> None:
    grouped = b.stream("in", STRINGS).group_by_key()
    closing = EmitStrategy.on_window_close()
    grouped.windowed_by(MINUTE).emit_strategy(closing).count().to_stream().to("tumbling")
    sliding = grouped.windowed_by(SLIDING).emit_strategy(closing).reduce(left, Materialized.as_("sliding"))
    sliding.to_stream().to("sliding")
    visits = grouped.windowed_by(SESSIONS).emit_strategy(closing).count(Materialized.as_("sessions"), named="visits")
    visits.to_stream().to("sessions")


@catalogued
def suppressed_named(b: StreamsBuilder) -> None:
    windowed = b.stream("in", STRINGS).select_key(same).group_by_key().windowed_by(MINUTE)
    final = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")
    windowed.count(Materialized.as_("counts")).suppress(final).filter(true).to_stream().to("out")


@catalogued
def suppressed_with_changelog_settings(b: StreamsBuilder) -> None:
    counts = b.stream("in", STRINGS).group_by_key().windowed_by(MINUTE).count(Materialized.as_("counts"))
    buffer = BufferConfig.unbounded().with_logging_enabled({"min.insync.replicas": "2"})
    counts.suppress(Suppressed.until_window_closes(buffer).with_name("final")).to_stream().to("out")


@catalogued
def suppressed_without_changelog(b: StreamsBuilder) -> None:
    buffer = BufferConfig.max_records(10).with_logging_disabled()
    b.table("in", STRINGS).suppress(Suppressed.until_time_limit(5000, buffer)).to_stream().to("out")


@catalogued
def suppressed_table_looked_up(b: StreamsBuilder) -> None:
    limited = Suppressed.until_time_limit(5000, BufferConfig.max_records(10))
    held = b.table("in", STRINGS, Materialized.as_("rows")).filter(true).suppress(limited.with_name("held"))
    b.stream("clicks", STRINGS).join(held, left).to("joined")
    totals = held.group_by(pair, Grouped.as_("by-value")).count(Materialized.as_("totals"))
    totals.suppress(Suppressed.until_time_limit(5000, BufferConfig.unbounded())).to_stream().to("totals")


@catalogued
def fraud_detection(b: StreamsBuilder) -> None:
    payments = b.stream("payments", STRINGS)
    customers = b.table("customers", STRINGS)
    enriched = payments.filter(true).select_key(same).left_join(customers, left)

    def count_per_minute(stream: Any) -> None:
        windowed = stream.group_by_key(Grouped.with_(S, S)).windowed_by(MINUTE)
        changes = windowed.count(Materialized.as_("payments-per-minute")).to_stream()
        changes.filter(true).map(pair).to("alerts-by-count")

    (
        enriched.split(named="risk-")
        .branch(true, Branched.with_consumer(lambda stream: stream.to("alerts"), name="high"))
        .default_branch(Branched.with_consumer(count_per_minute, name="rest"))
    )


def grown(seed: int) -> Write:
    """A topology of 40 operators, chosen and placed by a linear congruential generator."""

    def write(b: StreamsBuilder) -> None:
        state = seed

        def draw(below: int) -> int:
            nonlocal state
            state = (state * 1103515245 + 12345) % 2**31
            return (state >> 8) % below

        table = b.table("table", STRINGS, Materialized.as_("table"))
        streams = [b.stream(f"in-{number}", STRINGS) for number in range(3)]
        for number in range(40):
            stream = streams[draw(len(streams))]
            match draw(9):
                case 0:
                    streams.append(stream.filter(true))
                case 1:
                    streams.append(stream.map_values(same))
                case 2:
                    streams.append(stream.select_key(same))
                case 3:
                    streams.append(stream.merge(streams[draw(len(streams))]))
                case 4:
                    streams.append(stream.group_by_key(Grouped.with_(S, S)).count().to_stream().map_values(same))
                case 5:
                    streams.append(stream.left_join(table, left))
                case 6:
                    branches = stream.split().branch(true).branch(true).default_branch()
                    streams += [branches[name] for name in sorted(branches)]
                case 7:
                    stream.to(f"out-{number}")
                case _:
                    streams.append(stream.to_table().to_stream())

    return write


CATALOGUE |= {f"grown_{seed}": grown(seed) for seed in range(1, 9)}


def stored(name: str) -> Materialized:
    return Materialized.as_(name).with_key_serde(S).with_value_serde(S)


def combined(aggregate: Any, value: Any) -> Any:
    return value


@catalogued
def table_operators_unnamed(b: StreamsBuilder) -> None:
    table = b.table("in", STRINGS)
    table.filter(true).filter_not(true).map_values(same).transform_values(same).to_stream().to("out")
    serdes = Materialized.with_(S, S)
    table.filter(true, serdes).map_values(same, serdes).transform_values(same, serdes).to_stream().to("other")


@catalogued
def table_operators_named(b: StreamsBuilder) -> None:
    (
        b.table("in", STRINGS)
        .filter(true, stored("kept"), named="keep")
        .filter_not(true, named="drop")
        .map_values(same, stored("mapped"), named="re-value")
        .transform_values(same, stored("transformed"), named="transform")
        .to_stream()
        .to("out")
    )


@catalogued
def table_joins_unnamed(b: StreamsBuilder) -> None:
    one, two = b.table("a", STRINGS), b.table("b", STRINGS)
    one.join(two, left).to_stream().to("inner")
    one.left_join(two, left).to_stream().to("left")
    one.outer_join(two, left).to_stream().to("outer")


@catalogued
def table_joins_named(b: StreamsBuilder) -> None:
    one, two = b.table("a", STRINGS, stored("one")), b.table("b", STRINGS, stored("two"))
    one.join(two, left, stored("joined"), named="with-two").to_stream().to("inner")
    one.left_join(two, left, named="left-with-two").to_stream().to("left")
    one.outer_join(two, left, stored("outer")).to_stream().to("outer")


@catalogued
def table_join_with_unnamed_materialized(b: StreamsBuilder) -> None:
    b.table("a", STRINGS).join(b.table("b", STRINGS), left, Materialized.with_(S, S)).to_stream().to("out")


@catalogued
def table_join_of_computed_tables(b: StreamsBuilder) -> None:
    one = b.table("a", STRINGS).filter(true)
    two = b.table("b", STRINGS).map_values(same).filter_not(true)
    joined = one.outer_join(two, left)
    joined.left_join(two, left).to_stream().to("out")
    b.stream("c", STRINGS).join(joined.map_values(same), left).to("other")


@catalogued
def stream_join_with_a_filtered_table(b: StreamsBuilder) -> None:
    b.stream("clicks", STRINGS).join(b.table("users", STRINGS).filter(true), left).to("out")


@catalogued
def table_aggregations_unnamed(b: StreamsBuilder) -> None:
    grouped = b.table("in", STRINGS).group_by(pair, Grouped.with_(S, S))
    grouped.count().to_stream().to("count")
    grouped.reduce(combined, combined).to_stream().to("reduce")
    grouped.aggregate(empty, kept, kept).to_stream().to("aggregate")


@catalogued
def table_aggregations_named(b: StreamsBuilder) -> None:
    grouped = b.table("in", STRINGS).group_by(pair, Grouped.as_("by-value"))
    grouped.count(Materialized.as_("counts"), named="counting").to_stream().to("count")
    grouped.reduce(combined, combined, stored("reduced"), named="reducing").to_stream().to("reduce")
    grouped.aggregate(empty, kept, kept, stored("aggregated")).to_stream().to("aggregate")


@catalogued
def table_aggregations_with_named_stores(b: StreamsBuilder) -> None:
    grouped = b.table("in", STRINGS).group_by(pair, Grouped.with_(S, S))
    grouped.count(Materialized.as_("counts")).filter(true).to_stream().to("count")
    grouped.reduce(combined, combined, stored("reduced")).to_stream().to("reduce")


@catalogued
def table_chain(b: StreamsBuilder) -> None:
    mapped = b.table("users", STRINGS).filter(true).map_values(same)
    joined = mapped.join(b.table("plans", STRINGS), left)
    joined.group_by(pair).count().to_stream().to("out")


@optimised
def optimised_table_join(b: StreamsBuilder) -> None:
    b.stream("clicks").join(b.table("users"), left).to("out")


@optimised
def optimised_aggregations(b: StreamsBuilder) -> None:
    keyed = b.stream("in", STRINGS).select_key(same)
    keyed.group_by_key().count().to_stream().to("out-count")
    keyed.filter(true).group_by_key().reduce(left).to_stream().to("out-reduce")


@optimised
def optimised_named_aggregations(b: StreamsBuilder) -> None:
    grouped = b.stream("in", STRINGS).group_by(same, Grouped.as_("by-value"))
    grouped.count(Materialized.as_("counts")).to_stream().to("out-count")
    grouped.windowed_by(MINUTE).count(Materialized.as_("windowed")).to_stream().to("out-windowed")


@optimised
def optimised_value_change_between(b: StreamsBuilder) -> None:
    keyed = b.stream("in", STRINGS).map(lambda key, value: (value, value))
    keyed.map_values(same).group_by_key().count().to_stream().to("out-count")
    keyed.group_by_key().count().to_stream().to("out-other")


@optimised
def optimised_merge(b: StreamsBuilder) -> None:
    one = b.stream("a", STRINGS).select_key(same)
    two = b.stream("b", STRINGS).select_key(same)
    both = one.merge(two)
    both.group_by_key(Grouped.with_(S, S)).count().to_stream().to("out-count")
    both.group_by_key(Grouped.with_(S, S)).reduce(left).to_stream().to("out-reduce")


@optimised
def optimised_named_behind_a_filter(b: StreamsBuilder) -> None:
    keyed = b.stream("in", STRINGS).select_key(same, named="re-key").filter(true)
    keyed.group_by_key(Grouped.as_("by-value")).count(Materialized.as_("counts")).to_stream().to("out")


@catalogued
def stream_stream_join(b: StreamsBuilder) -> None:
    b.stream("a").join(b.stream("b"), left, NEAR).to("out")


@catalogued
def stream_stream_left_join(b: StreamsBuilder) -> None:
    b.stream("a").left_join(b.stream("b"), left, NEAR).to("out")


@catalogued
def stream_stream_outer_join(b: StreamsBuilder) -> None:
    b.stream("a").outer_join(b.stream("b"), left, NEAR).to("out")


@catalogued
def stream_stream_joins_named(b: StreamsBuilder) -> None:
    a, other = b.stream("a", STRINGS), b.stream("b", STRINGS)
    a.join(other, left, NEAR, STREAMS_JOINED.with_name("inner").with_store_name("i")).to("out-inner")
    a.left_join(other, left, NEAR, STREAMS_JOINED.with_name("left").with_store_name("l")).to("out-left")
    a.outer_join(other, left, NEAR, STREAMS_JOINED.with_name("outer").with_store_name("o")).to("out-outer")


@catalogued
def stream_stream_join_named_without_store_name(b: StreamsBuilder) -> None:
    keyed = b.stream("a", STRINGS).select_key(same)
    keyed.left_join(b.stream("b", STRINGS), left, NEAR, STREAMS_JOINED.with_name("near")).map_values(same).to("out")


@catalogued
def stream_stream_join_with_store_name_only(b: StreamsBuilder) -> None:
    b.stream("a", STRINGS).outer_join(b.stream("b", STRINGS), left, NEAR, StreamJoined.as_("near")).to("out")


@catalogued
def stream_stream_join_of_changed_keys(b: StreamsBuilder) -> None:
    keyed = b.stream("a", STRINGS).select_key(same)
    joined = keyed.join(b.stream("b", STRINGS).map(pair), left, NEAR, STREAMS_JOINED)
    joined.group_by_key(Grouped.with_(S, S)).count().to_stream().to("out")


@catalogued
def stream_stream_join_of_changed_keys_named(b: StreamsBuilder) -> None:
    keyed = b.stream("a", STRINGS).select_key(same)
    options = STREAMS_JOINED.with_name("near").with_store_name("buffer")
    keyed.outer_join(b.stream("b", STRINGS).select_key(same), left, NEAR, options).to("out")


@catalogued
def stream_stream_join_without_changelog(b: StreamsBuilder) -> None:
    options = STREAMS_JOINED.with_logging_disabled()
    b.stream("a", STRINGS).left_join(b.stream("b", STRINGS), left, NEAR, options).to("out")


@catalogued
def stream_joined_with_itself(b: StreamsBuilder) -> None:
    a = b.stream("a", STRINGS)
    a.join(a, left, NEAR, STREAMS_JOINED).to("out")


@catalogued
def re_keyed_stream_joined_with_itself(b: StreamsBuilder) -> None:
    a = b.stream("a", STRINGS).select_key(same)
    a.left_join(a, left, NEAR, STREAMS_JOINED).to("out")


@catalogued
def stream_stream_joins_in_a_row(b: StreamsBuilder) -> None:
    a, other, third = b.stream("a", STRINGS), b.stream("b", STRINGS), b.stream("c", STRINGS)
    first = a.outer_join(other, left, NEAR, STREAMS_JOINED)
    first.filter(true).join(third, left, NEAR, STREAMS_JOINED).to("out")
    first.select_key(same).left_join(a, left, NEAR, STREAMS_JOINED).to("other")


@optimised
def optimised_self_join(b: StreamsBuilder) -> None:
    a = b.stream("a", STRINGS)
    a.join(a, left, NEAR, STREAMS_JOINED.with_store_name("kept")).to("out")


@optimised
def optimised_self_joins_of_one_topic_read_twice(b: StreamsBuilder) -> None:
    b.stream("a", STRINGS).left_join(b.stream("a", STRINGS), left, NEAR, STREAMS_JOINED).to("out")
    keyed = b.stream("b", STRINGS).select_key(same)
    keyed.outer_join(keyed, left, NEAR, STREAMS_JOINED.with_name("self")).to("other")


@optimised
def optimised_stream_stream_join(b: StreamsBuilder) -> None:
    a, other = b.stream("a", STRINGS).select_key(same), b.stream("b", STRINGS).select_key(same)
    a.left_join(other.filter(true), left, NEAR, STREAMS_JOINED).to("joined")
    a.group_by_key(Grouped.with_(S, S)).count().to_stream().to("counted")
    other.group_by_key(Grouped.with_(S, S)).count().to_stream().to("counted-too")


@catalogued
def global_table_joins(b: StreamsBuilder) -> None:
    users = b.global_table("users", STRINGS)
    stream = b.stream("in", STRINGS)
    stream.join(users, same, left).to("out")
    stream.filter(true).left_join(users, same, left).to("out-left")


@catalogued
def global_table_joins_named(b: StreamsBuilder) -> None:
    stream = b.stream("in", STRINGS.with_name("input"))
    users = b.global_table("users", STRINGS.with_name("users"), Materialized.as_("user-store"))
    stream.join(users, same, left, named="enrich").to("out")
    stream.left_join(users, same, left, named=Named.as_("enrich-left")).to("out-left")


@catalogued
def global_tables_between_streams(b: StreamsBuilder) -> None:
    b.stream("a", STRINGS).to("out-a")
    one = b.global_table("one", STRINGS)
    two = b.global_table("two", STRINGS, Materialized.as_("two-store"))
    b.stream("b", STRINGS).left_join(one, same, left).join(two, same, left).to("out-b")
    b.global_table("three")
    b.table("c", STRINGS).to_stream().join(two, same, left).to("out-c")


@catalogued
def global_table_join_between_key_change_and_aggregation(b: StreamsBuilder) -> None:
    users = b.global_table("users", STRINGS)
    joined = b.stream("in", STRINGS).select_key(same).left_join(users, same, left)
    joined.group_by_key(Grouped.with_(S, S)).count().to_stream().to("out")
    joined.join(b.table("t", STRINGS), left, joined=Joined.with_(S, S)).to("joined")


@optimised
def optimised_global_table_join(b: StreamsBuilder) -> None:
    users = b.global_table("users", STRINGS)
    keyed = b.stream("in", STRINGS).select_key(same)
    keyed.left_join(users, same, left).group_by_key(Grouped.with_(S, S)).count().to_stream().to("out")
    keyed.group_by_key(Grouped.with_(S, S)).reduce(left).to_stream().to("out-reduce")
    b.table("t", STRINGS, Materialized.as_("rows")).to_stream().join(users, same, left).to("out-table")


@optimised
def optimised_join_and_aggregation(b: StreamsBuilder) -> None:
    keyed = b.stream("in", STRINGS).select_key(same)
    keyed.left_join(b.table("users", STRINGS), left).to("joined")
    keyed.peek(same).group_by_key().count().to_stream().to("counted")
    keyed.to_table(Materialized.as_("latest")).to_stream().to("tabled")


def versions(name: str) -> Materialized:
    return (
        Materialized.as_(Stores.persistent_versioned_key_value_store(name, DAY)).with_key_serde(S).with_value_serde(S)
    )


@catalogued
def versioned_tables(b: StreamsBuilder) -> None:
    users = b.table("users", STRINGS, versions("user-versions"))
    plans = b.stream("plans", STRINGS).to_table(versions("plan-versions"))
    users.filter(true).map_values(same, versions("mapped")).join(plans, left).to_stream().to("out")
    users.left_join(plans, left, versions("joined")).group_by(pair).count().to_stream().to("counts")
    b.stream("clicks", STRINGS).group_by_key().count(versions("click-versions")).to_stream().to("clicked")


@catalogued
def versioned_joins_with_grace_unnamed(b: StreamsBuilder) -> None:
    users = b.table("users", STRINGS, versions("user-versions"))
    clicks = b.stream("clicks", STRINGS)
    clicks.join(users, left, joined=Joined.with_(S, S).with_grace_period(DAY)).to("out")
    clicks.left_join(users.filter(true), left, joined=Joined.with_(S, S).with_grace_period(0)).to("other")


@catalogued
def versioned_join_with_grace_named(b: StreamsBuilder) -> None:
    users = b.table("users", STRINGS, versions("user-versions"))
    keyed = b.stream("clicks", STRINGS).select_key(same)
    keyed.join(users, left, joined=Joined.with_(S, S).with_name("with-user").with_grace_period(timedelta(hours=1))).to(
        "out"
    )
    b.stream("views", STRINGS).left_join(users, left, joined=Joined.with_(S, S)).to("other")


@optimised
def optimised_versioned_table(b: StreamsBuilder) -> None:
    clicks = b.stream("clicks", STRINGS)
    users = b.table("users", STRINGS, versions("user-versions"))
    clicks.join(users, left, joined=Joined.with_(S, S).with_grace_period(DAY)).to("out")


def strings(b: StreamsBuilder, topic: str) -> KStream:
    return b.stream(topic, STRINGS)


def two_cogrouped(b: StreamsBuilder) -> CogroupedKStream:
    return strings(b, "a").group_by_key().cogroup(kept).cogroup(strings(b, "b").group_by_key(), kept)


def changed(b: StreamsBuilder, topic: str, name: str | None = None) -> KGroupedStream:
    return strings(b, topic).group_by(same, None if name is None else Grouped.as_(name))


@catalogued
def cogroup_unnamed(b: StreamsBuilder) -> None:
    cogrouped = two_cogrouped(b).cogroup(strings(b, "c").group_by_key(), kept)
    cogrouped.aggregate(empty).to_stream().to("out")


@catalogued
def cogroup_named(b: StreamsBuilder) -> None:
    two_cogrouped(b).aggregate(empty, Materialized.as_("kept"), named="both").to_stream().to("out")


@catalogued
def cogroup_with_unnamed_materialized(b: StreamsBuilder) -> None:
    cogrouped = strings(b, "a").group_by_key().cogroup(kept)
    cogrouped.aggregate(empty, Materialized.with_(S, S)).to_stream().to("out")


@catalogued
def cogroup_of_one_changed_key(b: StreamsBuilder) -> None:
    cogrouped = strings(b, "a").select_key(same).group_by_key().cogroup(kept)
    cogrouped.cogroup(strings(b, "b").group_by_key(), kept).aggregate(empty).to_stream().to("out")


@catalogued
def cogroup_of_changed_keys_named(b: StreamsBuilder) -> None:
    cogrouped = changed(b, "a", "by-a").cogroup(kept).cogroup(changed(b, "b", "by-b"), kept)
    cogrouped.aggregate(empty, Materialized.as_("kept"), named="both").to_stream().to("out")


@catalogued
def cogroup_of_two_changed_keys_one_named(b: StreamsBuilder) -> None:
    cogrouped = changed(b, "a").cogroup(kept).cogroup(changed(b, "b", "by-b"), kept)
    cogrouped.aggregate(empty, Materialized.as_("kept")).to_stream().to("out")


@catalogued
def cogroup_aggregated_twice(b: StreamsBuilder) -> None:
    cogrouped = changed(b, "a").cogroup(kept)
    cogrouped.cogroup(strings(b, "b").group_by_key(), kept)
    cogrouped.aggregate(empty).to_stream().to("out")
    cogrouped.windowed_by(MINUTE).aggregate(empty, Materialized.as_("minutes")).to_stream().to("windowed")


@catalogued
def cogroups_of_one_grouped_stream(b: StreamsBuilder) -> None:
    one, two = changed(b, "a", "by-a"), strings(b, "b").group_by_key()
    one.cogroup(kept).cogroup(two, kept).aggregate(empty).to_stream().to("one")
    two.cogroup(kept).cogroup(two, kept).aggregate(empty).to_stream().to("two")
    two.count().to_stream().to("three")


@catalogued
def cogroup_of_one_topic_read_twice(b: StreamsBuilder) -> None:
    cogrouped = strings(b, "a").group_by_key().cogroup(kept)
    cogrouped.cogroup(strings(b, "a").filter(true).group_by_key(), kept).aggregate(empty).to_stream().to("out")


@catalogued
def windowed_cogroups_unnamed(b: StreamsBuilder) -> None:
    cogrouped = two_cogrouped(b)
    cogrouped.windowed_by(MINUTE).aggregate(empty).to_stream().to("tumbling")
    cogrouped.windowed_by(SLIDING).aggregate(empty).to_stream().to("sliding")
    cogrouped.windowed_by(SESSIONS).aggregate(empty, kept).to_stream().to("sessions")


@catalogued
def windowed_cogroups_named(b: StreamsBuilder) -> None:
    cogrouped = two_cogrouped(b)
    minutes = cogrouped.windowed_by(MINUTE).aggregate(empty, Materialized.as_("minutes-store"), named="minutes")
    minutes.to_stream().to("tumbling")
    slides = cogrouped.windowed_by(SLIDING).aggregate(empty, Materialized.as_("slides-store"), named="slides")
    slides.to_stream().to("sliding")
    visits = cogrouped.windowed_by(SESSIONS).aggregate(empty, kept, Materialized.as_("visits-store"), named="visits")
    visits.to_stream().to("sessions")


@catalogued
def joins_with_a_cogrouped_table(b: StreamsBuilder) -> None:
    both = two_cogrouped(b).aggregate(empty)
    both.left_join(b.table("c", STRINGS), left).to_stream().to("tables")
    strings(b, "d").join(both.filter(true), left).to("stream")
    both.group_by(pair).count().to_stream().to("regrouped")


@optimised
def optimised_cogroup(b: StreamsBuilder) -> None:
    keyed = strings(b, "in").select_key(same)
    one, two = keyed.group_by_key(Grouped.as_("one")), keyed.filter(true).group_by_key(Grouped.as_("two"))
    cogrouped = one.cogroup(kept).cogroup(two, kept).cogroup(strings(b, "other").group_by_key(), kept)
    cogrouped.aggregate(empty).to_stream().to("out")
    one.count().to_stream().to("counted")


@optimised
def optimised_cogroup_of_one_key_change(b: StreamsBuilder) -> None:
    keyed = strings(b, "in").select_key(same)
    cogrouped = keyed.group_by_key(Grouped.as_("one")).cogroup(kept)
    cogrouped.cogroup(keyed.group_by_key(Grouped.as_("two")), kept).windowed_by(MINUTE).aggregate(empty).to_stream().to(
        "out"
    )


def table(b: StreamsBuilder, topic: str) -> Any:
    return b.table(topic, STRINGS)


def by_value(value: Any) -> Any:
    return value


@catalogued
def foreign_key_join(b: StreamsBuilder) -> None:
    joined = table(b, "orders").join(table(b, "customers"), left, foreign_key_extractor=by_value)
    joined.to_stream().to("out")


@catalogued
def foreign_key_left_join_named(b: StreamsBuilder) -> None:
    orders = b.table("orders", STRINGS, Materialized.as_("orders"))
    customers = b.table("customers", STRINGS, Materialized.as_("customers"))
    options = TableJoined.as_("by-customer")
    joined = orders.left_join(
        customers, left, Materialized.as_("joined"), foreign_key_extractor=same, table_joined=options
    )
    joined.to_stream().to("out")


@catalogued
def foreign_key_join_with_unnamed_materialized(b: StreamsBuilder) -> None:
    joined = table(b, "orders").join(
        table(b, "customers"),
        left,
        Materialized.with_(S, S),
        foreign_key_extractor=same,
        table_joined=TableJoined.as_("by-customer"),
    )
    joined.filter(true).to_stream().to("out")


@catalogued
def foreign_key_join_with_itself(b: StreamsBuilder) -> None:
    tasks = table(b, "tasks")
    tasks.join(tasks, left, foreign_key_extractor=same).to_stream().to("out")


@catalogued
def foreign_key_joins_of_one_table(b: StreamsBuilder) -> None:
    orders = table(b, "orders")
    orders.join(table(b, "customers"), left, foreign_key_extractor=same).to_stream().to("out")
    orders.left_join(table(b, "products"), left, foreign_key_extractor=same).to_stream().to("other")


@catalogued
def foreign_key_joins_in_a_row(b: StreamsBuilder) -> None:
    strings = Materialized.with_(S, S)
    first = table(b, "orders").join(table(b, "customers"), left, strings, foreign_key_extractor=same)
    second = first.left_join(table(b, "countries"), left, strings, foreign_key_extractor=same)
    second.join(table(b, "notes"), left).to_stream().to("out")


@catalogued
def foreign_key_join_of_changed_tables(b: StreamsBuilder) -> None:
    orders = table(b, "orders").filter(true).map_values(same, Materialized.with_(S, S))
    counts = b.stream("clicks", STRINGS).group_by(same, Grouped.with_(S, S)).count()
    joined = orders.left_join(counts, left, Materialized.with_(S, S), foreign_key_extractor=same)
    joined.group_by(pair, Grouped.with_(S, S)).count().to_stream().to("out")


@catalogued
def foreign_key_join_of_re_keyed_streams(b: StreamsBuilder) -> None:
    orders = b.stream("orders", STRINGS).select_key(same).to_table(Materialized.with_(S, S))
    customers = b.stream("customers", STRINGS).select_key(same).to_table(Materialized.with_(S, S))
    orders.join(customers, left, foreign_key_extractor=same).to_stream().to("out")


@optimised
def optimised_foreign_key_join(b: StreamsBuilder) -> None:
    orders = table(b, "orders")
    options = TableJoined.as_("by-customer")
    joined = orders.join(table(b, "customers"), left, foreign_key_extractor=same, table_joined=options)
    joined.to_stream().to("out")
    clicks = b.stream("clicks", STRINGS).select_key(same).to_table(Materialized.with_(S, S))
    clicks.left_join(orders, left, foreign_key_extractor=same).to_stream().to("other")
