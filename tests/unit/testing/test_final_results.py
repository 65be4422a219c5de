"""Final results, by ``suppress`` and on window close: what real users met, and what parity does not reach."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    KTable,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)
from millrace.dsl import aggregators as agg
from millrace.errors import ProcessingError, TopologyError
from millrace.serdes import (
    BytesSerde,
    JsonSerde,
    LongSerde,
    Serde,
    SessionWindowedSerde,
    StringSerde,
    TimeWindowedSerde,
)
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.operators import TableSuppress
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
JSON = JsonSerde()
LONG = LongSerde()
FINAL = Suppressed.until_window_closes(BufferConfig.unbounded())
Windows = TimeWindows | SlidingWindows | SessionWindows
Final = tuple[Any, int, int, Any, int]
"""Key, start and end of the window, result, timestamp."""


def key_serde(windows: Windows) -> Serde:
    return (
        SessionWindowedSerde(TEXT) if isinstance(windows, SessionWindows) else TimeWindowedSerde(TEXT, windows.size_ms)
    )


def counting(windows: Windows, how: str, *, store: Materialized | None = None) -> FrozenTopology:
    """Counts by key and window, once by one of the two ways."""
    builder = StreamsBuilder()
    stored = (store or Materialized.as_("counts")).with_key_serde(TEXT)
    grouped = builder.stream("in", Consumed.with_(TEXT, JSON)).group_by_key(Grouped.with_(TEXT, JSON))
    windowed: Any = grouped.windowed_by(windows)
    if how == "emit strategy":
        table: KTable = windowed.emit_strategy(EmitStrategy.on_window_close()).count(stored)
    else:
        table = windowed.count(stored).suppress(FINAL.with_name("final"))
    table.to_stream().to("out", Produced.with_(key_serde(windows), LONG))
    return builder.build()


def finals(driver: TopologyTestDriver, windows: Windows) -> list[Final]:
    records = driver.create_output_topic("out", key_serde(windows), LONG).read_records()
    return [(r.key.key, r.key.start, r.key.end, r.value, r.timestamp or 0) for r in records]


def run(topology: FrozenTopology, windows: Windows, batches: list[list[TestRecord]]) -> list[Final]:
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        for batch in batches:
            topic.pipe_batch(batch)
        return finals(driver, windows)


HOW = pytest.mark.parametrize("how", ["suppress", "emit strategy"])
TEN = TimeWindows.of_size_with_no_grace(10)


@HOW
def test_a_final_result_comes_when_stream_time_passes_not_when_the_clock_does(how: str) -> None:
    """Case W12."""
    windows = TimeWindows.of_size_and_grace(10, 5)
    with TopologyTestDriver(counting(windows, how)) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_input("k", 1, 1)
        topic.pipe_input("k", 1, 2)
        driver.advance_wall_clock_time(timedelta(seconds=30))
        topic.pipe_input("o", 1, 14)
        assert finals(driver, windows) == []
        topic.pipe_input("o", 1, 15)
        assert finals(driver, windows) == [("k", 0, 10, 2, 2)]
        driver.advance_wall_clock_time(timedelta(days=30))
        assert finals(driver, windows) == []


@HOW
def test_what_an_idle_stream_holds_back_is_counted(how: str) -> None:
    windows = TimeWindows.of_size_and_grace(10, 5)
    store = "final-store" if how == "suppress" else "counts"
    with TopologyTestDriver(counting(windows, how)) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        assert driver.held_back()[store][::2] == (0, None)
        topic.pipe_batch([TestRecord("k", 1, 21), TestRecord("k", 1, 13), TestRecord("j", 1, 22)])
        results, size_bytes, since_ms = driver.held_back()[store]
        assert (results, since_ms) == (3, 20)
        assert (size_bytes is not None) == (how == "suppress")
        topic.pipe_input("k", 1, 40)
        assert driver.held_back()[store][::2] == (1, 50)


@HOW
@pytest.mark.parametrize("declared", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("published", [("a", "b"), ("b", "a")])
def test_the_order_of_merged_inputs_does_not_change_sessions(
    how: str, declared: tuple[str, str], published: tuple[str, str]
) -> None:
    """Case W24."""
    windows = SessionWindows.of_inactivity_gap_and_grace(60_000, 60_000)
    builder = StreamsBuilder()
    first, second = (builder.stream(name, Consumed.with_(TEXT, JSON)) for name in declared)
    windowed = first.merge(second).group_by_key(Grouped.with_(TEXT, JSON)).windowed_by(windows)
    if how == "emit strategy":
        windowed = windowed.emit_strategy(EmitStrategy.on_window_close())
    lists = windowed.aggregate(
        list,
        lambda key, value, values: sorted([*values, value]),
        lambda key, older, newer: sorted([*older, *newer]),
        Materialized.as_("lists").with_key_serde(TEXT).with_value_serde(JSON),
    )
    final = lists if how == "emit strategy" else lists.suppress(FINAL)
    final.to_stream().to("out", Produced.with_(SessionWindowedSerde(TEXT), JSON))
    times = {"a": 10_000, "b": 11_000}
    with TopologyTestDriver(builder.build()) as driver:
        topics = {name: driver.create_input_topic(name, TEXT, JSON) for name in declared}
        for name in published:
            topics[name].pipe_input("k", name, times[name])
        topics["a"].pipe_input("later", "x", 200_000)
        found = driver.create_output_topic("out", SessionWindowedSerde(TEXT), JSON).read_records()
    assert [(r.key.key, r.key.start, r.key.end, r.value) for r in found] == [("k", 10_000, 11_000, ["a", "b"])]


@HOW
def test_a_restart_of_the_stream_finds_what_was_held_back(how: str) -> None:
    """Each record a batch of its own, and all of them in one, give the same results once."""
    records = [TestRecord("k", 1, 1), TestRecord("k", 1, 5), TestRecord("o", 1, 20), TestRecord("p", 1, 40)]
    wanted = [("k", 0, 10, 2, 5), ("o", 20, 30, 1, 20)]
    topology = counting(TEN, how)
    assert run(topology, TEN, [[record] for record in records]) == wanted
    assert run(topology, TEN, [records]) == wanted


ALL_WINDOWS: dict[str, Windows] = {
    "tumbling": TEN,
    "tumbling with grace": TimeWindows.of_size_and_grace(10, 7),
    "hopping": TimeWindows.of_size_and_grace(10, 3).advance_by(4),
    "sliding": SlidingWindows.of_time_difference_and_grace(10, 3),
    "sessions": SessionWindows.of_inactivity_gap_and_grace(5, 3),
}
TIMES = st.lists(st.integers(0, 40) | st.integers(0, 10**6), max_size=25)
CUTS = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def cut(records: list[TestRecord], sizes: list[int]) -> list[list[TestRecord]]:
    batches: list[list[TestRecord]] = []
    while records:
        size = sizes[len(batches) % len(sizes)]
        batches.append(records[:size])
        records = records[size:]
    return batches


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("windows", ALL_WINDOWS.values(), ids=ALL_WINDOWS)
@settings(max_examples=30, deadline=None)
@given(times=TIMES, keys=st.lists(st.sampled_from("abc"), min_size=25, max_size=25), sizes=CUTS)
def test_no_jump_of_time_and_no_cut_of_the_input_loses_a_window(
    windows: Windows, cached: bool, times: list[int], keys: list[str], sizes: list[int]
) -> None:
    """The store's own retention, which Kafka Streams loses windows by; against a retention that is never reached."""

    def topology(*, retained: bool) -> FrozenTopology:
        store = Materialized.as_("counts")
        store = store.with_retention(10**9) if retained else store
        return counting(windows, "emit strategy", store=store if cached else store.with_caching_disabled())

    records = [TestRecord(key, 1, time) for key, time in zip(keys, times, strict=False)]
    wanted = run(topology(retained=True), windows, [[record] for record in records])
    if not isinstance(windows, SessionWindows):
        # A session that has closed may still be found by a later record, where the store still has it.
        assert run(topology(retained=False), windows, [[record] for record in records]) == wanted
    alone = run(topology(retained=False), windows, [[record] for record in records])
    assert run(topology(retained=False), windows, cut(records, sizes)) == alone
    assert run(topology(retained=True), windows, cut(records, sizes)) == wanted


