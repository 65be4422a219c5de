"""Freezing a logical graph into a topology: order, node by node expansion, split into sub-topologies."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch

from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.serdes.changes import ChangeSerde
from millrace.topology.expression_checks import check_expressions
from millrace.topology.logical import (
    AnyLogicalNode,
    ForeignKeyTopic,
    GlobalStoreInput,
    LogicalGraph,
    Output,
    Process,
    Repartition,
    StreamInput,
    StreamJoin,
    TableInput,
    TableJoin,
    TableRepartition,
)
from millrace.topology.nodes import Node, ProcessorNode, RepartitionTopicSpec, SinkNode, SourceNode
from millrace.topology.operators import (
    DropNullKeys,
    JoinSide,
    PassThrough,
    StreamSelfJoin,
    StreamStreamJoin,
    TableJoinMerge,
    TableJoinSide,
    TableSource,
    looked_up_table,
    may_look_up_global_store,
)
from millrace.topology.partitioners import Partitioner
from millrace.topology.parts import GlobalStore, SubTopology
from millrace.topology.source_topics import check_pattern, co_partition_groups
from millrace.topology.stores import StoreSpec
from millrace.topology.table_plan import TablePlan, plan_tables
from millrace.topology.topic_names import check_topic_names
from millrace.topology.topology import FrozenTopology
from millrace.topology.versioned_plan import check_grace, with_versioned_semantics


def freeze(graph: LogicalGraph) -> FrozenTopology:
    """Returns the topology of ``graph``.

    Raises:
        TopologyError: the graph is empty or has a cycle, a name or topic is used twice, a store is unknown, or topics
            that must be co-partitioned cannot be, or a broker would refuse the name of a topic.
    """
    if not graph.nodes:
        raise TopologyError("The topology is empty.", remedy="read at least one topic with stream() or table()")
    _check_parents(graph)
    graph = merge_inputs_of_same_topics(graph)
    draft = _Draft(
        logical=graph.by_name(), plan=plan_tables(graph), unfiltered=_repartitions_that_keep_null_keys(graph)
    )
    for store in graph.stores:
        draft.add_store(store)
    for node in _in_build_order(graph):
        _expand(node, draft)
    _check_stores(draft)
    sub_topologies, global_stores = _split(draft)
    topology = FrozenTopology(
        sub_topologies=sub_topologies,
        repartition_topics=tuple(draft.repartition_topics.values()),
        co_partition_groups=co_partition_groups(graph.co_partitioned, draft.nodes),
        global_stores=global_stores,
        co_partitioned_sources=graph.co_partitioned if any(_has_pattern(node) for node in draft.nodes.values()) else (),
    )
    _check_partition_counts(topology)
    check_topic_names(topology)
    check_expressions(topology)
    return topology


def freeze_nodes(
    nodes: Iterable[Node], stores: Iterable[StoreSpec], global_stores: Mapping[str, str]
) -> FrozenTopology:
    """Returns the topology of nodes that were put together by hand, in the order in which they were added.

    Args:
        nodes: the nodes.
        stores: the stores that were added.
        global_stores: for each global store the node that writes it.

    Raises:
        TopologyError: there is none, or a store is unknown.
    """
    draft = _Draft(logical={}, plan=TablePlan(frozenset(), frozenset(), {}), unfiltered=frozenset())
    draft.global_stores.update(global_stores)
    for store in stores:
        draft.add_store(store)
    for node in nodes:
        draft.add(node)
    if not draft.nodes:
        raise TopologyError("The topology is empty.", remedy="add a source with add_source()")
    _check_stores(draft)
    sub_topologies, made_global_stores = _split(draft)
    topology = FrozenTopology(sub_topologies=sub_topologies, global_stores=made_global_stores)
    check_topic_names(topology)
    check_expressions(topology)
    return topology


def _check_parents(graph: LogicalGraph) -> None:
    nodes = graph.by_name()
    for node in graph.nodes:
        unknown = [parent for parent in node.parents if parent not in nodes]
        if unknown:
            raise TopologyError(f"Node {node.name!r} has unknown parents {unknown}. Known: {', '.join(sorted(nodes))}.")


def merge_inputs_of_same_topics(graph: LogicalGraph) -> LogicalGraph:
    """Streams of the same topics share the source of the first of them.

    Raises:
        TopologyError: two streams overlap in some topics but not all, or differ in how they read them.
    """
    first_of: dict[str | re.Pattern[str], StreamInput] = {}
    merged: dict[str, str] = {}
    for node in graph.nodes:
        if not isinstance(node, StreamInput):
            continue
        for topic in (*node.topics, *(() if node.pattern is None else (node.pattern,))):
            main = first_of.setdefault(topic, node)
            if main is node:
                continue
            if set(main.topics) != set(node.topics):
                raise TopologyError(
                    f"The streams of topics {sorted(main.topics)} and {sorted(node.topics)} overlap and are not equal.",
                    remedy="read each topic in a stream of its own and merge() them",
                )
            if (main.offset_reset, main.frame_functions) != (node.offset_reset, node.frame_functions):
                read = sorted(node.topics) if node.pattern is None else f"that match {node.pattern.pattern!r}"
                raise TopologyError(
                    f"Topics {read} are read twice, with different offset resets or frame functions.",
                    remedy="read them once and use that stream twice",
                )
            merged[node.name] = main.name
    if not merged:
        return graph
    return replace(
        graph,
        nodes=tuple(
            replace(node, parents=tuple(dict.fromkeys(merged.get(parent, parent) for parent in node.parents)))
            for node in graph.nodes
            if node.name not in merged
        ),
        co_partitioned=tuple(frozenset(merged.get(name, name) for name in group) for group in graph.co_partitioned),
    )


@dataclass
class _Draft:
    """The topology while it is put together."""

    logical: dict[str, AnyLogicalNode]
    plan: TablePlan
    unfiltered: frozenset[str]
    nodes: dict[str, Node] = field(default_factory=dict)
    stores: dict[str, StoreSpec] = field(default_factory=dict)
    global_stores: dict[str, str] = field(default_factory=dict)
    """Names of the processors that write the global stores."""
    topic_sources: dict[str, str] = field(default_factory=dict)
    repartition_topics: dict[str, RepartitionTopicSpec] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        if node.name in self.nodes:
            raise TopologyError(
                f"Two nodes are named {node.name!r}. Names in use: {', '.join(sorted(self.nodes))}.",
                remedy="give one of them another name",
            )
        if isinstance(node, SourceNode):
            check_pattern(node, (other for other in self.nodes.values() if isinstance(other, SourceNode)))
            for topic in node.topics:
                other = self.topic_sources.setdefault(topic, node.name)
                if other != node.name:
                    raise TopologyError(
                        f"Topic {topic!r} is read by both {other!r} and {node.name!r}.",
                        remedy="read it once; to_stream() and to_table() give the other view of it",
                    )
        if isinstance(node, ProcessorNode) and node.name in self.plan.old_value_senders:
            node = replace(node, sends_old_values=True)
        self.nodes[node.name] = node

    def add_store(self, store: StoreSpec) -> None:
        if store.name in self.stores:
            raise TopologyError(
                f"Two stores are named {store.name!r}. Names in use: {', '.join(sorted(self.stores))}.",
                remedy="give one of them another name in its Materialized",
            )
        self.stores[store.name] = store

    def add_repartition_topic(self, spec: RepartitionTopicSpec) -> None:
        if spec.name in self.repartition_topics:
            raise TopologyError(
                f"Two repartition topics are named {spec.name!r}.",
                remedy="give one of them another name in its Grouped, Joined or Repartitioned",
            )
        self.repartition_topics[spec.name] = spec

    def add_repartition(
        self,
        node: Repartition | TableRepartition | ForeignKeyTopic,
        *,
        value_serde: Serde | None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        in_front: ProcessorNode | None = None,
    ) -> None:
        """Adds a topic between sub-topologies, the sink that writes it and the source, named as the node, behind it."""
        self.add_repartition_topic(RepartitionTopicSpec(name=node.topic, partitions=partitions))
        if in_front is not None:
            self.add(in_front)
        self.add(
            SinkNode(
                name=node.sink_name,
                parents=node.parents if in_front is None else (in_front.name,),
                topic=node.topic,
                key_serde=node.key_serde,
                value_serde=value_serde,
                partitioner=partitioner,
                internal=True,
            )
        )
        self.add(
            SourceNode(
                name=node.name,
                topics=(node.topic,),
                key_serde=node.key_serde,
                value_serde=value_serde,
                internal=True,
            )
        )


def _in_build_order(graph: LogicalGraph) -> Iterable[AnyLogicalNode]:
    """By priority, each behind all its parents."""
    nodes, children = graph.by_name(), graph.children()
    done: set[str] = set()
    queue = [(node.priority, node.name) for node in graph.nodes if not node.parents]
    heapq.heapify(queue)
    while queue:
        _, name = heapq.heappop(queue)
        if name in done or any(parent not in done for parent in nodes[name].parents):
            continue
        done.add(name)
        yield nodes[name]
        for child in children[name]:
            heapq.heappush(queue, (child.priority, child.name))
    if len(done) < len(nodes):
        raise TopologyError(f"These nodes form a cycle or hang on one: {', '.join(sorted(set(nodes) - done))}.")


@singledispatch
def _expand(node: AnyLogicalNode, draft: _Draft) -> None:
    """Adds the nodes and stores that a logical node stands for."""
    raise TypeError(f"{type(node).__name__} cannot be added to {draft}.")


@_expand.register
def _(node: StreamInput, draft: _Draft) -> None:
    draft.add(
        SourceNode(
            name=node.name,
            topics=node.topics,
            key_serde=node.key_serde,
            value_serde=node.value_serde,
            timestamp_extractor=node.timestamp_extractor,
            offset_reset=node.offset_reset,
            frame_functions=node.frame_functions,
            pattern=node.pattern,
        )
    )


@_expand.register
def _(node: TableInput, draft: _Draft) -> None:
    draft.add(
        SourceNode(
            name=node.source_name,
            topics=(node.topic,),
            key_serde=node.key_serde,
            value_serde=node.value_serde,
            timestamp_extractor=node.timestamp_extractor,
            offset_reset=node.offset_reset,
        )
    )
    stored = node.name in draft.plan.stored
    draft.add(_table_processor(node.name, (node.source_name,), node.store if stored else None))
    if stored:
        store = replace(node.store, logged=False, source_topic=node.topic) if node.reuse_source_topic else node.store
        draft.add_store(store)


@_expand.register
def _(node: GlobalStoreInput, draft: _Draft) -> None:
    draft.add(
        SourceNode(
            name=node.source_name,
            topics=(node.topic,),
            key_serde=node.key_serde,
            value_serde=node.value_serde,
            timestamp_extractor=node.timestamp_extractor,
        )
    )
    draft.add(
        ProcessorNode(name=node.name, parents=(node.source_name,), operator=node.operator, stores=(node.store.name,))
    )
    draft.add_store(replace(node.store, logged=False, cached=False))
    draft.global_stores[node.store.name] = node.name


@_expand.register
def _(node: Process, draft: _Draft) -> None:
    if isinstance(node.operator, TableSource):
        assert node.store is not None
        stored = node.name in draft.plan.stored
        draft.add(_table_processor(node.name, node.parents, node.store if stored else None))
        if stored:
            draft.add_store(node.store)
        return
    own = () if node.store is None else (node.store.name,)
    table = looked_up_table(node.operator)
    looked_up = () if table is None else draft.plan.stores_behind[table]
    check_grace(draft.logical, node, looked_up)
    draft.add(
        ProcessorNode(
            name=node.name,
            parents=node.parents,
            operator=with_versioned_semantics(draft.logical, node),
            stores=(*own, *node.reads, *looked_up),
        ),
    )
    if node.store is not None:
        draft.add_store(node.store)


@_expand.register
def _(node: Repartition, draft: _Draft) -> None:
    operator = PassThrough() if node.name in draft.unfiltered else DropNullKeys()
    draft.add_repartition(
        node,
        value_serde=node.value_serde,
        partitions=node.partitions,
        partitioner=node.partitioner,
        in_front=ProcessorNode(name=node.filter_name, parents=node.parents, operator=operator),
    )


@_expand.register
def _(node: StreamJoin, draft: _Draft) -> None:
    if len(node.parents) == 1:
        alone = StreamSelfJoin(node.left_store, node.windows, node.joiner, node.joiner_takes_key)
        draft.add(ProcessorNode(name=node.name, parents=node.parents, operator=alone, stores=(node.left_store,)))
        return
    unmatched = () if node.waiting_store is None else (node.waiting_store.name,)
    sides = (
        (node.this_name, JoinSide.LEFT, node.parents[0], node.right_store),
        (node.other_name, JoinSide.RIGHT, node.parents[1], node.left_store),
    )
    for name, side, parent, looked_up in sides:
        operator = StreamStreamJoin(
            joint=node.name,
            side=side,
            kind=node.kind,
            windows=node.windows,
            left_store=node.left_store,
            right_store=node.right_store,
            waiting_store=unmatched[0] if unmatched else None,
            joiner=node.joiner,
            joiner_takes_key=node.joiner_takes_key,
        )
        draft.add(ProcessorNode(name=name, parents=(parent,), operator=operator, stores=(looked_up, *unmatched)))
    draft.add(ProcessorNode(name=node.name, parents=(node.this_name, node.other_name), operator=PassThrough()))
    if node.waiting_store is not None:
        draft.add_store(node.waiting_store)


@_expand.register
def _(node: TableJoin, draft: _Draft) -> None:
    sides = ((node.this_name, node.left, node.right), (node.other_name, node.right, node.left))
    for name, own, other in sides:
        draft.add(
            ProcessorNode(
                name=name,
                parents=(own,),
                operator=TableJoinSide(node.kind, other, node.joiner, is_left=name == node.this_name),
                stores=draft.plan.stores_behind[other],
            )
        )
    store = None if node.store is None else node.store.name
    draft.add(
        ProcessorNode(
            name=node.name,
            parents=(node.this_name, node.other_name),
            operator=TableJoinMerge(node.kind, node.left, node.right, node.joiner, store),
            stores=() if store is None else (store,),
        )
    )
    if node.store is not None:
        draft.add_store(node.store)


@_expand.register
def _(node: TableRepartition, draft: _Draft) -> None:
    draft.add_repartition(node, value_serde=ChangeSerde(node.value_serde))


@_expand.register
def _(node: ForeignKeyTopic, draft: _Draft) -> None:
    draft.add_repartition(node, value_serde=node.value_serde, partitioner=node.partitioner)


@_expand.register
def _(node: Output, draft: _Draft) -> None:
    draft.add(
        SinkNode(
            name=node.name,
            parents=node.parents,
            topic=node.topic,
            key_serde=node.key_serde,
            value_serde=node.value_serde,
            partitioner=node.partitioner,
            extractor=node.extractor,
        )
    )


def _table_processor(name: str, parents: tuple[str, ...], store: StoreSpec | None) -> ProcessorNode:
    if store is None:
        return ProcessorNode(name=name, parents=parents, operator=TableSource(None))
    return ProcessorNode(name=name, parents=parents, operator=TableSource(store.name), stores=(store.name,))


def _repartitions_that_keep_null_keys(graph: LogicalGraph) -> frozenset[str]:
    """Repartitions with a left join somewhere below: its unmatched records may have null keys (KIP-962)."""
    children = graph.children()
    keeps: dict[str, bool] = {}

    def leads_to_left_join(node: AnyLogicalNode) -> bool:
        if node.name not in keeps:
            keeps[node.name] = False
            keeps[node.name] = any(
                (isinstance(child, Process | StreamJoin) and child.keeps_null_keys) or leads_to_left_join(child)
                for child in children[node.name]
            )
        return keeps[node.name]

    return frozenset(node.name for node in graph.nodes if isinstance(node, Repartition) and leads_to_left_join(node))


def _check_stores(draft: _Draft) -> None:
    for node in draft.nodes.values():
        if not isinstance(node, ProcessorNode):
            continue
        for store in node.stores:
            if store not in draft.stores:
                available = ", ".join(sorted(draft.stores)) or "none"
                raise TopologyError(f"Node {node.name!r} uses store {store!r}, which is unknown. Stores: {available}.")
            if draft.global_stores.get(store, node.name) != node.name:
                raise TopologyError(
                    f"Node {node.name!r} is connected with the global store {store!r}.",
                    remedy="leave it out of the node's stores: every processor may read a global store without that",
                )


def _split(draft: _Draft) -> tuple[tuple[SubTopology, ...], tuple[GlobalStore, ...]]:
    """Nodes that are connected, directly or through a store, make a sub-topology; numbered by their first nodes.

    A global store is numbered among them; it is connected with none, whoever looks it up.
    """
    root_of = {name: name for name in draft.nodes}

    def find(name: str) -> str:
        while root_of[name] != name:
            root_of[name] = root_of[root_of[name]]
            name = root_of[name]
        return name

    store_user: dict[str, str] = {}
    for node in draft.nodes.values():
        if isinstance(node, SourceNode):
            continue
        for parent in node.parents:
            root_of[find(parent)] = find(node.name)
        for store in node.stores if isinstance(node, ProcessorNode) else ():
            root_of[find(store_user.setdefault(store, node.name))] = find(node.name)
    groups: dict[str, list[Node]] = {}
    for node in draft.nodes.values():
        groups.setdefault(find(node.name), []).append(node)
    global_stores: list[GlobalStore] = []
    parts: list[tuple[int, list[Node]]] = []
    for number, nodes in enumerate(groups.values()):
        match nodes:
            case [SourceNode() as source, ProcessorNode(stores=(store,)) as processor] if store in draft.global_stores:
                global_stores.append(
                    GlobalStore(number=number, source=source, processor=processor, store=draft.stores[store])
                )
            case _:
                parts.append((number, nodes))
    sub_topologies = tuple(
        SubTopology(
            number=number,
            nodes=tuple(nodes),
            stores=_stores_of(nodes, draft.stores),
            global_stores=tuple(each for each in global_stores if _look_up(nodes, each.store.name)),
        )
        for number, nodes in parts
    )
    return sub_topologies, tuple(global_stores)


def _look_up(nodes: list[Node], global_store: str) -> bool:
    return any(
        isinstance(node, ProcessorNode) and may_look_up_global_store(node.operator, global_store) for node in nodes
    )


def _stores_of(nodes: list[Node], stores: dict[str, StoreSpec]) -> tuple[StoreSpec, ...]:
    used = {store for node in nodes if isinstance(node, ProcessorNode) for store in node.stores}
    return tuple(store for name, store in stores.items() if name in used)


def _has_pattern(node: Node) -> bool:
    return isinstance(node, SourceNode) and node.pattern is not None


def _check_partition_counts(topology: FrozenTopology) -> None:
    asked = {spec.name: spec.partitions for spec in topology.repartition_topics if spec.partitions is not None}
    for group in topology.co_partition_groups:
        counts = {topic: asked[topic] for topic in sorted(group) if topic in asked}
        if len(set(counts.values())) > 1:
            raise TopologyError(
                f"Topics that are joined need the same number of partitions, but have {counts}.",
                remedy="give all of them the same number in Repartitioned",
            )
