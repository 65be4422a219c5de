"""Built-in aggregations through whole topologies: default serdes, means, values without a schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from millrace.dsl import aggregators as built_in
from millrace.errors import TopologyError
from millrace.metrics import DropReason
from millrace.serdes import DoubleSerde, IntegerSerde, JsonSerde, LongSerde, Serde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.aggregators import BuiltInAggregator

TEXT = StringSerde()
JSON = JsonSerde()
PAYMENTS = JsonSerde(schema=pa.schema([("amount", pa.int64())]))


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "every update"])
@pytest.mark.parametrize(
    ("aggregator", "values", "value_serde", "result_serde", "expected"),
    [
        (built_in.count(), [1, 2], LongSerde(), LongSerde(), 2),
        (built_in.sum_(), [1, 2], IntegerSerde(), LongSerde(), 3),
        (built_in.sum_(), [1.5, 2.0], DoubleSerde(), DoubleSerde(), 3.5),
        (built_in.avg(), [1, 2], LongSerde(), DoubleSerde(), 1.5),
        (built_in.avg("amount"), [{"amount": 1}, {"amount": None}, {"amount": 2}], PAYMENTS, DoubleSerde(), 1.5),
        (built_in.avg("amount"), [{"amount": 1}, {}, {"amount": 2}], JSON, DoubleSerde(), 1.5),
        (built_in.min_(), ["b", "a"], TEXT, TEXT, "a"),
        (built_in.max_(), [3, 5, 4], LongSerde(), LongSerde(), 5),
        (built_in.first(), ["b", "a"], TEXT, TEXT, "b"),
        (built_in.last(), ["b", "a"], TEXT, TEXT, "a"),
        (built_in.collect(), [2, 1], LongSerde(), JSON, [2, 1]),
        (built_in.last(), [{"a": 1}, {"b": 2}], JSON, JSON, {"b": 2}),
        (built_in.max_("amount"), [{"amount": 2}, {"amount": 3.5}, {"other": 1}], JSON, JSON, 3.5),
    ],
)
def test_a_built_in_aggregation_has_the_serde_of_its_result(
    aggregator: BuiltInAggregator,
    values: list[Any],
    value_serde: Serde,
    result_serde: Serde,
    expected: Any,
    cached: bool,
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, value_serde))
    stream.group_by_key().aggregate(aggregator).to_stream().to("out")
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": None if cached else 0}) as driver:
        driver.create_input_topic("in", TEXT, value_serde).pipe_batch([TestRecord("k", value) for value in values])
        results = driver.create_output_topic("out", TEXT, result_serde).read_key_values()
        assert results[-1] == ("k", expected)
        assert len(results) == (1 if cached else len(values))


def test_several_aggregations_at_once_give_a_struct() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, PAYMENTS))
    summary = built_in.struct(n=built_in.count(), mean=built_in.avg("amount"), top=built_in.max_("amount"))
    table = stream.group_by_key().aggregate(summary, None, Materialized.as_("store"))
    table.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, PAYMENTS)
        topic.pipe_input("k", {"amount": None})
        topic.pipe_batch([TestRecord("k", {"amount": 3}), TestRecord("k", {"amount": 4})])
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [
            ("k", {"n": 1, "mean": None, "top": None}),
            ("k", {"n": 3, "mean": 3.5, "top": 4}),
        ]
        state = driver.key_value_store("store").get("k")
        assert state == {"n": 3, "mean": {"sum": 7.0, "count": 2}, "top": 4}


def test_a_join_with_a_table_of_means_sees_the_mean() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, LongSerde()))
    means = stream.group_by_key().aggregate(built_in.avg())
    stream.join(means, lambda value, mean: [value, mean]).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, LongSerde()).pipe_batch([TestRecord("k", 1), TestRecord("k", 2)])
        values = [value for _, value in driver.create_output_topic("out", TEXT, JSON).read_key_values()]
        assert values == [[1, 1.0], [2, 1.5]]


def test_a_value_that_cannot_be_aggregated_is_the_handler_s_where_values_have_no_schema() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, JSON))
    stream.group_by_key(Grouped.with_(TEXT, JSON)).aggregate(built_in.sum_("amount"), None, Materialized.as_("store"))
    with TopologyTestDriver(builder.build(), {"processing.exception.handler": "continue"}) as driver:
        values = [{"amount": 1}, {"amount": "much"}, "text", {"amount": 2}]
        driver.create_input_topic("in", TEXT, JSON).pipe_batch([TestRecord("k", value, 1) for value in values])
        assert driver.key_value_store("store").all() == {"k": 3}
        assert driver.dropped == {DropReason.PROCESSING: 2}


def test_a_field_that_no_value_without_a_schema_has_is_null_in_an_expression() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, JSON))
    stream.filter(pc.field("amount") > 1).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_input("k", {"other": 1})
        topic.pipe_batch([TestRecord("k", {"other": 1}), TestRecord("k", {"amount": 2})])
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [("k", {"amount": 2})]


def test_a_field_that_a_schema_does_not_have_is_refused_by_its_name() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, PAYMENTS)).filter(pc.field("price") > 1).to("out")
    with pytest.raises(
        TopologyError, match=r"names the field 'price', which values do not have; they have \['amount'\]"
    ):
        builder.build()


def test_out_of_order_updates_of_a_table_apply() -> None:
    builder = StreamsBuilder()
    builder.table("in", Consumed.with_(TEXT, LongSerde()), Materialized.as_("store"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, LongSerde())
        topic.pipe_batch([TestRecord("k", 1, 10), TestRecord("k", 2, 5)])
        store = driver.key_value_store("store")
        assert (store.get("k"), store.get_timestamp("k")) == (2, 5)
