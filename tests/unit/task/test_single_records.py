"""One bad record never stops the good ones: what serdes, stores, aggregations and partitioners refuse is one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    FixedKeyProcessor,
    Grouped,
    JoinWindows,
    KStream,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    aggregators,
)
from millrace.errors import TopologyError
from millrace.metrics import DropReason
from millrace.serdes import BytesSerde, JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver

TEXT, JSON = StringSerde(), JsonSerde()
SETTINGS = {"processing.exception.handler": "continue", "production.exception.handler": "continue"}
Define = Callable[[StreamsBuilder, KStream], Any]
Found = tuple[dict[str, bytes | None], dict[DropReason, int]]
ONE_FAILED = {DropReason.PROCESSING: 1}
TO_OUT = Produced.with_(TEXT, JSON)


def run(define: Define, rows: list[tuple[Any, Any]], *, values: Any = JSON, cached: bool = True) -> Found:
    """The last value of each key of ``out``, and what was dropped: of a batch as of its records one by one."""

    def outcome(batches: list[list[TestRecord]]) -> Found:
        builder = StreamsBuilder()
        define(builder, builder.stream("in", Consumed.with_(TEXT, values)))
        with TopologyTestDriver(
            builder.build(), SETTINGS | {"statestore.cache.max.bytes": None if cached else 0}
        ) as driver:
            topic = driver.create_input_topic("in", TEXT, values)
            for batch in batches:
                topic.pipe_batch(batch)
            found = driver.create_output_topic("out", TEXT, BytesSerde()).read_key_values()
            return dict(found), dict(driver.dropped)

    records = [TestRecord(key, value, time) for time, (key, value) in enumerate(rows)]
    whole = outcome([records])
    assert outcome([[record] for record in records]) == whole
    return whole


def stored(name: str, values: Any) -> Materialized:
    return Materialized.as_(name).with_key_serde(TEXT).with_value_serde(values)


def joined(_: StreamsBuilder, stream: KStream) -> None:
    windows = JoinWindows.of_time_difference_with_no_grace(60_000)
    stream.join(stream, lambda left, right: left, windows, StreamJoined.with_(TEXT, TEXT, TEXT)).to("out", TO_OUT)


def mapped_table(_: StreamsBuilder, stream: KStream) -> None:
    table = stream.to_table(stored("t", JSON)).map_values(lambda key, value: value, stored("mapped", TEXT))
    table.to_stream().to("out", TO_OUT)


def suppressed(_: StreamsBuilder, stream: KStream) -> None:
    def as_bytes(_: Any, value: Any) -> bytes:
        return JSON.serialize(value) if isinstance(value, str) else value

    # Without a serde the buffer takes bytes.
    table = stream.to_table(stored("t", JSON)).map_values(as_bytes)
    held = table.suppress(Suppressed.until_time_limit(0, BufferConfig.max_records(9)))
    held.to_stream().to("out", Produced.with_(TEXT, BytesSerde()))


def by_foreign_key(builder: StreamsBuilder, stream: KStream) -> None:
    others = builder.table("others", Consumed.with_(TEXT, TEXT), stored("others-store", TEXT))
    table = stream.to_table(stored("t", JSON))
    table.left_join(others, lambda own, other: own, foreign_key_extractor=lambda value: value).to_stream().to(
        "out", TO_OUT
    )


def by_selected_key(builder: StreamsBuilder, stream: KStream) -> None:
    table = builder.global_table("others", Consumed.with_(TEXT, TEXT))
    stream.left_join(table, lambda key, value: value, lambda own, other: own).to("out", TO_OUT)


@pytest.mark.parametrize(
    "define",
    [
        lambda _, stream: stream.to_table(stored("t", TEXT)).to_stream().to("out", TO_OUT),
        mapped_table,
        joined,
        by_foreign_key,
        by_selected_key,
        suppressed,
    ],
    ids=["a table", "a stored mapper", "a join of streams", "a foreign key", "a key of a global table", "suppress"],
)
def test_what_the_serde_of_a_store_cannot_write_is_one_record_s_failure(define: Define) -> None:
    found, dropped = run(define, [("a", "one"), ("b", 2), ("c", "three")])
    # Each side of a join keeps its records.
    failures = 2 if define is joined else 1
    assert (found, dropped) == ({"a": b'"one"', "c": b'"three"'}, {DropReason.PROCESSING: failures})


def test_a_key_that_a_store_cannot_write_is_one_record_s_failure() -> None:
    def counted(windows: Any) -> Define:
        def define(_: StreamsBuilder, stream: KStream) -> None:
            stream.to("out", TO_OUT)
            # Keys stay what they are in the repartition topic's place: nothing says that they changed.
            grouped = stream.process_values(_Keeps).group_by_key(Grouped.with_(LongSerde(), JSON))
            grouped.windowed_by(windows).count(Materialized.as_("counts"))

        return define

    for windows in (
        TimeWindows.of_size_with_no_grace(1_000),
        SlidingWindows.of_time_difference_with_no_grace(1_000),
        SessionWindows.of_inactivity_gap_with_no_grace(1_000),
    ):
        _, dropped = run(counted(windows), [("a", 1), ("b", 2)])
        assert dropped == {DropReason.PROCESSING: 2}


class _Keeps(FixedKeyProcessor[Any, Any]):
    """A fixed-key processor that forwards what it gets."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        self.context.forward(record)


