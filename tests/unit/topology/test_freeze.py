from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from millrace.dsl import Branched, Consumed, KStream, Materialized, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import JsonSerde, StringSerde
from millrace.topology.freeze import freeze
from millrace.topology.java_order import TreeOrder, string_hash
from millrace.topology.logical import LogicalGraph, Process, StreamInput
from millrace.topology.nodes import SourceNode
from millrace.topology.operators import JoinKind, PassThrough, StreamTableJoin


def value_of(key: Any, value: Any) -> Any:
    return value


def left(value: Any, other: Any) -> Any:
    return value


def test_a_cycle_is_refused_with_its_nodes() -> None:
    graph = LogicalGraph(
        nodes=(
            StreamInput(name="source", topics=("in",)),
            Process(name="a", parents=("source", "b"), operator=PassThrough(), priority=1),
            Process(name="b", parents=("a",), operator=PassThrough(), priority=2),
        )
    )
    with pytest.raises(TopologyError, match="cycle or hang on one: a, b"):
        freeze(graph)


def test_an_unknown_parent_is_refused_with_the_known_nodes() -> None:
    graph = LogicalGraph(
        nodes=(
            StreamInput(name="source", topics=("in",)),
            Process(name="a", parents=("sauce",), operator=PassThrough()),
        )
    )
    with pytest.raises(TopologyError, match=r"unknown parents \['sauce'\]. Known: a, source"):
        freeze(graph)


def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    join = StreamTableJoin("userz", JoinKind.INNER, left)
    graph = LogicalGraph(
        nodes=(
            StreamInput(name="source", topics=("in",)),
            Process(name="join", parents=("source",), operator=join, priority=1),
        )
    )
    with pytest.raises(TopologyError, match=r"'userz', which is unknown\. Tables: none"):
        freeze(graph)


def test_an_unknown_store_is_refused_with_the_known_ones() -> None:
    graph = LogicalGraph(
        nodes=(
            StreamInput(name="source", topics=("in",)),
            Process(name="reader", parents=("source",), operator=PassThrough(), reads=("userz",), priority=1),
        )
    )
    with pytest.raises(TopologyError, match=r"'userz', which is unknown\. Stores: none"):
        freeze(graph)


def test_parents_stand_before_children_in_every_sub_topology() -> None:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks").select_key(value_of)
    clicks.left_join(builder.table("users"), left).merge(clicks.filter(value_of)).to("out")
    for part in builder.build().sub_topologies:
        seen: set[str] = set()
        for node in part.nodes:
            assert isinstance(node, SourceNode) or set(node.parents) <= seen
            seen.add(node.name)


def test_a_topology_can_be_sent_to_another_process() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(StringSerde(), JsonSerde()))
    stream.group_by(value_of).count(Materialized.as_("counts")).to_stream().to("out")
    topology = builder.build()
    assert pickle.loads(pickle.dumps(topology)) == topology


def test_string_hashes_are_those_of_java() -> None:
    assert string_hash("KSTREAM-SOURCE-0000000000") == 1861603632
    assert string_hash("😀") == 1772899


def test_a_tree_keeps_its_order_and_drops_equal_items() -> None:
    tree: TreeOrder[int] = TreeOrder(lambda one, other: one - other)
    for item in [5, 3, 8, 1, 4, 7, 9, 2, 6, 5, 0, 10, 12, 11]:
        tree.add(item)
    assert list(tree) == list(range(13))


def _sink_of(number: int) -> Callable[[KStream], object]:
    return lambda stream: stream.to(f"out-{number}")


def test_many_branches_are_described_without_loss() -> None:
    builder = StreamsBuilder()
    split = builder.stream("in").split(named="to-")
    for number in range(40):
        split.branch(value_of, Branched.with_consumer(_sink_of(number), name=f"n{number}"))
    split.no_default_branch()
    description = builder.build().describe()
    assert all(f"(topic: out-{number})" in description for number in range(40))
