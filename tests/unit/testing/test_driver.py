"""The test driver itself."""

from __future__ import annotations

import pytest

from millrace.dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder, TimeWindows
from millrace.errors import ProcessingError, TopologyError
from millrace.serdes import LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
LONG = LongSerde()


def _topology() -> FrozenTopology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, LONG))
    stream.to("out")
    grouped = stream.group_by(
        lambda key, value: f"n{value}", Grouped(name="by-value", key_serde=TEXT, value_serde=LONG)
    )
    table = grouped.count(Materialized.as_("counts"))
    table.to_stream().to("counted", Produced.with_(TEXT, LONG))
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(Materialized.as_("windows"))
    return builder.build()


def test_records_go_on_through_repartition_topics_to_the_next_sub_topology() -> None:
    with TopologyTestDriver(_topology()) as driver:
        driver.create_input_topic("in", TEXT, LONG).pipe_batch([TestRecord("a", 1), TestRecord("b", 1)])
        assert driver.create_output_topic("counted", TEXT, LONG).read_key_values_to_map() == {"n1": 2}
        assert driver.key_value_store("counts").get("n1") == 2
        assert driver.window_store("windows").fetch("n1", 0, 10) == {0: 2}
        assert "topology-test-driver-by-value-repartition" in driver.produced_topic_names()


def test_records_without_a_timestamp_take_the_topic_s_clock() -> None:
    with TopologyTestDriver(_topology()) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG, start_timestamp=100, auto_advance=5)
        topic.pipe_input("a", 1)
        topic.pipe_input("a", 2, 7)
        topic.pipe_records([TestRecord("a", 3), TestRecord("a", 4)])
        out = driver.create_output_topic("out", TEXT, LONG)
        assert [record.timestamp for record in out.read_records()] == [100, 7, 105, 110]
        assert out.is_empty


def test_headers_travel_with_their_record() -> None:
    with TopologyTestDriver(_topology()) as driver:
        headers = [("trace", b"1"), ("trace", None)]
        driver.create_input_topic("in", TEXT, LONG).pipe_batch(
            [TestRecord("a", 1, 1), TestRecord("a", 2, 2, headers), TestRecord("a", 3, 3)]
        )
        records = driver.create_output_topic("out", TEXT, LONG).read_records()
        assert [record.headers for record in records] == [[], headers, []]


def test_headers_with_a_name_twice_binary_empty_and_null_values_reach_outputs_and_counts() -> None:
    """Case P19."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    stream.map_values(lambda key, value: value).to("out", Produced.with_(TEXT, TEXT))
    rekeyed = stream.select_key(lambda key, value: value).group_by_key(Grouped.with_(TEXT, TEXT))
    rekeyed.count().to_stream().to("counts", Produced.with_(TEXT, LONG))
    headers = [("ce_id", b"1"), ("traceparent", b"\xff\x00\x80"), ("traceparent", b"2"), ("empty", b""), ("null", None)]
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        topic.pipe_records([TestRecord("k", "v", 1, headers), TestRecord("k2", "w", 2)])
        out = driver.create_output_topic("out", TEXT, TEXT).read_records()
        counts = driver.create_output_topic("counts", TEXT, LONG).read_records()
    assert [record.headers for record in out] == [record.headers for record in counts] == [headers, []]


def test_unknown_topics_and_stores_are_refused_with_the_known_ones() -> None:
    with TopologyTestDriver(_topology()) as driver:
        with pytest.raises(TopologyError, match=r"'typo'; the sources read .*'in'"):
            driver.create_input_topic("typo", TEXT, LONG)
        with pytest.raises(TopologyError, match=r"'typo'; the stores are \['counts', 'windows'\]"):
            driver.key_value_store("typo")
        with pytest.raises(TopologyError, match="'counts' is a key-value store"):
            driver.window_store("counts")
        assert driver.is_window_store("windows")


def test_an_error_names_task_node_and_offset() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, LONG)).map_values(lambda key, value: 1 // value, named="divide").to(
        "out", Produced.with_(TEXT, LONG)
    )
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        topic.pipe_input("a", 1)
        with pytest.raises(ProcessingError, match="Task 0_0, node divide, failed at the record at in-0 offset 2"):
            topic.pipe_batch([TestRecord("a", 1), TestRecord("a", 0)])
        assert len(driver.create_output_topic("out", TEXT, LONG).read_records()) == 1
        assert driver.committed_offset("in") == 1