def test_a_jump_beyond_the_retention_emits_the_windows_before_it() -> None:
    records = [TestRecord("k", 1, 1), TestRecord("k", 1, 11), TestRecord("j", 1, 11), TestRecord("k", 1, 10**9)]
    wanted = [("k", 0, 10, 1, 1), ("j", 10, 20, 1, 11), ("k", 10, 20, 1, 11)]
    topology = counting(TEN, "emit strategy")
    assert run(topology, TEN, [records[:2], records[2:]]) == wanted
    assert run(topology, TEN, [records]) == wanted


@HOW
@pytest.mark.parametrize("windows", ALL_WINDOWS.values(), ids=ALL_WINDOWS)
def test_a_failed_batch_leaves_what_was_held_back(how: str, windows: Windows) -> None:
    topology = counting(windows, how)
    good = [TestRecord("k", 1, 1), TestRecord("j", 1, 3)]
    bad = [TestRecord("k", 1, 2), TestRecord("k", 1, 1000), TestRecord("i", 1, 900), TestRecord("x", 1, -1)]
    rest = [TestRecord("k", 1, 4), TestRecord("k", 1, 500), TestRecord("k", 1, 1000)]
    with TopologyTestDriver(topology) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_batch(good)
        with pytest.raises(ProcessingError):
            topic.pipe_batch(bad)
        topic.pipe_batch(rest)
        found = finals(driver, windows)
    assert found == run(topology, windows, [good, rest])
    assert found


