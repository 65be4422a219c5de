"""Applications that real users run, whole: the cases T08 to T11, W26, W27 and P19."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import (
    Consumed,
    Grouped,
    KStream,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Stores,
    StreamsBuilder,
    TimeWindows,
    ValueAndTimestamp,
)
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde, Windowed
from millrace.testing import TestRecord, TopologyTestDriver

TEXT, LONG, JSON = StringSerde(), LongSerde(), JsonSerde()
HOUR = 3_600_000
Pipe = Callable[[TopologyTestDriver, str, list[TestRecord]], None]
IN_PLACES = pytest.mark.parametrize("cached", [True, False], ids=["cached", "not cached"])


@pytest.fixture(params=["record by record", "in one batch"])
def pipe(request: pytest.FixtureRequest) -> Pipe:
    def run(driver: TopologyTestDriver, topic: str, records: list[TestRecord]) -> None:
        into = driver.create_input_topic(topic, TEXT, JSON)
        if request.param == "in one batch":
            into.pipe_batch(records)
        else:
            into.pipe_records(records)

    return run


def store(name: str, *, cached: bool, key_serde: Any = TEXT) -> Materialized:
    options = Materialized.as_(name).with_key_serde(key_serde).with_value_serde(JSON)
    return options.with_caching_enabled() if cached else options.with_caching_disabled()


def last(driver: TopologyTestDriver, topic: str, key_serde: Any = TEXT, value_serde: Any = JSON) -> dict[Any, Any]:
    return driver.create_output_topic(topic, key_serde, value_serde).read_key_values_to_map()


@IN_PLACES
def test_charts_whose_aggregates_are_changed_in_place_take_back_what_they_had(pipe: Pipe, cached: bool) -> None:
    """Case T08."""

    def played(song: str, genre: str, plays: dict[str, Any]) -> dict[str, Any]:
        plays["n"] += 1
        plays["genre"] = genre
        return plays

    def add(genre: str, song: list[Any], chart: list[Any]) -> list[Any]:
        chart.append(song)
        chart.sort(key=lambda entry: (-entry[1], entry[0]))
        return chart

    def remove(genre: str, song: list[Any], chart: list[Any]) -> list[Any]:
        assert song in chart, "what is taken back must not have changed"
        chart.remove(song)
        return chart

    builder = StreamsBuilder()
    plays = builder.stream("plays", Consumed.with_(TEXT, JSON)).group_by_key(Grouped.with_(TEXT, JSON))
    counts = store("plays-by-song", cached=cached)
    by_song = plays.aggregate(lambda: {"n": 0, "genre": None}, played, counts)
    by_genre = by_song.group_by(lambda song, row: (row["genre"], [song, row["n"]]), Grouped.with_(TEXT, JSON))
    chart = by_genre.aggregate(list, add, remove, store("charts", cached=cached))
    chart.to_stream().map_values(lambda _, songs: [song for song, _ in songs]).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        songs = ("s1", "punk"), ("s2", "punk"), ("s2", "punk"), ("s1", "rock"), ("s3", "rock"), ("s3", "rock")
        rows = [TestRecord(song, genre, at) for at, (song, genre) in enumerate([*songs, ("s3", "rock")], 1)]
        pipe(driver, "plays", rows)
        assert last(driver, "out") == {"punk": ["s2"], "rock": ["s3", "s1"]}


class Expiring(Processor[str, str]):
    """A table whose rows go when they have not changed for a minute; it deletes them while it scans them."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(20_000, PunctuationType.STREAM_TIME, self.expire)

    def process(self, record: Record[str, str], /) -> None:
        rows = self.context.get_state_store("rows")
        rows.put(record.key, ValueAndTimestamp(record.value, record.timestamp))
        self.context.forward(record)

    def expire(self, now: int) -> None:
        rows = self.context.get_state_store("rows")
        for key, row in rows.all():
            if row.timestamp < now - 60_000:
                rows.delete(key)
                self.context.forward(Record(key, None, now))


