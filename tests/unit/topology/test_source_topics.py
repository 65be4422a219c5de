"""Sources that read what matches a pattern (KIP-105)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark import cloudpickle

from millrace.dsl import (
    Consumed,
    JoinWindows,
    Materialized,
    Processor,
    Produced,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Topology,
)
from millrace.errors import TopologyError
from millrace.serdes import LongSerde, StringSerde
from millrace.testing import TopologyTestDriver
from millrace.topology.diff import diff
from millrace.topology.layout import TopologyLayout
from millrace.topology.partitions import repartition_partition_counts
from millrace.topology.source_topics import literal_prefix, with_matched_topics

TEXT = StringSerde()
READ = Consumed.with_(TEXT, TEXT)
SENSORS = re.compile(r"sensor-[a-z]+")


def counting() -> StreamsBuilder:
    builder = StreamsBuilder()
    sensors = builder.stream(SENSORS, READ)
    sensors.group_by_key().count(Materialized.as_("counts")).to_stream().to("out", Produced.with_(TEXT, LongSerde()))
    return builder


def sources(topology: Any) -> dict[str, tuple[str, ...]]:
    return {source.name: source.topics for part in topology.sub_topologies for source in part.sources}


def test_a_pattern_stands_for_the_topics_whose_whole_name_it_matches() -> None:
    topology = counting().build()
    assert sources(topology) == {"KSTREAM-SOURCE-0000000000": ()}
    existing = ["sensor-us", "other", "sensor-eu", "sensor-eu-2", "my-sensor-eu", "__consumer_offsets"]
    matched = with_matched_topics(topology, existing, "app")
    assert sources(matched) == {"KSTREAM-SOURCE-0000000000": ("sensor-eu", "sensor-us")}
    assert matched.external_inputs == {"sensor-eu", "sensor-us"}
    assert TopologyLayout.over_inputs(matched, "app", {"sensor-eu": 2, "sensor-us": 5}).task_counts == {0: 5}


def test_the_broker_s_and_the_application_s_own_topics_match_no_pattern() -> None:
    builder = StreamsBuilder()
    everything = builder.stream(re.compile(".*"), READ)
    everything.select_key(lambda _, value: value).group_by_key().count(Materialized.as_("counts"))
    topology = builder.build()
    own = ["app-counts-repartition", "app-counts-changelog", "__transaction_state", "_millrace-status"]
    matched = with_matched_topics(topology, [*own, "other-counts-changelog", "in"], "app")
    assert ("in", "other-counts-changelog") in sources(matched).values()


def test_a_pattern_without_a_topic_is_refused() -> None:
    with pytest.raises(
        TopologyError, match=r"'sensor-\[a-z\]\+' of source 'KSTREAM-SOURCE-0000000000' matches no topic"
    ):
        with_matched_topics(counting().build(), ["other"], "app")


def test_a_topic_is_read_once() -> None:
    builder = counting()
    builder.stream(re.compile("sensor-eu|x"), READ).to("other")
    with pytest.raises(TopologyError, match=r"'sensor-eu' matches both"):
        with_matched_topics(builder.build(), ["sensor-eu", "x"], "app")
    builder = counting()
    builder.stream("sensor-eu", READ)
    with pytest.raises(TopologyError, match=r"matches the topic 'sensor-eu', which"):
        builder.build()
    builder = counting()
    builder.global_table("sensor-eu", READ)
    with pytest.raises(TopologyError, match=r"matches the topic 'sensor-eu', which"):
        builder.build()
    by_hand = Topology().add_source("a", SENSORS)
    by_hand.add_source("b", "sensor-eu")
    with pytest.raises(TopologyError, match=r"matches the topic 'sensor-eu', which 'b' reads"):
        by_hand.build()


def test_streams_of_the_same_pattern_share_its_source() -> None:
    builder = counting()
    builder.stream(re.compile(SENSORS.pattern), READ).to("copies")
    assert len(sources(builder.build())) == 1
    builder.stream(SENSORS, READ.with_offset_reset_policy("latest"))
    with pytest.raises(TopologyError, match=r"that match 'sensor.*' are read twice"):
        builder.build()


@pytest.mark.parametrize("wrong", [re.compile(rb"sensor-.*")])
def test_a_pattern_of_bytes_is_refused(wrong: Any) -> None:
    with pytest.raises(TopologyError, match="pattern of bytes"):
        StreamsBuilder().stream(wrong)
    with pytest.raises(TopologyError, match="pattern of bytes"):
        Topology().add_source("s", wrong)


def test_a_source_has_one_pattern_or_names() -> None:
    with pytest.raises(TopologyError, match="a pattern and something else"):
        Topology().add_source("s", SENSORS, "in")


def test_the_description_shows_the_pattern_as_kafka_streams_does() -> None:
    topology = counting().build()
    expected = "Source: KSTREAM-SOURCE-0000000000 (topics: sensor-[a-z]+)"
    assert expected in topology.describe()
    assert expected in with_matched_topics(topology, ["sensor-eu"], "app").describe()


def test_a_topology_stays_the_same_whatever_the_pattern_matches() -> None:
    topology = joined().build()
    one = with_matched_topics(topology, ["sensor-eu", "room-eu"], "app")
    two = with_matched_topics(topology, ["sensor-eu", "sensor-us", "room-eu"], "app")
    assert one.fingerprint == two.fingerprint == topology.fingerprint
    assert not diff(one.summary(), two).changes


def joined() -> StreamsBuilder:
    builder = StreamsBuilder()
    window = JoinWindows.of_time_difference_with_no_grace(5)
    rooms = builder.stream(re.compile("room-.*"), READ)
    builder.stream(SENSORS, READ).join(rooms, lambda one, other: f"{one}{other}", window, StreamJoined.as_("j")).to(
        "out", Produced.with_(TEXT, TEXT)
    )
    return builder


def test_topics_of_joined_patterns_need_the_same_number_of_partitions() -> None:
    matched = with_matched_topics(joined().build(), ["sensor-eu", "sensor-us", "room-eu"], "app")
    assert matched.co_partition_groups == (frozenset({"sensor-eu", "sensor-us", "room-eu"}),)
    assert repartition_partition_counts(matched, {"sensor-eu": 2, "sensor-us": 2, "room-eu": 2}) == {}
    with pytest.raises(
        TopologyError, match="same number of partitions: room-eu has 2, sensor-eu has 2, sensor-us has 3"
    ):
        repartition_partition_counts(matched, {"sensor-eu": 2, "sensor-us": 3, "room-eu": 2})


class Topics(Processor[Any, Any]):
    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        metadata = self.context.record_metadata()
        assert metadata is not None
        self.context.forward(record.with_value(f"{metadata.topic}:{record.value}"))


def test_the_test_driver_takes_any_topic_that_matches() -> None:
    builder = StreamsBuilder()
    builder.stream(SENSORS, READ).process(Topics).to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(cloudpickle.loads(cloudpickle.dumps(builder.build()))) as driver:
        for topic in ("sensor-eu", "sensor-us", "sensor-eu"):
            driver.create_input_topic(topic, TEXT, TEXT).pipe_input("k", "v", 1)
        out = driver.create_output_topic("out", TEXT, TEXT)
        assert out.read_values() == ["sensor-eu:v", "sensor-us:v", "sensor-eu:v"]
        with pytest.raises(
            TopologyError, match=r"No source reads the topic 'sensor-1'.*what matches 'sensor-\[a-z\]\+'"
        ):
            driver.create_input_topic("sensor-1", TEXT, TEXT)


def test_a_topology_made_by_hand_reads_patterns_too() -> None:
    topology = Topology().add_source("s", SENSORS, key_serde=TEXT, value_serde=TEXT)
    topology.add_processor("count", Topics, "s")
    topology.add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("x"), TEXT, TEXT), "count")
    topology.add_sink("k", "out", "count", key_serde=TEXT, value_serde=TEXT)
    assert "Source: s (topics: sensor-[a-z]+)" in topology.describe()
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("sensor-x", TEXT, TEXT).pipe_input("k", "v", 1)
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["sensor-x:v"]


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("sensor-.*", "sensor-"),
        (r"a\.b\..+", "a.b."),
        ("sensors?", "sensor"),
        (r"a\.?b", "a"),
        ("a.b", "a"),
        (".*", ""),
        ("a|b", ""),
        ("(?i)abc", ""),
        ("abc", "abc"),
        ("ab{2}", "a"),
        ("[ab]c", ""),
    ],
)
def test_the_prefix_of_a_pattern_is_how_all_that_it_matches_begins(pattern: str, prefix: str) -> None:
    assert literal_prefix(re.compile(pattern)) == prefix
