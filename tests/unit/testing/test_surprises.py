"""What surprises in Kafka Streams 4.4, each said by a test of its own, without caching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from millrace.dsl import Processor as ProcessorBase
from millrace.metrics import DropReason
from millrace.serdes import LongSerde, StringSerde
from millrace.testing import TopologyTestDriver

TEXT = StringSerde()
LONG = LongSerde()
TEN = TimeWindows.of_size_with_no_grace(10)
GROUPED = Grouped.with_(TEXT, TEXT)
Result = tuple[Any, ...]


class World:
    """Inputs called ``a`` and ``b``, and what went to ``out`` since the last look as (key, value, timestamp)."""

    def __init__(self, define: Callable[[StreamsBuilder], None]) -> None:
        builder = StreamsBuilder()
        define(builder)
        self.driver = TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": 0})

    def pipe(self, topic: str, key: str | None, value: str | None, timestamp: int) -> list[Result]:
        """Pipes one record; what came of it."""
        self.driver.create_input_topic(topic, TEXT, TEXT).pipe_input(key, value, timestamp)
        return self.read()

    def read(self) -> list[Result]:
        records = self.driver.create_output_topic("out", TEXT, TEXT).read_records()
        return [(record.key, record.value, record.timestamp) for record in records]


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Callable[[Callable[[StreamsBuilder], None]], World]:
    def make(define: Callable[[StreamsBuilder], None]) -> World:
        made = World(define)
        request.addfinalizer(made.driver.close)
        return made

    return make


Make = Callable[[Callable[[StreamsBuilder], None]], World]


def stream(builder: StreamsBuilder, topic: str = "a") -> KStream:
    return builder.stream(topic, Consumed.with_(TEXT, TEXT))


def table(builder: StreamsBuilder, topic: str, store: str | None = None) -> KTable:
    stored = Materialized.as_(store).with_caching_disabled() if store else None
    return builder.table(topic, Consumed.with_(TEXT, TEXT), materialized=stored)


def write(results: KTable | KStream) -> None:
    """Windowed keys are written as ``key[start,end]``, values as text."""
    shown = results.to_stream() if isinstance(results, KTable) else results
    shown.map(_shown).to("out", Produced.with_(TEXT, TEXT))


def _shown(key: Any, value: Any) -> tuple[Any, Any]:
    name = f"{key.key}[{key.start},{key.end}]" if hasattr(key, "start") else key
    return name, None if value is None else str(value)


def later(_: str, new: str) -> str:
    return new


def earlier(total: str, _: str) -> str:
    return total


def joined(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def test_1_filtered_records_and_null_keys_do_not_advance_an_aggregation(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        kept = stream(builder).filter(lambda _, value: value != "no")
        write(kept.group_by_key(GROUPED).windowed_by(TEN).count())

    ours = world(define)
    assert ours.pipe("a", "k", "1", 0) == [("k[0,10]", "1", 0)]
    assert ours.pipe("a", "x", "no", 100) == []
    assert ours.pipe("a", None, "1", 100) == []
    assert ours.pipe("a", "k", "1", 5) == [("k[0,10]", "2", 5)]
    assert ours.driver.dropped == {DropReason.NULL_KEY: 1}


def test_1_null_keys_advance_a_join_of_streams(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        windows = JoinWindows.of_time_difference_with_no_grace(10)
        write(stream(builder).left_join(stream(builder, "b"), joined, windows))

    ours = world(define)
    assert ours.pipe("a", "k", "1", 0) == []
    assert ours.pipe("a", None, "2", 100) == [(None, "2+None", 100)]
    assert ours.pipe("a", "z", "3", 100)[0] == ("k", "1+None", 0)


def test_1_each_input_of_a_cogroup_has_its_own_time(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        def add(_: str, value: str, total: str) -> str:
            return total + value

        first, second = (stream(builder, name).group_by_key(GROUPED) for name in "ab")
        windowed = first.cogroup(add).cogroup(second, add).windowed_by(TEN)
        write(windowed.aggregate(lambda: "", materialized=Materialized.as_("c").with_value_serde(TEXT)))

    ours = world(define)
    assert ours.pipe("a", "k", "1", 20) == [("k[20,30]", "1", 20)]
    assert ours.pipe("b", "k", "2", 0) == [("k[0,10]", "2", 0)]
    assert ours.pipe("a", "k", "3", 0) == []
    assert ours.driver.dropped == {DropReason.LATE: 1}


def test_2_windows_aggregate_null_values_and_a_reduce_of_a_null_sends_a_tombstone(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        grouped = stream(builder).group_by_key(GROUPED)
        write(grouped.windowed_by(TEN).count())
        write(grouped.windowed_by(TEN).reduce(lambda old, new: old + new, Materialized.as_("reduced")))
        write(grouped.count())

    ours = world(define)
    assert ours.pipe("a", "k", None, 1) == [("k[0,10]", "1", 1), ("k[0,10]", None, 1)]
    assert ours.driver.window_store("reduced").all() == {}
    assert ours.driver.dropped == {DropReason.NULL_VALUE: 1}


def test_3_a_join_of_streams_drops_nothing_for_lateness_but_partners_expire(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        windows = JoinWindows.of_time_difference_and_grace(10, 5)
        write(stream(builder).join(stream(builder, "b"), joined, windows))

    ours = world(define)
    ours.pipe("b", "k", "old", 0)
    ours.pipe("b", "k", "new", 24)
    assert ours.pipe("a", "k", "1", 0) == [("k", "1+old", 0)]
    ours.pipe("b", "x", "newer", 25)
    assert ours.pipe("a", "k", "2", 0) == []
    assert not ours.driver.dropped


def test_4_waiting_results_come_with_a_record_at_the_stream_time_before_its_own_matches(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        windows = JoinWindows.of_time_difference_with_no_grace(10)
        write(stream(builder).outer_join(stream(builder, "b"), joined, windows))

    ours = world(define)
    assert ours.pipe("a", "l", "1", 0) == []
    assert ours.pipe("b", "r", "2", 0) == []
    assert ours.pipe("b", "k", "3", 15) == [("r", "None+2", 0), ("l", "1+None", 0)]
    assert ours.pipe("a", None, "4", 16) == [(None, "4+None", 16)]
    assert ours.pipe("a", "m", "5", 1) == [("m", "5+None", 1)]


def test_5_a_null_value_is_dropped_by_every_join(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        looked_up, rows = stream(builder), table(builder, "t")
        everywhere = builder.global_table("g", Consumed.with_(TEXT, TEXT))
        write(looked_up.left_join(rows, joined))
        write(looked_up.left_join(everywhere, lambda key, value: None, joined))
        write(looked_up.join(stream(builder, "b"), joined, JoinWindows.of_time_difference_with_no_grace(10)))

    ours = world(define)
    assert ours.pipe("a", "k", None, 0) == []
    assert sum(ours.driver.dropped.values()) == 3
    assert ours.pipe("a", "k", "1", 0) == [("k", "1+None", 0), ("k", "1+None", 0)]
    assert ours.pipe("a", None, "2", 0)[0] == (None, "2+None", 0)


def test_6_sessions_that_merge_are_taken_back_even_if_their_bounds_stay(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        sessions = SessionWindows.of_inactivity_gap_with_no_grace(10)
        grouped = stream(builder).group_by_key(GROUPED).windowed_by(sessions)
        stored = Materialized.as_("s").with_value_serde(TEXT)
        write(
            grouped.aggregate(
                lambda: "i", lambda _, value, total: total + value, lambda _, one, two: f"({one}|{two})", stored
            )
        )

    ours = world(define)
    assert ours.pipe("a", "k", "1", 0) == [("k[0,0]", "i1", 0)]
    assert ours.pipe("a", "k", "2", 10) == [("k[0,0]", None, 0), ("k[0,10]", "(i|i1)2", 10)]
    assert ours.pipe("a", "k", "3", 5) == [("k[0,10]", None, 10), ("k[0,10]", "(i|(i|i1)2)3", 10)]


def test_7_results_have_the_larger_timestamp_of_what_made_them(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        write(stream(builder).group_by_key(GROUPED).count())
        write(table(builder, "t", "left").join(table(builder, "u", "right"), joined))

    ours = world(define)
    assert ours.pipe("a", "k", "1", 9) == [("k", "1", 9)]
    assert ours.pipe("a", "k", "2", 3) == [("k", "2", 9)]
    ours.pipe("t", "k", "l", 9)
    assert ours.pipe("u", "k", "r", 4) == [("k", "l+r", 9)]
    assert ours.pipe("u", "k", None, 5) == [("k", None, 9)]


def test_8_a_tombstone_goes_out_whenever_the_other_side_has_a_value(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        write(table(builder, "t", "left").join(table(builder, "u", "right"), joined))

    ours = world(define)
    ours.pipe("t", "k", "l", 0)
    assert ours.pipe("u", "k", None, 1) == [("k", None, 1)]
    assert ours.pipe("u", "k", None, 2) == [("k", None, 2)]
    ours.pipe("u", "k", "r", 3)
    assert ours.pipe("u", "k", "r", 4) == [("k", "l+r", 4)]


def test_8_a_foreign_key_join_sends_a_tombstone_even_if_nothing_was_sent_before(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        orders, customers = table(builder, "t", "orders"), table(builder, "u", "customers")
        write(orders.join(customers, joined, foreign_key_extractor=lambda value: value))

    ours = world(define)
    assert ours.pipe("t", "o", "c1", 0) == []
    assert ours.pipe("t", "o", "c2", 1) == [("o", None, 1)]
    assert ours.pipe("t", "o", None, 2) == [("o", None, 2)]


def test_9_a_filter_of_a_table_without_a_store_sends_a_tombstone_for_every_row_that_does_not_match(
    world: Make,
) -> None:
    def define(builder: StreamsBuilder) -> None:
        write(table(builder, "t").filter(lambda _, value: value == "yes"))
        write(table(builder, "u", "stored").filter(lambda _, value: value == "yes"))

    ours = world(define)
    assert ours.pipe("t", "k", "no", 0) == [("k", None, 0)]
    assert ours.pipe("u", "k", "no", 0) == []
    assert ours.pipe("u", "k", "yes", 1) == [("k", "yes", 1)]
    assert ours.pipe("u", "k", "no", 2) == [("k", None, 2)]


def test_10_plain_tables_take_updates_that_are_out_of_order_and_versioned_ones_keep_them_as_history(
    world: Make,
) -> None:
    def define(builder: StreamsBuilder) -> None:
        supplier = Stores.persistent_versioned_key_value_store("versioned", 1_000)
        versioned = builder.table("u", Consumed.with_(TEXT, TEXT), materialized=Materialized.as_(supplier))
        for rows in (table(builder, "t", "plain"), versioned):
            write(rows.group_by(lambda key, value: (key, value), GROUPED).reduce(later, earlier))

    ours = world(define)
    assert ours.pipe("t", "k", "new", 9) == [("k", "new", 9)]
    assert ours.pipe("t", "k", "old", 5) == [("k", "old", 9)]
    assert ours.pipe("u", "k", "new", 9) == [("k", "new", 9)]
    assert ours.pipe("u", "k", "old", 5) == []
    assert ours.driver.versioned_store("versioned").get("k", 6) == "old"


def test_11_a_row_that_stays_in_its_group_gives_one_result_and_one_that_moves_two(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        rows = table(builder, "t", "rows")
        grouped = rows.group_by(lambda _, value: (value if value != "none" else None, value), GROUPED)
        write(grouped.count())

    ours = world(define)
    assert ours.pipe("t", "k", "x", 0) == [("x", "1", 0)]
    assert ours.pipe("t", "k", "x", 1) == [("x", "1", 1)]
    assert ours.pipe("t", "k", "y", 2) == [("x", "0", 2), ("y", "1", 2)]
    assert ours.pipe("t", "k", "none", 3) == [("y", "0", 3)]
    assert not ours.driver.dropped


def test_12_a_time_limit_counts_from_a_key_s_first_update_and_a_low_new_one_is_due_at_once(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        limited = Suppressed.until_time_limit(10, BufferConfig.unbounded())
        write(stream(builder).group_by_key(GROUPED).count().suppress(limited))

    ours = world(define)
    assert ours.pipe("a", "k", "1", 0) == []
    assert ours.pipe("a", "k", "2", 9) == []
    assert ours.pipe("a", "x", "3", 10) == [("k", "2", 9)]
    assert ours.pipe("a", "low", "4", 0) == [("low", "1", 0)]


def test_12_a_sliding_window_can_have_two_final_results_at_the_exact_limit(world: Make) -> None:
    def define(builder: StreamsBuilder) -> None:
        windows = SlidingWindows.of_time_difference_with_no_grace(10)
        counted = stream(builder).group_by_key(GROUPED).windowed_by(windows).count()
        write(counted.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())))

    ours = world(define)
    assert ours.pipe("a", "k", "1", 10) == [("k[0,10]", "1", 10)]
    assert ours.pipe("a", "k", "2", 10) == [("k[0,10]", "2", 10)]


class Ticking(ProcessorBase[str, str]):
    """Forwards the moment of each punctuation."""

    kind = PunctuationType.STREAM_TIME

    def init(self, context: ProcessorContext) -> None:
        """Every ten milliseconds."""

        def tick(moment: int) -> None:
            context.forward(Record("tick", str(moment), moment))

        context.schedule(10, self.kind, tick)

    def process(self, record: Record[str, str], /) -> None:
        """Only time counts."""


class TickingByTheWall(Ticking):
    """The same by the wall clock."""

    kind = PunctuationType.WALL_CLOCK_TIME


def test_13_stream_time_punctuation_comes_after_the_first_record_and_once_for_all_that_passed(world: Make) -> None:
    ours = world(lambda builder: write(stream(builder).process(Ticking)))
    moments = [int(value) for _, value, _ in ours.pipe("a", "k", "1", 3)]
    assert moments == [3]
    assert ours.pipe("a", "k", "1", 9) == []
    assert ours.pipe("a", "k", "1", 35) == [("tick", "35", 35)]
    assert ours.pipe("a", "k", "1", 39) == []
    assert ours.pipe("a", "k", "1", 40) == [("tick", "40", 40)]


def test_13_wall_clock_punctuation_comes_an_interval_after_the_start_and_once_for_a_jump(world: Make) -> None:
    ours = world(lambda builder: write(stream(builder).process(TickingByTheWall)))
    ours.driver.advance_wall_clock_time(9)
    assert ours.read() == []
    ours.driver.advance_wall_clock_time(1)
    assert len(ours.read()) == 1
    ours.driver.advance_wall_clock_time(1_000)
    assert len(ours.read()) == 1


def with_grace(builder: StreamsBuilder) -> None:
    supplier = Stores.persistent_versioned_key_value_store("versioned", 1_000)
    rows = builder.table("t", Consumed.with_(TEXT, TEXT), materialized=Materialized.as_(supplier))
    options = Joined.with_(TEXT, TEXT).with_grace_period(10).with_name("joined")
    write(stream(builder).left_join(rows, joined, joined=options))


def test_14_a_join_with_grace_waits_for_stream_time_and_joins_late_records_at_once(world: Make) -> None:
    ours = world(with_grace)
    ours.pipe("t", "k", "r", 0)
    assert ours.pipe("a", "k", "2", 5) == []
    assert ours.pipe("a", "k", "1", 3) == []
    assert ours.pipe("a", "k", "3", 15) == [("k", "1+r", 3), ("k", "2+r", 5)]
    assert ours.pipe("a", "k", "4", 4) == [("k", "4+r", 4)]


def test_15_emit_on_close_loses_no_window_when_stream_time_jumps(world: Make) -> None:
    """Kafka Streams loses those that its store has dropped by then. Results come by start, then key."""

    def define(builder: StreamsBuilder) -> None:
        closing = stream(builder).group_by_key(GROUPED).windowed_by(TEN).emit_strategy(EmitStrategy.on_window_close())
        write(closing.count())

    ours = world(define)
    for key, timestamp in (("z", 1), ("b", 12), ("a", 12)):
        ours.pipe("a", key, "1", timestamp)
    assert ours.read() == []
    final = ours.pipe("a", "k", "1", 10_000_000)
    assert [key for key, _, _ in final] == ["a[10,20]", "b[10,20]"]


def test_16_a_left_join_with_grace_survives_a_null_key(world: Make) -> None:
    ours = world(with_grace)
    assert ours.pipe("a", None, "1", 0) == [(None, "1+None", 0)]