def test_a_punctuation_deletes_rows_while_it_scans_them(pipe: Pipe) -> None:
    """Case T09."""
    rows = Stores.timestamped_key_value_store_builder(Stores.persistent_key_value_store("rows"), TEXT, JSON)
    builder = StreamsBuilder()
    stream = builder.add_state_store(rows).stream("in", Consumed.with_(TEXT, JSON))
    stream.process(Expiring, "rows").to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        updates = ("a", "1", 0), ("b", "1", 5_000), ("c", "1", 10_000), ("a", "2", 30_000)
        pipe(driver, "in", [TestRecord(*row) for row in (*updates, ("z", "1", 70_000), ("z", "2", 100_000))])
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [
            ("a", "1"),
            ("b", "1"),
            ("c", "1"),
            ("a", "2"),
            ("z", "1"),
            ("b", None),
            ("z", "2"),
            ("a", None),
            ("c", None),
        ]
        assert list(driver.key_value_store("rows").all()) == ["z"]


@IN_PLACES
def test_change_events_without_the_row_from_before_give_the_right_sums(pipe: Pipe, cached: bool) -> None:
    """Case T10."""
    topic = "shop.public.orders"

    def event(op: str, after: Any, before: Any = None) -> dict[str, Any]:
        return {"schema": {"type": "struct"}, "payload": {"op": op, "before": before, "after": after}}

    def order(customer: str, cents: int) -> dict[str, Any]:
        return {"customer": customer, "cents": cents}

    def changed(sign: int) -> Callable[[str, int, dict[str, int]], dict[str, int]]:
        def change(customer: str, cents: int, total: dict[str, int]) -> dict[str, int]:
            return {"orders": total["orders"] + sign, "cents": total["cents"] + sign * cents}

        return change

    builder = StreamsBuilder()
    events = builder.stream(topic, Consumed.with_(TEXT, JSON))
    rows = events.map_values(lambda _, envelope: None if envelope is None else envelope["payload"]["after"])
    orders = rows.to_table(store("orders", cached=cached))
    by_customer = orders.group_by(lambda _, row: (row["customer"], row["cents"]), Grouped.with_(TEXT, JSON))
    totals = by_customer.aggregate(
        lambda: {"orders": 0, "cents": 0}, changed(1), changed(-1), store("totals", cached=cached)
    )
    totals.to_stream().to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        records = [
            TestRecord("1", event("r", order("ann", 500)), 1),
            TestRecord("2", event("c", order("ann", 700)), 2),
            TestRecord("1", event("u", order("ann", 900)), 3),
            TestRecord("2", event("u", order("bob", 700)), 4),
            TestRecord("1", event("d", None, {"id": 1}), 5),
            TestRecord("1", None, 5),
            TestRecord("3", event("c", order("bob", 50)), 6),
            TestRecord("3", event("u", order("bob", 50)), 6),
        ]
        pipe(driver, topic, records)
        found = last(driver, "out")
        assert found["bob"] == {"orders": 2, "cents": 750}
        # In one cached batch ann's rows come and go before anything is sent.
        assert found.get("ann", {"orders": 0, "cents": 0}) == {"orders": 0, "cents": 0}


def test_a_topic_may_be_source_and_sink_of_the_same_application(pipe: Pipe) -> None:
    """Case T11."""
    builder = StreamsBuilder()
    executions = builder.stream("executions", Consumed.with_(TEXT, JSON))
    unfinished = executions.filter(lambda _, execution: execution["step"] < 3)
    unfinished.map_values(lambda _, execution: {"step": execution["step"] + 1}).to(
        "executions", Produced.with_(TEXT, JSON)
    )
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, "executions", [TestRecord("e", {"step": 0}, 5)])
        written = driver.create_output_topic("executions", TEXT, JSON).read_records()
        assert [(record.key, record.value, record.timestamp) for record in written] == [
            ("e", {"step": 1}, 5),
            ("e", {"step": 2}, 5),
            ("e", {"step": 3}, 5),
        ]


