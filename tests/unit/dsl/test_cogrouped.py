"""What cogroups accept, and what they make of their options."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import (
    CogroupedKStream,
    Consumed,
    Grouped,
    KGroupedStream,
    Materialized,
    Repartitioned,
    SessionWindows,
    StreamsBuilder,
)
from millrace.errors import TopologyError
from millrace.serdes import JsonSerde, LongSerde, SessionWindowedSerde, StringSerde
from millrace.topology.diff import ChangeKind, diff
from millrace.topology.nodes import SinkNode
from millrace.topology.topology import FrozenTopology

TEXT, NUMBER, JSON = StringSerde(), LongSerde(), JsonSerde()


def zero() -> int:
    return 0


def add(key: Any, value: Any, aggregate: Any) -> Any:
    return aggregate


def swapped(key: Any, value: Any) -> tuple[Any, Any]:
    return value, key


def grouped(builder: StreamsBuilder, topic: str, *, re_keyed: bool = False, name: str | None = None) -> KGroupedStream:
    stream = builder.stream(topic, Consumed.with_(TEXT, NUMBER))
    if re_keyed:
        stream = stream.map(swapped)
    return stream.group_by_key(Grouped(name=name, key_serde=TEXT, value_serde=NUMBER))


def two(builder: StreamsBuilder) -> CogroupedKStream:
    return grouped(builder, "a").cogroup(add).cogroup(grouped(builder, "b"), add)


def test_a_store_takes_the_key_serde_of_its_streams_and_the_value_serde_that_is_given() -> None:
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_with_no_grace(5)
    table = two(builder).windowed_by(windows).aggregate(zero, add, Materialized.as_("both").with_value_serde(JSON))
    table.to_stream().to("out")
    (part,) = builder.build().sub_topologies
    (store,) = part.stores
    assert (store.name, store.key_serde, store.value_serde) == ("both", TEXT, JSON)
    assert table.queryable_store_name == "both"
    sinks = [node for node in part.nodes if isinstance(node, SinkNode)]
    assert [type(sink.key_serde) for sink in sinks] == [SessionWindowedSerde]


def test_streams_whose_repartition_topics_would_have_one_name_are_refused() -> None:
    builder = StreamsBuilder()
    cogrouped = grouped(builder, "a", re_keyed=True).cogroup(add)
    cogrouped.cogroup(grouped(builder, "b", re_keyed=True), add)
    with pytest.raises(TopologyError, match="'both-repartition'") as refused:
        cogrouped.aggregate(zero, Materialized.as_("both"))
    assert "Grouped" in str(refused.value)


def test_a_named_repartition_topic_is_shared_with_the_other_aggregations_of_its_stream() -> None:
    builder = StreamsBuilder()
    one = grouped(builder, "a", re_keyed=True, name="by-value")
    one.count(Materialized.as_("counts"))
    one.cogroup(add).cogroup(grouped(builder, "b"), add).aggregate(zero, Materialized.as_("both"))
    topology = builder.build()
    assert [spec.name for spec in topology.repartition_topics] == ["by-value-repartition"]
    assert topology.co_partition_groups == (frozenset({"by-value-repartition", "b"}),)


def test_inputs_of_different_partition_counts_are_refused() -> None:
    builder = StreamsBuilder()
    groups = [
        builder.stream(topic).repartition(Repartitioned(name=topic, number_of_partitions=count)).group_by_key()
        for topic, count in (("a", 2), ("b", 3))
    ]
    groups[0].cogroup(add).cogroup(groups[1], add).aggregate(zero)
    with pytest.raises(TopologyError, match="same number of partitions"):
        builder.build()


def test_callables_and_streams_that_do_not_fit_are_refused() -> None:
    builder = StreamsBuilder()
    cogrouped = two(builder)
    with pytest.raises(TopologyError, match="adder"):
        grouped(builder, "c").cogroup(zero)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        cogrouped.cogroup(grouped(StreamsBuilder(), "c"), add)
    with pytest.raises(TopologyError, match="initializer"):
        cogrouped.aggregate(add)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="merger"):
        cogrouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5)).aggregate(
            zero,
            zero,  # type: ignore[arg-type]
        )
    with pytest.raises(TopologyError, match="windowed_by"):
        cogrouped.windowed_by(5)  # type: ignore[call-overload]


def _cogrouped(*topics: str) -> FrozenTopology:
    builder = StreamsBuilder()
    first, *others = (grouped(builder, topic) for topic in topics)
    cogrouped = first.cogroup(add)
    for other in others:
        cogrouped.cogroup(other, add)
    cogrouped.aggregate(zero, Materialized.as_("both")).to_stream().to("out")
    return builder.build()


def test_another_input_keeps_the_state_and_is_told() -> None:
    found = diff(_cogrouped("a", "b").summary(), _cogrouped("a", "b", "c"))
    assert not found.loses_state
    assert [change.text for change in found.of_kind(ChangeKind.CHANGED)] == [
        "store both keeps its content; inputs ['a', 'b'] becomes ['a', 'b', 'c']"
    ]


def test_a_cogroup_that_becomes_windowed_is_refused() -> None:
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_with_no_grace(5)
    two(builder).windowed_by(windows).aggregate(zero, add, Materialized.as_("both")).to_stream().to("out")
    assert diff(_cogrouped("a", "b").summary(), builder.build()).of_kind(ChangeKind.INCOMPATIBLE)