@pytest.mark.parametrize("cached", [True, False])
def test_an_aggregate_that_cannot_be_written_leaves_the_one_before(cached: bool) -> None:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        table = stream.group_by_key(Grouped.with_(TEXT, JSON)).aggregate(
            lambda: 0,
            lambda key, value, total: value if isinstance(value, str) else total + value,
            stored("t", LongSerde()),
        )
        table.to_stream().to("out", TO_OUT)

    found, dropped = run(define, [("a", 1), ("a", "text"), ("a", 5), ("b", 2)], cached=cached)
    assert (found, dropped) == ({"a": b"6", "b": b"2"}, ONE_FAILED)


@pytest.mark.parametrize("cached", [True, False])
def test_what_an_adder_did_to_the_aggregate_before_it_failed_does_not_stay(cached: bool) -> None:
    def add(key: str, value: int, collected: list[int]) -> list[int]:
        collected.append(value)
        if value < 0:
            raise ValueError("a negative value")
        return collected

    def define(_: StreamsBuilder, stream: KStream) -> None:
        table = stream.group_by_key(Grouped.with_(TEXT, JSON)).aggregate(list, add, stored("t", JSON))
        table.to_stream().to("out", TO_OUT)

    found, dropped = run(define, [("a", 1), ("a", -2), ("b", -1), ("a", 3)], cached=cached)
    assert (found, dropped) == ({"a": b"[1,3]"}, {DropReason.PROCESSING: 2})


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("aggregator", "expected"),
    [
        (aggregators.avg(), float(2**62)),
        (aggregators.sum_(), -(2**63) + 1),
        (aggregators.max_(), 2**62 + 1),
        (
            aggregators.struct(mean=aggregators.avg(), most=aggregators.max_()),
            {"mean": float(2**62), "most": 2**62 + 1},
        ),
    ],
    ids=["avg", "sum", "max", "struct"],
)
def test_integers_that_a_double_does_not_hold_are_aggregated(aggregator: Any, expected: Any, cached: bool) -> None:
    def define(_: StreamsBuilder, stream: KStream) -> None:
        table = stream.group_by_key(Grouped.with_(TEXT, LongSerde())).aggregate(aggregator)
        table.to_stream().to("out", TO_OUT)

    found, dropped = run(define, [("a", 2**62), ("a", 2**62 + 1)], values=LongSerde(), cached=cached)
    assert (JSON.deserialize(found["a"] or b""), dropped) == (expected, {})


def test_an_aggregation_of_a_field_that_is_not_there_is_refused() -> None:
    builder = StreamsBuilder()
    values = JsonSerde(pa.schema([("cents", pa.int64()), ("shop", pa.string())]))
    grouped = builder.stream("in", Consumed.with_(TEXT, values)).group_by_key(Grouped.with_(TEXT, values))
    grouped.aggregate(aggregators.struct(total=aggregators.sum_("price")))
    with pytest.raises(TopologyError, match="computes sum of the field 'price', which values do not have"):
        builder.build()
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, values)).group_by_key(Grouped.with_(TEXT, values))
    grouped.aggregate(aggregators.avg("shop"))
    with pytest.raises(TopologyError, match="computes avg of values of type string"):
        builder.build()


def test_a_partitioner_that_fails_at_a_record_fails_for_that_one() -> None:
    def partition(topic: str, key: str, value: int, count: int) -> int:
        return 9 if value == 9 else 0 // value

    def define(_: StreamsBuilder, stream: KStream) -> None:
        stream.to("out", TO_OUT.with_stream_partitioner(partition))

    found, dropped = run(define, [("a", 1), ("b", 0), ("c", 9), ("d", 2)])
    assert (found, dropped) == ({"a": b"1", "d": b"2"}, {DropReason.PROCESSING: 2})


def test_a_column_that_json_has_no_columns_for_is_written_value_by_value() -> None:
    values = JsonSerde(pa.schema([("at", pa.int64()), ("name", pa.string())]))

    def define(_: StreamsBuilder, stream: KStream) -> None:
        at = pc.field("at").cast(pa.timestamp("ms", tz="UTC"))
        stream.map_values(pc.make_struct(at, pc.field("name"), field_names=["at", "name"])).to("out", TO_OUT)

    found, dropped = run(define, [("a", {"at": 1_000, "name": "x"})], values=values)
    assert (found, dropped) == ({"a": b'{"at":"1970-01-01T00:00:01+00:00","name":"x"}'}, {})


def test_whatever_a_deserializer_raises_is_its_record_s() -> None:
    class Reversed(StringSerde):
        """Texts, the wrong way round."""

        arrow_type = None  # type: ignore[assignment]

        def deserialize(self, data: bytes) -> str:
            return {b"one": "eno", b"two": "owt"}[data]

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, Reversed())).to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), {"deserialization.exception.handler": "continue"}) as driver:
        rows = [TestRecord("a", "one"), TestRecord("b", "three"), TestRecord("c", "two")]
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(rows)
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("a", "eno"), ("c", "owt")]
        assert driver.dropped == {DropReason.DESERIALIZATION: 1}