@IN_PLACES
def test_a_windowed_table_is_grouped_by_another_windowed_key(pipe: Pipe, cached: bool) -> None:
    """Case W26."""
    windowed = TimeWindowedSerde(TEXT, HOUR)

    def add(industry: Windowed, article: list[Any], top: list[Any]) -> list[Any]:
        return sorted([*top, article], key=lambda entry: (-entry[1], entry[0]))

    def remove(industry: Windowed, article: list[Any], top: list[Any]) -> list[Any]:
        # Without caching it also gets the 0 before the first count.
        return [entry for entry in top if entry != article]

    builder = StreamsBuilder()
    views = builder.stream("views", Consumed.with_(TEXT, JSON))
    by_article = views.group_by(lambda _, view: view, Grouped.with_(TEXT, JSON))
    counts = by_article.windowed_by(TimeWindows.of_size_with_no_grace(HOUR)).count(
        Materialized.as_("counts").with_caching_enabled()
        if cached
        else Materialized.as_("counts").with_caching_disabled()
    )

    def by_industry(article: Windowed, count: int) -> tuple[Windowed, list[Any]]:
        name, industry = article.key.split()
        return Windowed(industry, article.start, article.end), [name, count]

    grouped = counts.group_by(by_industry, Grouped.with_(windowed, JSON))
    top = grouped.aggregate(list, add, remove, store("top", cached=cached, key_serde=windowed))
    top.to_stream().map_values(lambda _, articles: [name for name, _ in articles[:2]]).to(
        "out", Produced.with_(windowed, JSON)
    )
    with TopologyTestDriver(builder.build()) as driver:
        seen = ("A eng", 1), ("B eng", 2), ("B eng", 3), ("C eng", 4), ("C eng", 5), ("C eng", 6), ("A eng", HOUR + 1)
        pipe(driver, "views", [TestRecord("u", view, at) for view, at in seen])
        assert last(driver, "out", windowed) == {
            Windowed("eng", 0, HOUR): ["C", "B"],
            Windowed("eng", HOUR, 2 * HOUR): ["A"],
        }


class Deduplicating(Processor[str, str]):
    """Passes a record on unless one of its id was seen within five minutes, before or after it."""

    def process(self, record: Record[str, str], /) -> None:
        seen = self.context.get_state_store("seen")
        at = record.timestamp
        known = list(seen.fetch(record.value, at - 300_000, at + 300_000))
        seen.put(record.value, at, at)
        if not known:
            self.context.forward(record)


def test_a_look_into_a_window_store_may_begin_before_the_epoch(pipe: Pipe) -> None:
    """Case W27."""
    supplier = Stores.persistent_window_store("seen", 600_000, 600_000)
    builder = StreamsBuilder()
    builder.add_state_store(Stores.window_store_builder(supplier, TEXT, LONG))
    stream = builder.stream("in", Consumed.with_(TEXT, JSON))
    stream.process(Deduplicating, "seen").to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        ids = ("e1", 0), ("e1", 1), ("e2", 2), ("e1", 300_000), ("e1", 600_001), ("e2", 0)
        pipe(driver, "in", [TestRecord("k", name, at) for name, at in ids])
        passed = driver.create_output_topic("out", TEXT, JSON).read_records()
        assert [(record.value, record.timestamp) for record in passed] == [("e1", 0), ("e2", 2), ("e1", 600_001)]


def test_headers_keep_their_order_their_repetitions_and_their_bytes(pipe: Pipe) -> None:
    """Case P19."""

    def define(stream: KStream) -> None:
        stream.map_values(lambda _, value: value).to("out", Produced.with_(TEXT, JSON))
        by_value = stream.select_key(lambda _, value: value).group_by_key(Grouped.with_(TEXT, JSON))
        by_value.count().to_stream().to("counts", Produced.with_(TEXT, LONG))

    headers: list[tuple[str, bytes | None]] = [
        ("ce_id", b"1"),
        ("traceparent", b"\xff\x00\x80"),
        ("traceparent", b"2"),
        ("empty", b""),
        ("null", None),
    ]
    builder = StreamsBuilder()
    define(builder.stream("in", Consumed.with_(TEXT, JSON)))
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, "in", [TestRecord("k", "v", 1, headers), TestRecord("k2", "w", 2)])
        for topic, serde in (("out", JSON), ("counts", LONG)):
            found = driver.create_output_topic(topic, TEXT, serde).read_records()
            assert [list(record.headers) for record in found] == [headers, []], topic
