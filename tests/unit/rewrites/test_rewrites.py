from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import Consumed, Grouped, KStream, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import StringSerde
from millrace.topology.nodes import ProcessorNode, SourceNode
from millrace.topology.topology import FrozenTopology

MERGE = ("merge-repartition-topics",)
STRINGS = Consumed.with_(StringSerde(), StringSerde())
GROUPED = Grouped.with_(StringSerde(), StringSerde())


def value_as_key(key: Any, value: Any) -> Any:
    return value


def keyed(builder: StreamsBuilder, topic: str) -> KStream:
    return builder.stream(topic, STRINGS).select_key(value_as_key)


def count(stream: KStream, topic: str) -> None:
    stream.group_by_key(GROUPED).count().to_stream().to(topic)


def topics_behind(topology: FrozenTopology, sink_topic: str) -> set[str]:
    """The topics that the sub-topology which writes ``sink_topic`` reads."""
    part = next(part for part in topology.sub_topologies if any(sink.topic == sink_topic for sink in part.sinks))
    return {topic for source in part.sources for topic in source.topics}


def test_an_unknown_rewrite_is_refused_with_the_known_ones() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(TopologyError, match="reuse-source-topic, merge-repartition-topics"):
        builder.build(rewrites=("merge-everything",))


def test_building_with_rewrites_leaves_the_builder_as_it_was() -> None:
    builder = StreamsBuilder()
    stream = keyed(builder, "in")
    count(stream, "one")
    count(stream, "two")
    before = builder.build()
    assert len(builder.build(rewrites=MERGE).repartition_topics) == 1
    assert builder.build() == before
    assert len(before.repartition_topics) == 2


def test_a_reused_source_topic_is_the_changelog_of_the_table() -> None:
    builder = StreamsBuilder()
    builder.stream("clicks").join(builder.table("users"), lambda value, user: user).to("out")
    (store,) = builder.build(rewrites=("reuse-source-topic",)).sub_topologies[0].stores
    assert (store.changelog_topic("app"), store.logged) == ("users", False)
    (store,) = builder.build().sub_topologies[0].stores
    assert store.changelog_topic("app") == "app-users-STATE-STORE-0000000001-changelog"


def test_operators_shared_by_two_merged_repartitions_stay_behind_the_one_topic() -> None:
    builder = StreamsBuilder()
    both = builder.stream("a", STRINGS).merge(keyed(builder, "b")).filter(lambda key, value: True)
    count(both, "one")
    count(both, "two")
    topology = builder.build(rewrites=MERGE)
    assert len(topology.repartition_topics) == 1
    (topic,) = topology.repartition_topics
    assert topics_behind(topology, "one") == topics_behind(topology, "two") == {topic.name}


def test_a_stream_that_joins_below_the_key_change_is_still_repartitioned() -> None:
    builder = StreamsBuilder()
    a, b = keyed(builder, "a"), keyed(builder, "b")
    count(a.merge(b), "both")
    count(b, "only-b")
    topology = builder.build(rewrites=MERGE)
    repartitioned = {spec.name for spec in topology.repartition_topics}
    assert topics_behind(topology, "both") <= repartitioned
    assert topics_behind(topology, "only-b") <= repartitioned


def test_nested_merges_repartition_once_behind_the_last() -> None:
    builder = StreamsBuilder()
    merged = keyed(builder, "a").merge(keyed(builder, "b")).merge(keyed(builder, "c"))
    count(merged, "one")
    count(merged, "two")
    topology = builder.build(rewrites=MERGE)
    (topic,) = topology.repartition_topics
    assert topics_behind(topology, "one") == {topic.name}
    first = topology.sub_topologies[0]
    assert {name for node in first.nodes if isinstance(node, SourceNode) for name in node.topics} == {"a", "b", "c"}
    (null_filter,) = (node for node in first.nodes if isinstance(node, ProcessorNode) and "-filter" in node.name)
    assert null_filter.parents == ("KSTREAM-MERGE-0000000007",)
