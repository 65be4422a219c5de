"""Expressions: records that one cannot be computed for, names that record and value share, values without a type.

Cases P15 and P17 of the public reports, and their siblings.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.dsl import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    StreamsBuilder,
    TimeWindows,
    record_key,
    record_timestamp,
    record_value,
    value_field,
)
from millrace.errors import ProcessingError, TopologyError
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde
from millrace.testing import TestRecord, TopologyTestDriver

TEXT, JSON = StringSerde(), JsonSerde()
CENTS = JsonSerde(pa.schema([("cents", pa.int64()), ("n", pa.int64())]))
READING = JsonSerde(
    pa.schema([("device", pa.string()), ("timestamp", pa.int64()), ("value", pa.float64()), ("key", pa.string())])
)
CONTINUE = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dlq"}
PRICE = pc.divide(pc.field("cents"), pc.field("n"))


class Outcome:
    """What a topology from ``in`` to ``out`` makes of records, and which it leaves to the handler."""

    def __init__(
        self,
        builder: StreamsBuilder,
        records: list[Any],
        value_serde: Any,
        *,
        one_by_one: bool = False,
        out: Any = JSON,
    ) -> None:
        with TopologyTestDriver(builder.build(), CONTINUE) as driver:
            topic = driver.create_input_topic("in", TEXT, value_serde)
            rows = [record if isinstance(record, TestRecord) else TestRecord(*record) for record in records]
            self.dropped: dict[DropReason, int] = {}
            for batch in [[row] for row in rows] if one_by_one else [rows]:
                topic.pipe_batch(batch)
                for reason, count in driver.dropped.items():
                    self.dropped[reason] = self.dropped.get(reason, 0) + count
            self.out = driver.create_output_topic("out", TEXT, out).read_key_values()
            dead_letters = driver.create_output_topic("dlq", TEXT, value_serde).read_records()
            self.failed = [record.key for record in dead_letters]
            self.errors = [dict(record.headers)["__streams.errors.message"] or b"" for record in dead_letters]


def outcome(builder: StreamsBuilder, records: list[Any], value_serde: Any, *, out: Any = JSON) -> Outcome:
    """The outcome of a batch, which is that of its records one by one."""
    whole = Outcome(builder, records, value_serde, out=out)
    alone = Outcome(builder, records, value_serde, one_by_one=True, out=out)
    assert (whole.out, whole.failed, whole.errors) == (alone.out, alone.failed, alone.errors)
    return whole


DIVISIONS = [("a", {"cents": 100, "n": 2}, 1), ("b", {"cents": 100, "n": 0}, 2), ("c", {"cents": 90, "n": 3}, 3)]


def stream(value_serde: Any) -> tuple[StreamsBuilder, Any]:
    builder = StreamsBuilder()
    return builder, builder.stream("in", Consumed.with_(TEXT, value_serde))


@pytest.mark.parametrize("serde", [CENTS, JSON], ids=["with a schema", "without one"])
class TestARecordThatAnExpressionCannotBeComputedFor:
    """Case P15."""

    def test_it_goes_to_the_handler_alone(self, serde: JsonSerde) -> None:
        builder, payments = stream(serde)
        payments.filter(PRICE > 10).to("out", Produced.with_(TEXT, JSON))
        found = outcome(builder, DIVISIONS, serde)
        assert [key for key, _ in found.out] == ["a", "c"]
        assert found.failed == ["b"]
        assert b"divide by zero, in the expression (divide(cents, n) > 10)" in found.errors[0]

    def test_the_error_names_it_where_the_handler_fails(self, serde: JsonSerde) -> None:
        builder, payments = stream(serde)
        payments.filter(PRICE > 10).to("out", Produced.with_(TEXT, JSON))
        with (
            TopologyTestDriver(builder.build()) as driver,
            pytest.raises(ProcessingError, match=r"in-0 offset 1: ArrowInvalid: divide by zero"),
        ):
            driver.create_input_topic("in", TEXT, serde).pipe_batch([TestRecord(*row) for row in DIVISIONS])

    def test_a_batch_of_such_records_gives_what_each_gives(self, serde: JsonSerde) -> None:
        builder, payments = stream(serde)
        payments.map_values(PRICE).to("out", Produced.with_(TEXT, JSON))
        rows = [(str(row), {"cents": 100, "n": row % 3}, row) for row in range(100)]
        found = outcome(builder, rows, serde)
        assert found.failed == [str(row) for row in range(100) if row % 3 == 0]
        assert found.out == [(str(row), 100 // (row % 3)) for row in range(100) if row % 3]

    def test_every_operator_that_takes_expressions_leaves_it_to_the_handler(self, serde: JsonSerde) -> None:
        def built(apply: Any) -> StreamsBuilder:
            builder, payments = stream(serde)
            apply(payments)
            return builder

        to_out = Produced.with_(TEXT, JSON)
        price_text = PRICE.cast(pa.string())
        operators = {
            "filter_not": lambda s: s.filter_not(PRICE > 40).to("out", to_out),
            "map_values": lambda s: s.map_values(PRICE).to("out", to_out),
            "select_key": lambda s: s.select_key(price_text).to("out", to_out),
            "group_by": lambda s: (
                s.group_by(price_text, Grouped.with_(TEXT, JSON)).count().to_stream().to("out", to_out)
            ),
            "branch": lambda s: next(iter(s.split().branch(PRICE > 40).default_branch().values())).to("out", to_out),
            "to": lambda s: s.to(pc.if_else(PRICE > 1, "out", "out"), to_out),
            "a table's filter": lambda s: s.to_table(stored("t")).filter(PRICE > 1).to_stream().to("out", to_out),
            "a table's mapper": lambda s: s.to_table(stored("t")).map_values(PRICE).to_stream().to("out", to_out),
            "a stored mapper": lambda s: (
                s.to_table(stored("t")).map_values(PRICE, stored("mapped", JSON)).to_stream().to("out", to_out)
            ),
        }

        def stored(name: str, values: Any = serde) -> Any:
            return Materialized.as_(name).with_key_serde(TEXT).with_value_serde(values)

        for name, apply in operators.items():
            found = outcome(built(apply), DIVISIONS, serde)
            assert (name, found.failed, len(found.out)) == (name, ["b"], len(found.out))
            assert found.out, name

    def test_overflows_and_casts_are_single_records_errors_too(self, serde: JsonSerde) -> None:
        builder, payments = stream(serde)
        payments.map_values(pc.field("cents") * 2).to("out", Produced.with_(TEXT, JSON))
        rows = [("a", {"cents": 4, "n": 1}), ("b", {"cents": 2**62, "n": 1}), ("c", {"cents": -3, "n": None})]
        found = outcome(builder, rows, serde)
        assert (found.out, found.failed) == ([("a", 8), ("c", -6)], ["b"])
        builder, payments = stream(serde)
        payments.map_values(pc.field("cents").cast("int8")).to("out", Produced.with_(TEXT, JSON))
        found = outcome(builder, rows, serde)
        assert (found.out, found.failed) == ([("a", 4), ("c", -3)], ["b"])


def test_a_table_that_a_join_computes_fails_at_the_records_that_look_it_up() -> None:
    builder, clicks = stream(JSON)
    table = builder.table("rows", Consumed.with_(TEXT, CENTS)).map_values(PRICE)
    clicks.join(table, lambda value, price: [value, price]).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        rows = driver.create_input_topic("rows", TEXT, CENTS)
        rows.pipe_batch([TestRecord("a", {"cents": 8, "n": 2}, 1), TestRecord("b", {"cents": 8, "n": 0}, 1)])
        driver.create_input_topic("in", TEXT, JSON).pipe_batch([TestRecord(key, 1, 2) for key in "bab"])
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [("a", [1, 4])]
        dead_letters = driver.create_output_topic("dlq", TEXT, JSON).read_records()
        assert [(record.key, record.value) for record in dead_letters] == [
            ("b", {"cents": 8, "n": 0}),
            ("b", 1),
            ("b", 1),
        ]


def test_a_foreign_key_that_cannot_be_computed_fails_its_row_alone() -> None:
    builder = StreamsBuilder()
    left = builder.table("in", Consumed.with_(TEXT, CENTS), Materialized.as_("left"))
    right = builder.table("right", Consumed.with_(LongSerde(), TEXT), Materialized.as_("right"))
    joined = left.join(right, lambda row, other: other, foreign_key_extractor=PRICE)
    joined.to_stream().to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        driver.create_input_topic("right", LongSerde(), TEXT).pipe_batch(
            [TestRecord(50, "fifty", 1), TestRecord(30, "thirty", 1)]
        )
        driver.create_input_topic("in", TEXT, CENTS).pipe_batch([TestRecord(*row) for row in DIVISIONS])
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("a", "fifty"), ("c", "thirty")]


class TestValuesWithoutAType:
    def test_another_record_s_number_does_not_change_a_record_s_type(self) -> None:
        builder, values = stream(JSON)
        values.map_values(pc.field("n") + 1).to("out", Produced.with_(TEXT, JSON))
        rows = [("a", {"n": 1}), ("b", {"n": 1.5}), ("c", {"n": "text"}), ("d", {}), ("e", {"n": None}), ("f", 5)]
        found = outcome(builder, rows, JSON)
        assert found.failed == ["c"]
        assert found.out == [("a", 2), ("b", 2.5), ("d", None), ("e", None), ("f", None)]
        assert [type(value) for _, value in found.out[:2]] == [int, float]

    def test_a_field_that_no_expression_names_does_not_matter(self) -> None:
        builder, values = stream(JSON)
        values.filter(pc.field("n") > 1).to("out", Produced.with_(TEXT, JSON))
        rows = [("a", {"n": 2, "x": 1}), ("b", {"n": 3, "x": "text"}), ("c", {"n": 4, "x": 2**63})]
        found = outcome(builder, rows, JSON)
        assert found.out == [(key, value) for key, value in rows]

    def test_a_field_as_it_is_stays_what_it_is(self) -> None:
        builder, values = stream(JSON)
        values.map_values(pc.field("n")).to("out", Produced.with_(TEXT, JSON))
        numbers = [1, 1.5, "text", [1, "a", {}], {"a": 1}, {"b": 2}, True, 2**63, None]
        found = outcome(builder, [(str(row), {"n": n}) for row, n in enumerate(numbers)], JSON)
        assert [value for _, value in found.out] == numbers

    def test_fields_inside_objects_are_null_where_they_are_missing(self) -> None:
        builder, values = stream(JSON)
        inner = pc.field("a", "b")
        values.map_values(pc.if_else(inner.is_valid(), inner, 0)).to("out", Produced.with_(TEXT, JSON))
        rows = [{"a": {"b": 7}}, {"a": {"c": 1}}, {"a": None}, {"a": 3}, {}, {"a": {"b": None}}]
        found = outcome(builder, [(str(row), value) for row, value in enumerate(rows)], JSON)
        assert [value for _, value in found.out] == [7, 0, 0, 0, 0, 0]

    def test_an_object_is_looked_at_as_a_whole_and_inside(self) -> None:
        builder, values = stream(JSON)
        values.filter(pc.field("a").is_valid() & pc.or_kleene(pc.field("a", "b") > 1, pc.field("a", "b").is_null())).to(
            "out", Produced.with_(TEXT, JSON)
        )
        rows = [{"a": {"b": 7}}, {"a": {"b": 1}}, {"a": {"c": 1}}, {"a": None}, {}]
        found = outcome(builder, [(str(row), value) for row, value in enumerate(rows)], JSON)
        assert [key for key, _ in found.out] == ["0", "2"]

    def test_a_null_has_the_type_that_the_function_needs(self) -> None:
        builder, values = stream(JSON)
        values.map_values(pc.utf8_upper(pc.field("name"))).to("out", Produced.with_(TEXT, JSON))
        rows = [("a", {"name": "x"}), ("b", {"name": None}), ("c", {}), ("d", {"name": 1})]
        found = outcome(builder, rows, JSON)
        assert (found.out, found.failed) == ([("a", "X"), ("b", None), ("c", None)], ["d"])

    def test_a_result_that_is_not_true_or_false_is_its_record_s_error(self) -> None:
        builder, values = stream(JSON)
        values.filter(pc.field("paid")).to("out", Produced.with_(TEXT, JSON))
        rows = [("a", {"paid": True}), ("b", {"paid": 1}), ("c", {"paid": False}), ("d", {})]
        found = outcome(builder, rows, JSON)
        assert ([key for key, _ in found.out], found.failed) == (["a"], ["b"])

    def test_keys_of_several_types_are_in_nobody_s_way(self) -> None:
        builder = StreamsBuilder()
        values = builder.stream("in", Consumed.with_(TEXT, CENTS)).select_key(
            lambda key, value: key if value["n"] else value["n"]
        )
        values.filter(pc.field("cents") > 10).to("out", Produced.with_(JSON, JSON))
        values.filter(record_key().is_valid() & (pc.field("cents") > 10)).to("keys", Produced.with_(JSON, JSON))
        with TopologyTestDriver(builder.build()) as driver:
            driver.create_input_topic("in", TEXT, CENTS).pipe_batch([TestRecord(*row) for row in DIVISIONS])
            for topic in ("out", "keys"):
                found = driver.create_output_topic(topic, JSON, JSON).read_key_values()
                assert found == [(key if value["n"] else 0, value) for key, value, _ in DIVISIONS]


READINGS = [
    TestRecord("a", {"device": "d1", "timestamp": 1_700_000_000_000, "value": 21.5, "key": "x"}, 5),
    TestRecord("b", {"device": "d2", "timestamp": 1_500_000_000_000, "value": 10.0, "key": "y"}, 6),
]


class TestNamesThatTheRecordAndItsValueShare:
    """Case P17."""

    @pytest.mark.parametrize(
        "predicate",
        [
            pc.field("timestamp") > 1_600_000_000_000,
            pc.field("value") > 20.0,
            pc.field("key") == "x",
            value_field("timestamp") > 1_600_000_000_000,
            value_field("key") == "x",
            record_timestamp() == 5,
            record_key() == "a",
            pc.struct_field(record_value(), "device") == "d1",
        ],
        ids=str,
    )
    def test_a_field_of_the_schema_is_what_a_name_means(self, predicate: pc.Expression) -> None:
        builder, readings = stream(READING)
        readings.filter(predicate).to("out", Produced.with_(TEXT, READING))
        assert [key for key, _ in outcome(builder, READINGS, READING).out] == ["a"]

    @pytest.mark.parametrize("name", ["topic", "partition", "offset", "headers"])
    @pytest.mark.parametrize("typed", [True, False])
    def test_other_parts_of_a_record_have_no_names(self, name: str, typed: bool) -> None:
        serde = JsonSerde(pa.schema([(name, pa.int64())])) if typed else JSON
        builder, readings = stream(serde)
        readings.filter(pc.field(name) > 1).to("out", Produced.with_(TEXT, JSON))
        assert [key for key, _ in outcome(builder, [("a", {name: 2}), ("b", {name: 1})], serde).out] == ["a"]

    @pytest.mark.parametrize("part", ["key", "value", "timestamp"])
    def test_values_without_a_schema_leave_a_name_ambiguous(self, part: str) -> None:
        builder, readings = stream(JSON)
        readings.filter(pc.field(part) > 20).to("out", Produced.with_(TEXT, JSON))
        with pytest.raises(TopologyError, match=rf"'{part}', which is ambiguous.*record_{part}\(\) or value_field"):
            builder.build()

    def test_it_is_no_longer_ambiguous_where_the_name_says_which(self) -> None:
        builder, readings = stream(JSON)
        readings.filter((value_field("value") > 20.0) & (record_timestamp() < 6)).to("out", Produced.with_(TEXT, JSON))
        rows = [*READINGS, TestRecord("c", {}, 5), TestRecord("d", 5, 5)]
        assert [key for key, _ in outcome(builder, rows, JSON).out] == ["a"]

    def test_what_a_callable_makes_leaves_it_ambiguous(self) -> None:
        builder, readings = stream(READING)
        readings.map_values(lambda key, value: value).filter(pc.field("value") > 1).to(
            "out", Produced.with_(TEXT, JSON)
        )
        with pytest.raises(TopologyError, match="ambiguous"):
            builder.build()

    @pytest.mark.parametrize("values", [LongSerde(), JsonSerde(pa.schema([("n", pa.int64())]))], ids=["numbers", "n"])
    def test_names_that_values_do_not_have_are_the_record_s_own(self, values: Any) -> None:
        builder, readings = stream(values)
        readings.filter((pc.field("key") == "a") & (pc.field("timestamp") == 3)).to("out", Produced.with_(TEXT, values))
        value = 1 if isinstance(values, LongSerde) else {"n": 1}
        rows = [TestRecord("a", value, 3), TestRecord("a", value, 4), TestRecord("b", value, 3)]
        assert outcome(builder, rows, values, out=values).out == [("a", value)]

    def test_a_count_is_the_value(self) -> None:
        builder, readings = stream(READING)
        counts = readings.group_by_key(Grouped.with_(TEXT, READING)).count()
        counts.filter(pc.field("value") > 1).to_stream().to("out", Produced.with_(TEXT, LongSerde()))
        found = Outcome(builder, [READINGS[0], READINGS[0]], READING, out=LongSerde())
        assert found.out == [("a", 2)]

    def test_a_key_has_fields_too(self) -> None:
        keys = JsonSerde(pa.schema([("site", pa.string()), ("key", pa.string())]))
        for serde in (keys, JSON):
            builder = StreamsBuilder()
            readings = builder.stream("in", Consumed.with_(serde, LongSerde()))
            readings.filter((pc.field("key", "site") == "x") & (record_key().is_valid())).to(
                "out", Produced.with_(serde, LongSerde())
            )
            with TopologyTestDriver(builder.build()) as driver:
                topic = driver.create_input_topic("in", serde, LongSerde())
                rows = [{"site": "x", "key": "1"}, {"site": "y", "key": "2"}, None]
                topic.pipe_batch([TestRecord(key, 1) for key in rows])
                out = driver.create_output_topic("out", serde, LongSerde()).read_key_values()
                assert out == [({"site": "x", "key": "1"}, 1)]

    @pytest.mark.parametrize("through_a_topic", [False, True])
    def test_a_windowed_key_has_its_key_start_and_end(self, through_a_topic: bool) -> None:
        builder, readings = stream(READING)
        windowed = readings.group_by_key(Grouped.with_(TEXT, READING)).windowed_by(TimeWindows.of_size_with_no_grace(5))
        counts = windowed.count().to_stream()
        keys = TimeWindowedSerde(TEXT, 5)
        if through_a_topic:
            counts = counts.repartition(Repartitioned.with_(keys, LongSerde()))
        late = counts.filter((pc.field("key", "start") >= 5) & (pc.field("key", "key") == "b"))
        late.to("windows", Produced.with_(keys, LongSerde()))
        late.select_key(pc.field("key")).to("again", Produced.with_(keys, LongSerde()))
        late.select_key(pc.field("key", "key")).to("out", Produced.with_(TEXT, LongSerde()))
        found = Outcome(builder, READINGS, READING, out=LongSerde())
        assert found.out == [("b", 1)]
        assert found.failed == []

    def test_a_table_s_rows_and_a_join_s_selector_go_by_the_same_rule(self) -> None:
        builder = StreamsBuilder()
        readings = builder.stream("in", Consumed.with_(TEXT, READING))
        devices = builder.global_table("devices", Consumed.with_(TEXT, TEXT))
        hot = builder.table("rows", Consumed.with_(TEXT, READING)).filter(pc.field("value") > 20.0)
        readings.join(devices, pc.field("key"), lambda value, name: name).to("out", Produced.with_(TEXT, TEXT))
        readings.join(hot, lambda value, row: row["key"]).to("hot", Produced.with_(TEXT, TEXT))
        with TopologyTestDriver(builder.build()) as driver:
            driver.create_input_topic("devices", TEXT, TEXT).pipe_batch(
                [TestRecord("y", "by field"), TestRecord("b", "by key")]
            )
            driver.create_input_topic("rows", TEXT, READING).pipe_batch(READINGS)
            driver.create_input_topic("in", TEXT, READING).pipe_batch(READINGS)
            assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("b", "by field")]
            assert driver.create_output_topic("hot", TEXT, TEXT).read_key_values() == [("a", "x")]

    def test_a_path_through_value_reads_the_field_of_that_name(self) -> None:
        builder, readings = stream(READING)
        readings.filter(pc.field("value", "timestamp") > 1).to("out")
        with pytest.raises(TopologyError, match=r"cannot be computed over the columns \(value: double\).*value_field"):
            builder.build()

    def test_a_field_with_the_name_of_a_record_s_part_is_refused(self) -> None:
        builder, readings = stream(JsonSerde(pa.schema([("record.key", pa.string())])))
        readings.filter(record_key() == "a").to("out")
        with pytest.raises(TopologyError, match=r"names record\.key, which is the record's own key"):
            builder.build()
