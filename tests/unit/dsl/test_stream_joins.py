"""What joins of two streams accept, and what they make of their options."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import Consumed, Joined, JoinWindows, Repartitioned, StoreBackend, StreamJoined, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.topology.stores import StoreSpec

TEXT, NUMBER, JSON = StringSerde(), LongSerde(), JsonSerde()
NEAR = JoinWindows.of_time_difference_and_grace(10, 5)


def both(value: Any, other: Any) -> Any:
    return value, other


def stores(builder: StreamsBuilder) -> dict[str, StoreSpec]:
    return {store.name: store for part in builder.build().sub_topologies for store in part.stores}


def test_stores_take_the_serdes_of_their_streams_and_keep_window_and_grace() -> None:
    builder = StreamsBuilder()
    left = builder.stream("a", Consumed.with_(TEXT, NUMBER))
    left.outer_join(builder.stream("b", Consumed.with_(TEXT, JSON)), both, NEAR, StreamJoined.as_("near")).to("out")
    found = stores(builder)
    assert list(found) == ["near-outer-this-join-store", "near-outer-other-join-store", "near-outer-shared-join-store"]
    this, other, shared = found.values()
    assert (this.key_serde, this.value_serde, other.value_serde) == (TEXT, NUMBER, JSON)
    assert {this.retention_ms, other.retention_ms} == {25}
    assert {this.retains_duplicates, other.retains_duplicates} == {True}
    assert {store.cached for store in (this, other, shared)} == {False}


def test_the_options_of_stream_joined_reach_every_store() -> None:
    builder = StreamsBuilder()
    options = (
        StreamJoined.with_(TEXT, NUMBER, JSON)
        .with_store_type(StoreBackend.MEMORY)
        .with_logging_enabled({"min.insync.replicas": "2"})
    )
    builder.stream("a").left_join(builder.stream("b"), both, NEAR, options).to("out")
    for store in stores(builder).values():
        assert store.backend is StoreBackend.MEMORY
        assert store.changelog_settings == (("min.insync.replicas", "2"),)


def test_windows_may_reach_one_way_only_but_not_be_empty() -> None:
    later = NEAR.before(-3)
    assert (later.before_ms, later.after_ms, later.size_ms, later.retention_ms) == (-3, 10, 7, 12)
    with pytest.raises(TopologyError, match="empty"):
        NEAR.after(-11)
    with pytest.raises(TopologyError, match="grace"):
        JoinWindows.of_time_difference_and_grace(1, -1)


def test_each_kind_of_join_refuses_the_options_of_the_other() -> None:
    builder = StreamsBuilder()
    stream, table = builder.stream("a"), builder.table("t")
    with pytest.raises(TopologyError, match="JoinWindows"):
        stream.join(builder.stream("b"), both)
    with pytest.raises(TopologyError, match="StreamJoined"):
        stream.left_join(builder.stream("c"), both, NEAR, joined=Joined.as_("j"))
    with pytest.raises(TopologyError, match="no windows"):
        stream.join(table, both, NEAR)


def test_streams_of_different_builders_and_wrong_joiners_are_refused() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("a")
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        stream.join(StreamsBuilder().stream("b"), both, NEAR)
    with pytest.raises(TopologyError, match="joiner"):
        stream.join(builder.stream("b"), lambda value: value, NEAR)
    with pytest.raises(TopologyError, match="joiner"):
        stream.join(builder.stream("c"), both, NEAR, joiner_takes_key=True)


def test_both_inputs_need_as_many_partitions() -> None:
    builder = StreamsBuilder()
    left = builder.stream("a").repartition(Repartitioned.as_("x").with_number_of_partitions(2))
    right = builder.stream("b").repartition(Repartitioned.as_("y").with_number_of_partitions(3))
    left.join(right, both, NEAR).to("out")
    with pytest.raises(TopologyError, match="same number of partitions"):
        builder.build()
