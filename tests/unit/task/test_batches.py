"""Where the input is cut into batches never shows: not in what goes out, not in the stores, not in what is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from millrace.dsl import Consumed, Grouped, Joined, KStream, Materialized, Produced, StreamsBuilder, TimeWindows
from millrace.dsl import aggregators as built_in
from millrace.serdes import BytesSerde, JsonSerde, Serde, StringSerde
from millrace.testing import TestInputTopic, TestRecord, TopologyTestDriver
from millrace.topology.aggregators import BuiltInAggregator
from millrace.topology.topology import FrozenTopology
from tests.parity.generating import generate
from tests.parity.scenario import WALL_CLOCK
from tests.parity.scenario_topology import ScenarioTopology, is_order_defined

TEXT = StringSerde()
JSON = JsonSerde()
TYPED = JsonSerde(schema=pa.schema([("amount", pa.int64()), ("price", pa.float64()), ("user", pa.string())]))
Row = tuple[str, str | None, dict[str, Any] | None, int]
Outcome = tuple[dict[str, list[Any]], dict[str, list[Any]], dict[str, int], list[int]]

VALUES = st.none() | st.fixed_dictionaries(
    {
        "amount": st.none() | st.integers(0, 20),
        "price": st.none() | st.sampled_from([0.1, 0.2, 0.7, 1e16, -3.5]),
        "user": st.none() | st.sampled_from(["x", "y"]),
    }
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["in", "in", "table"]),
        st.sampled_from(["a", "b", "c", None]),
        VALUES,
        st.integers(0, 60),
    ),
    max_size=25,
)
CUTS = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def _run(topology: FrozenTopology, rows: list[Row], sizes: list[int], serde: Serde, *, cached: bool) -> Outcome:
    """Runs rows, given in the order of their processing, in batches of the given sizes, over and over."""
    dead_letters = {
        "errors.dead.letter.queue.topic.name": "dead-letters",
        "errors.dead.letter.queue.dropped.records": "all",
    }
    with TopologyTestDriver(topology, {"statestore.cache.max.bytes": None if cached else 0, **dead_letters}) as driver:
        topics: dict[str, TestInputTopic] = {
            name: driver.create_input_topic(name, TEXT, serde) for name in ("in", "table")
        }
        start, turn = 0, 0
        while start < len(rows):
            size = sizes[turn % len(sizes)]
            batch = rows[start : start + size]
            driver.pipe_batch([(topics[name], TestRecord(key, value, time)) for name, key, value, time in batch])
            start, turn = start + size, turn + 1
        produced = sorted(driver.produced_topic_names() - set(driver.changelogs))
        outputs: dict[str, list[Any]] = {
            name: [
                (record.key, record.value, record.timestamp, record.headers)
                for record in driver.create_output_topic(name, BytesSerde(), BytesSerde()).read_records()
            ]
            for name in produced
        }
        # Those of a sub-topology stand together within a batch.
        outputs.get("dead-letters", []).sort(key=repr)
        stores: dict[str, list[Any]] = {}
        for part in topology.sub_topologies:
            for spec in part.stores:
                store = driver.window_store if driver.is_window_store(spec.name) else driver.key_value_store
                stores[spec.name] = list(store(spec.name).entries())
        return outputs, stores, {str(reason): n for reason, n in driver.dropped.items()}, sorted(driver.lateness)


def _in_processing_order(rows: list[Row]) -> list[Row]:
    """Rows so that every cut merges them in this order: timestamps ascend, and ties go by topic."""
    return sorted(rows, key=lambda row: (row[3], row[0]))


Define = Callable[[StreamsBuilder, Serde], None]


def _source(builder: StreamsBuilder, serde: Serde) -> KStream:
    return builder.stream("in", Consumed.with_(TEXT, serde))


def _windowed(builder: StreamsBuilder, serde: Serde) -> None:
    grouped = _source(builder, serde).group_by_key(Grouped.with_(TEXT, serde))
    windows = TimeWindows.of_size_and_grace(10, 3).advance_by(4)
    store = Materialized.as_("store").with_key_serde(TEXT)
    summary = built_in.struct(n=built_in.count(), total=built_in.sum_("price"), top=built_in.max_("amount"))
    table = grouped.windowed_by(windows).aggregate(summary, None, store)
    table.to_stream(lambda key, _: f"{key.key}@{key.start}").to("out", Produced.with_(TEXT, JSON))


def _reduced(builder: StreamsBuilder, serde: Serde) -> None:
    def reducer(old: Any, new: Any) -> Any:
        total = (old or {}).get("amount") or 0, (new or {}).get("amount") or 0
        return None if sum(total) % 4 == 0 else {"amount": sum(total), "price": None, "user": None}

    grouped = _source(builder, serde).group_by_key(Grouped.with_(TEXT, serde))
    store = Materialized.as_("store").with_key_serde(TEXT).with_value_serde(serde)
    grouped.windowed_by(TimeWindows.of_size_and_grace(20, 0)).reduce(reducer, store)
    table = grouped.reduce(reducer, Materialized.as_("plain").with_value_serde(serde))
    table.to_stream().to("out", Produced.with_(TEXT, serde))


def _built_in(aggregator: BuiltInAggregator) -> Define:
    def define(builder: StreamsBuilder, serde: Serde) -> None:
        grouped = _source(builder, serde).group_by(lambda _, value: value and value["user"], Grouped.with_(TEXT, serde))
        store = Materialized.as_("store").with_key_serde(TEXT).with_value_serde(JSON)
        grouped.aggregate(aggregator, None, store).to_stream().to("out", Produced.with_(TEXT, JSON))

    return define


def _joined(builder: StreamsBuilder, serde: Serde) -> None:
    table = builder.table("table", Consumed.with_(TEXT, serde), Materialized.as_("store"))
    stream = _source(builder, serde)
    pairs = stream.left_join(table, lambda left, right: [left["amount"], right and right["amount"]])
    pairs.to("out", Produced.with_(TEXT, JSON))
    own = stream.filter(pc.field("amount") > 5).to_table(Materialized.as_("own").with_value_serde(serde))
    again = stream.join(own, lambda left, right: [left["user"], right["user"]], joined=Joined.with_(TEXT, serde))
    again.to("out", Produced.with_(TEXT, JSON))
    table.to_stream().to("out", Produced.with_(TEXT, serde))


TOPOLOGIES: dict[str, Define] = {
    "windowed": _windowed,
    "reduced": _reduced,
    "joined": _joined,
    **{
        f"built-in {aggregator.kind}": _built_in(aggregator)
        for aggregator in (
            built_in.count(),
            built_in.sum_("price"),
            built_in.min_("price"),
            built_in.max_("amount"),
            built_in.avg("amount"),
            built_in.first("user"),
            built_in.last("amount"),
            built_in.collect("price"),
            built_in.last(),
        )
    },
}


def _build(name: str, serde: Serde) -> FrozenTopology:
    builder = StreamsBuilder()
    TOPOLOGIES[name](builder, serde)
    if name != "joined":
        builder.stream("table", Consumed.with_(TEXT, serde)).peek(lambda key, value: None)
    return builder.build()


@pytest.mark.parametrize("serde", [JSON, TYPED], ids=["untyped", "typed"])
@pytest.mark.parametrize("name", TOPOLOGIES)
@settings(max_examples=20, deadline=None)
@given(rows=ROWS, sizes=CUTS)
def test_without_caching_every_cut_gives_the_same_records_in_the_same_order(
    name: str, serde: Serde, rows: list[Row], sizes: list[int]
) -> None:
    ordered = _in_processing_order(rows) if name == "joined" else rows
    if name != "joined":
        ordered = [("in", *row[1:]) for row in rows]
    topology = _build(name, serde)
    alone = _run(topology, ordered, [1], serde, cached=False)
    assert _run(topology, ordered, sizes, serde, cached=False) == alone


@pytest.mark.parametrize("serde", [JSON, TYPED], ids=["untyped", "typed"])
@pytest.mark.parametrize("name", [name for name in TOPOLOGIES if name != "joined"])
@settings(max_examples=20, deadline=None)
@given(rows=ROWS, sizes=CUTS)
def test_with_caching_every_cut_gives_the_same_last_values_stores_and_counts(
    name: str, serde: Serde, rows: list[Row], sizes: list[int]
) -> None:
    ordered: list[Row] = [("in", *row[1:]) for row in rows]
    topology = _build(name, serde)
    outputs, stores, dropped, lateness = _run(topology, ordered, [1], serde, cached=False)
    in_batches = _run(topology, ordered, sizes, serde, cached=True)
    last = {key: (value, time) for key, value, time, _ in outputs.get("out", [])}
    assert {key: (value, time) for key, value, time, _ in in_batches[0].get("out", [])} == last
    assert in_batches[0].get("dead-letters") == outputs.get("dead-letters")
    assert len(in_batches[0].get("out", [])) <= len(outputs.get("out", []))
    assert in_batches[1:] == (stores, dropped, lateness)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(10_000, 2**40), sizes=CUTS, in_columns=st.booleans())
def test_any_topology_gives_the_same_however_its_input_is_cut(seed: int, sizes: list[int], in_columns: bool) -> None:
    scenario = generate(seed)
    topology = ScenarioTopology(scenario, in_columns=in_columns).build()
    assume(is_order_defined(topology))

    buffers = {
        f"topology-test-driver-{step['name']}-store-changelog"
        for step in scenario["topology"]
        if step["op"] == "suppress"
    }

    def outcome(sizes: list[int]) -> Outcome:
        options = {
            "deserialization.exception.handler": "continue",
            "processing.exception.handler": "continue",
        }
        with TopologyTestDriver(topology, options) as driver:
            # One topic a batch: generated timestamps are out of order, and topics would be merged by them.
            topics: dict[str, TestInputTopic] = {}
            batches: list[tuple[str, list[TestRecord]]] = []
            turn = 0
            for topic, key, value, time, *_ in scenario["input"]:
                if topic == WALL_CLOCK:
                    continue
                if topic not in topics:
                    topics[topic] = driver.create_input_topic(topic, BytesSerde(), BytesSerde())
                full = batches and len(batches[-1][1]) >= sizes[turn % len(sizes)]
                if not batches or batches[-1][0] != topic or full:
                    batches.append((topic, []))
                    turn += 1
                batches[-1][1].append(TestRecord(key and key.encode(), value and value.encode(), time))
            for topic, records in batches:
                topics[topic].pipe_batch(records)
            outputs: dict[str, list[Any]] = {}
            for name in sorted(driver.produced_topic_names()):
                if name in buffers:
                    # Written once a batch: see the parity tests.
                    continue
                if name in driver.changelogs:
                    outputs[name] = list(driver.changelogs[name])
                else:
                    outputs[name] = driver.create_output_topic(name, BytesSerde(), BytesSerde()).read_records()
            return outputs, {}, {str(reason): n for reason, n in driver.dropped.items()}, sorted(driver.lateness)

    assert outcome(sizes) == outcome([1])


def test_a_failed_batch_leaves_stream_time_stores_and_tables_as_they_were() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, JSON))
    grouped = stream.group_by_key(Grouped.with_(TEXT, JSON)).windowed_by(TimeWindows.of_size_with_no_grace(10))
    grouped.count(Materialized.as_("store").with_key_serde(TEXT))
    own = stream.to_table(Materialized.as_("table").with_value_serde(JSON))
    stream.join(own, lambda left, right: 1 // left).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, JSON)
        topic.pipe_input("a", 1, 5)
        with pytest.raises(Exception, match="ZeroDivisionError"):
            topic.pipe_batch([TestRecord("a", 2, 500), TestRecord("a", 0, 501)])
        assert driver.key_value_store("table").all() == {"a": 1}
        topic.pipe_input("a", 3, 6)
        assert list(driver.window_store("store").all().values()) == [2]
        assert driver.key_value_store("table").all() == {"a": 3}
        assert not driver.dropped


def test_values_without_a_schema_go_out_as_they_came_in_also_behind_an_expression() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, JSON))
    stream.filter(pc.field("amount") > 1).to("out", Produced.with_(TEXT, JSON))
    values = [{"amount": 2}, {"amount": 3.5, "note": "x"}, {"amount": 1, "other": [1]}, {"note": None, "amount": 4}]
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_batch([TestRecord("a", value, 1) for value in values])
        raw = driver.create_output_topic("out", TEXT, BytesSerde()).read_key_values()
        assert [value for _, value in raw] == [JSON.serialize(values[row]) for row in (0, 1, 3)]


def test_the_windows_of_a_key_share_its_partition() -> None:
    import numpy as np

    from millrace.config import StreamsConfig
    from millrace.kafka.murmur2 import partitions_for
    from millrace.serdes import TimeWindowedSerde
    from millrace.task.columns import Column, WindowedColumn
    from millrace.task.failures import FailureHandler
    from millrace.task.records import Records
    from millrace.task.sink import Sink
    from millrace.topology.nodes import SinkNode

    serde = TimeWindowedSerde(TEXT, 10)
    sink = Sink(SinkNode(name="sink", parents=("p",), topic="out", key_serde=serde, value_serde=JSON), "app")
    starts = np.arange(0, 80, 10, dtype=np.int64)
    keys = WindowedColumn(Column(objects=["k"] * 8), starts, starts + 10)
    rows = np.arange(8, dtype=np.int64)
    config = StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "nowhere:1"})
    records = Records(keys, Column(objects=[1] * 8), starts, rows, (rows,))
    encoded, _ = sink.encode(records, 50, FailureHandler(config, "0_0"))
    assert np.asarray(encoded.partitions).tolist() == partitions_for([b"k"] * 8, 50).tolist()
