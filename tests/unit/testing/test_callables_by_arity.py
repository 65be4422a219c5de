"""Callables that Kafka Streams has with and without the key, through whole topologies."""

from __future__ import annotations

import functools
import operator
from datetime import timedelta
from typing import Any

import pytest
from pyspark import cloudpickle

from millrace.dsl import Consumed, Joined, JoinWindows, Materialized, Produced, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import JsonSerde, StringSerde
from millrace.testing import TopologyTestDriver

TEXT = StringSerde()
JSON = JsonSerde()
READ = Consumed.with_(TEXT, JSON)
WRITE = Produced.with_(TEXT, JSON)


def only_value(value: Any) -> Any:
    return [value, "v"]


def key_and_value(key: Any, value: Any) -> Any:
    return [key, value]


def pair(value: Any, other: Any) -> Any:
    return [value, other]


def key_and_pair(key: Any, value: Any, other: Any) -> Any:
    return [key, value, other]


def with_selected(key: Any, selected: Any, value: Any, other: Any) -> Any:
    return [key, selected, value, other]


def results(builder: StreamsBuilder, *piped: tuple[str, str, Any]) -> list[tuple[Any, Any]]:
    """What is in topic out after these records (topic, key, value)."""
    with TopologyTestDriver(cloudpickle.loads(cloudpickle.dumps(builder.build()))) as driver:
        for topic, key, value in piped:
            driver.create_input_topic(topic, TEXT, JSON).pipe_input(key, value)
        return driver.create_output_topic("out", TEXT, JSON).read_key_values()


@pytest.mark.parametrize(
    ("mapper", "expected"),
    [
        (only_value, [{"n": 1}, "v"]),
        (key_and_value, ["a", {"n": 1}]),
        (operator.itemgetter("n"), 1),
        (str, "{'n': 1}"),
        (functools.partial(pair, "bound"), ["bound", {"n": 1}]),
        (functools.partial(key_and_pair, "bound"), ["bound", "a", {"n": 1}]),
    ],
)
@pytest.mark.parametrize("kind", ["stream", "table", "stored table"])
def test_a_value_mapper_gets_the_key_only_where_it_has_a_parameter_for_it(
    kind: str, mapper: Any, expected: Any
) -> None:
    builder = StreamsBuilder()
    if kind == "stream":
        mapped = builder.stream("in", READ).map_values(mapper)
    else:
        stored = Materialized.as_("stored").with_value_serde(JSON) if kind == "stored table" else None
        mapped = builder.table("in", READ).map_values(mapper, stored).to_stream()
    mapped.to("out", WRITE)
    assert results(builder, ("in", "a", {"n": 1})) == [("a", expected)]


@pytest.mark.parametrize(
    ("mapper", "expected"),
    [
        (only_value, [{"n": 1}, "v"]),
        (key_and_value, ["a", {"n": 1}]),
        (list, ["n"]),
        (operator.methodcaller("values"), [1]),
        (dict.items, [["n", 1]]),
    ],
)
def test_a_mapper_to_many_values_gets_the_key_only_where_it_has_a_parameter_for_it(mapper: Any, expected: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).flat_map_values(mapper).to("out", WRITE)
    assert results(builder, ("in", "a", {"n": 1})) == [("a", part) for part in expected]


@pytest.mark.parametrize(
    ("transformer", "expected"), [(only_value, [None, "v"]), (key_and_value, ["a", None]), (repr, "None")]
)
def test_a_transformer_of_a_table_s_values_gets_the_key_only_where_it_has_a_parameter_for_it(
    transformer: Any, expected: Any
) -> None:
    builder = StreamsBuilder()
    builder.table("in", READ).transform_values(transformer).to_stream().to("out", WRITE)
    assert results(builder, ("in", "a", None)) == [("a", expected)]


JOINERS = [(pair, [1, 2]), (key_and_pair, ["a", 1, 2]), (max, 2), (lambda *values: list(values), [1, 2])]


@pytest.mark.parametrize(("joiner", "expected"), JOINERS)
@pytest.mark.parametrize("join", ["stream", "table", "global", "tables", "tables, looked up", "foreign key"])
def test_a_joiner_gets_the_key_only_where_it_has_a_parameter_for_it(join: str, joiner: Any, expected: Any) -> None:
    builder = StreamsBuilder()
    piped = [("right", "a", 2), ("left", "a", 1)]
    if join == "stream":
        window = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
        joined = builder.stream("left", READ).join(builder.stream("right", READ), joiner, window)
    elif join == "table":
        joined = builder.stream("left", READ).join(builder.table("right", READ), joiner, joined=Joined.as_("j"))
    elif join == "global":
        joined = builder.stream("left", READ).join(builder.global_table("right", READ), lambda k, v: k, joiner)
    elif join == "tables":
        joined = builder.table("left", READ).join(builder.table("right", READ), joiner).to_stream()
    elif join == "tables, looked up":
        both = builder.table("left", READ).join(builder.table("right", READ), joiner)
        joined = builder.stream("clicks", READ).join(both, lambda _click, row: row)
        piped.append(("clicks", "a", 0))
    else:
        right = builder.table("right", READ)
        joined = builder.table("left", READ).join(right, joiner, foreign_key_extractor=lambda _: "a").to_stream()
    joined.to("out", WRITE)
    assert results(builder, *piped) == [("a", expected)]


def test_a_joiner_of_a_global_table_may_take_the_selected_key_too() -> None:
    builder = StreamsBuilder()
    rows = builder.global_table("right", READ)
    builder.stream("left", READ).join(rows, lambda key, value: f"{value}", with_selected).to("out", WRITE)
    assert results(builder, ("right", "1", "row"), ("left", "a", 1)) == [("a", ["a", "1", 1, "row"])]


@pytest.mark.parametrize(
    ("extractor", "expected"),
    [(operator.itemgetter("ref"), "x"), (lambda value: value["ref"], "x"), (lambda key, _value: key, "row a")],
)
def test_a_foreign_key_extractor_gets_the_key_only_where_it_has_a_parameter_for_it(
    extractor: Any, expected: str
) -> None:
    builder = StreamsBuilder()
    left, right = builder.table("left", READ), builder.table("right", READ)
    left.join(right, lambda _, other: other, foreign_key_extractor=extractor).to_stream().to("out", WRITE)
    piped = [("right", "r", "x"), ("right", "a", "row a"), ("left", "a", {"ref": "r"})]
    assert results(builder, *piped) == [("a", expected)]


@pytest.mark.parametrize("method", ["map_values", "flat_map_values"])
def test_a_mapper_with_three_parameters_is_refused_with_both_forms(method: str) -> None:
    with pytest.raises(TopologyError, match=r"key_and_pair\(key: .*neither \(value\) nor \(key, value\)"):
        getattr(StreamsBuilder().stream("in"), method)(key_and_pair)