def test_a_failed_batch_leaves_the_view_of_a_buffer() -> None:
    builder = StreamsBuilder()
    table = builder.table("t", Consumed.with_(TEXT, JSON), Materialized.as_("rows").with_value_serde(JSON))
    held = table.suppress(Suppressed.until_time_limit(100, BufferConfig.unbounded()))
    builder.stream("in", Consumed.with_(TEXT, JSON)).left_join(held, lambda left, right: [1 // left, right]).to(
        "out", Produced.with_(TEXT, JSON)
    )
    with TopologyTestDriver(builder.build()) as driver:
        rows, stream = (driver.create_input_topic(name, TEXT, JSON) for name in ("t", "in"))
        rows.pipe_input("k", "old", 0)
        rows.pipe_input("other", "x", 200)
        with pytest.raises(ProcessingError):
            driver.pipe_batch([(rows, TestRecord("k", "new", 201)), (stream, TestRecord("k", 0, 202))])
        stream.pipe_input("k", 1, 203)
        driver.pipe_batch([(rows, TestRecord("k", "new", 204)), (stream, TestRecord("k", 1, 205))])
        rows.pipe_input("other", "y", 400)
        stream.pipe_input("k", 1, 401)
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [
            ("k", [1, "old"]),
            ("k", [1, "old"]),
            ("k", [1, "new"]),
        ]


def test_means_are_held_back_as_results() -> None:
    builder = StreamsBuilder()
    windowed = builder.stream("in", Consumed.with_(TEXT, JSON)).group_by_key().windowed_by(TEN)
    stored = Materialized.as_("means").with_key_serde(TEXT)
    mean = windowed.aggregate(agg.avg(), None, stored)
    mean.suppress(FINAL).to_stream(lambda key, _: key.key).to("held", Produced.with_(TEXT, JSON))
    closing = windowed.emit_strategy(EmitStrategy.on_window_close())
    means = closing.aggregate(agg.avg(), None, Materialized.as_("again").with_key_serde(TEXT))
    means.to_stream(lambda key, _: key.key).to("closed", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_batch(
            [TestRecord("k", 1, 1), TestRecord("k", 4, 2), TestRecord("k", 9, 20)]
        )
        for name in ("held", "closed"):
            assert driver.create_output_topic(name, TEXT, JSON).read_key_values() == [("k", 2.5)]


# ---- what is refused


def test_windows_that_never_close_send_nothing_on_close() -> None:
    windowed = StreamsBuilder().stream("in").group_by_key().windowed_by(UnlimitedWindows.of())
    with pytest.raises(TopologyError, match="Unlimited windows never close"):
        windowed.emit_strategy(EmitStrategy.on_window_close())
    windowed.emit_strategy(EmitStrategy.on_window_update()).count()


@pytest.mark.parametrize(
    "buffer",
    [BufferConfig.max_records(10), BufferConfig.max_bytes(10), BufferConfig.unbounded().emit_early_when_full()],
)
def test_final_results_need_a_strict_buffer(buffer: BufferConfig) -> None:
    with pytest.raises(TopologyError, match="final only if none goes early"):
        Suppressed.until_window_closes(buffer)
    Suppressed.until_window_closes(buffer.shut_down_when_full())
    Suppressed.until_window_closes(buffer.with_no_bound())


def test_a_table_without_windows_has_none_that_close() -> None:
    plain = StreamsBuilder().table("in", Consumed.with_(TEXT, TEXT))
    with pytest.raises(TopologyError, match=r"never close that has none: node 'KTABLE-SOURCE"):
        plain.filter(lambda key, value: True).suppress(FINAL)


def test_the_longest_grace_of_all_windows_above_counts() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key()
    streams = [
        grouped.windowed_by(windows).count().to_stream()
        for windows in (
            TimeWindows.of_size_and_grace(10, 7),
            SlidingWindows.of_time_difference_and_grace(10, 8),
            SessionWindows.of_inactivity_gap_and_grace(5, 4),
        )
    ]
    merged = streams[0].merge(streams[1]).merge(streams[2])
    merged.to_table(Materialized.with_(TimeWindowedSerde(TEXT, 10), LONG)).suppress(FINAL.with_name("final"))
    (node,) = (node for part in builder.build().sub_topologies for node in part.processors if node.name == "final")
    assert isinstance(node.operator, TableSuppress)
    assert node.operator.wait_ms == 9


@pytest.mark.parametrize("limit", [-1, timedelta(milliseconds=-1)])
def test_no_limit_is_negative(limit: Any) -> None:
    with pytest.raises(TopologyError, match="cannot wait for -1 ms"):
        Suppressed.until_time_limit(limit, BufferConfig.unbounded())
    with pytest.raises(TopologyError, match="limited to -1 keys"):
        BufferConfig.max_records(-1)
    with pytest.raises(TopologyError, match="limited to -2 bytes"):
        BufferConfig.unbounded().with_max_bytes(-2)


def test_a_buffer_keeps_its_other_settings_when_one_changes() -> None:
    buffer = BufferConfig.max_records(1).with_max_bytes(2).with_logging_enabled({"min.insync.replicas": "2"})
    for changed in (buffer, buffer.shut_down_when_full(), buffer.shut_down_when_full().emit_early_when_full()):
        assert (changed.record_limit, changed.byte_limit) == (1, 2)
        assert changed.changelog_settings == (("min.insync.replicas", "2"),)
    unbounded = buffer.with_no_bound()
    assert (unbounded.record_limit, unbounded.byte_limit) == (None, None)
    assert unbounded.changelog_settings == (("min.insync.replicas", "2"),)
    assert not buffer.with_logging_disabled().logging
    assert buffer.with_logging_disabled().changelog_settings == ()


def test_a_value_that_the_tables_serde_cannot_write_is_told() -> None:
    builder = StreamsBuilder()
    mapped = builder.table("in", Consumed.with_(TEXT, JSON)).map_values(
        lambda key, value: {"n": value}, Materialized.with_(TEXT, BytesSerde())
    )
    mapped.suppress(Suppressed.until_time_limit(1, BufferConfig.unbounded()).with_name("held"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        with pytest.raises(
            ProcessingError, match=r"Node held cannot keep a value in the buffer held-store with BytesSerde"
        ):
            topic.pipe_input("k", 1, 1)


def test_a_key_that_lost_its_window_is_told() -> None:
    builder = StreamsBuilder()
    counts = builder.stream("in", Consumed.with_(TEXT, JSON)).group_by_key().windowed_by(TEN).count()
    plain = counts.to_stream(lambda key, _: key.key).to_table(Materialized.with_(TEXT, LONG))
    plain.suppress(FINAL.with_name("held")).to_stream().to("out", Produced.with_(TEXT, BytesSerde()))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        with pytest.raises(ProcessingError, match="Node held holds results back until their windows close"):
            topic.pipe_input("k", 1, 1)
