"""A stream joined with itself keeps its records once (``single.store.self.join`` of Kafka Streams, KIP-862)."""

from __future__ import annotations

from dataclasses import replace

from millrace.topology.freeze import merge_inputs_of_same_topics
from millrace.topology.logical import LogicalGraph, StreamJoin


def single_store_self_join(graph: LogicalGraph) -> LogicalGraph:
    """Gives one buffer to each join whose two sides are the same stream; two streams of a topic are one.

    Every record is its own partner, so left and outer joins of this kind wait for nothing and keep one store as well.
    """
    graph = merge_inputs_of_same_topics(graph)
    nodes = graph.by_name()
    gone: set[str] = set()
    alone: dict[str, StreamJoin] = {}
    for node in graph.nodes:
        if isinstance(node, StreamJoin) and len(node.parents) > 1:
            left, right = node.parents
            if nodes[left].parents == nodes[right].parents:
                gone.add(right)
                alone[node.name] = replace(node, parents=(left,), waiting_store=None)
    if not gone:
        return graph
    return graph.with_nodes(tuple(alone.get(node.name, node) for node in graph.nodes if node.name not in gone))
