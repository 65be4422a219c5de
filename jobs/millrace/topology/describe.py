"""The text of ``Topology#describe()`` of Kafka Streams, character by character.

Its order of neighbours depends on the orders of Java's collections and on sizes that grow while nodes are connected,
so both are followed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from millrace.topology.java_order import TreeOrder, hash_order
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.parts import GlobalStore, SubTopology, TopologyParts
from millrace.topology.topic_extractors import extractor_text


def describe(topology: TopologyParts) -> str:
    """Returns the description of ``topology``."""
    return "Topologies:\n " + "".join("  " + _describe_part(part) for part in topology.parts)


@dataclass(eq=False)
class _Described:
    """A node with its neighbours; ``size`` counts the nodes of the graph below it, itself included."""

    node: Node
    size: int = 1
    predecessors: TreeOrder[_Described] = field(default_factory=lambda: TreeOrder(_compare))
    successors: TreeOrder[_Described] = field(default_factory=lambda: TreeOrder(_compare))

    def grow(self, size: int) -> None:
        self.size += size
        for predecessor in self.predecessors:
            predecessor.grow(size)


def _compare(one: _Described, other: _Described) -> int:
    """The larger first, then by name."""
    if one is other:
        return 0
    if one.size != other.size:
        return other.size - one.size
    return -1 if one.node.name < other.node.name else 1


def _describe_part(part: SubTopology | GlobalStore) -> str:
    by_name = {node.name: _Described(node) for node in part.nodes}
    for name in hash_order(hash_order(by_name)):
        described = by_name[name]
        for parent_name in () if isinstance(described.node, SourceNode) else described.node.parents:
            parent = by_name[parent_name]
            described.predecessors.add(parent)
            parent.successors.add(described)
            parent.grow(described.size)
    ordered = sorted(by_name.values(), key=lambda described: (-described.size, described.node.name))
    lines = "".join(f"    {_describe_node(described)}\n" for described in ordered)
    if isinstance(part, GlobalStore):
        return f"Sub-topology: {part.number} for global store (will not generate tasks)\n{lines}"
    return f"Sub-topology: {part.number}\n{lines}\n"


def _describe_node(described: _Described) -> str:
    node = described.node
    successors = f"\n      --> {_names(described.successors)}"
    predecessors = f"\n      <-- {_names(described.predecessors)}"
    match node:
        case SourceNode(pattern=pattern) if pattern is not None:
            return f"Source: {node.name} (topics: {pattern.pattern}){successors}"
        case SourceNode():
            return f"Source: {node.name} (topics: {_set(hash_order(node.topics, sized=True))}){successors}"
        case ProcessorNode():
            return f"Processor: {node.name} (stores: {_set(hash_order(node.stores))}){successors}{predecessors}"
        case SinkNode(extractor=extractor) if extractor is not None:
            return f"Sink: {node.name} (extractor class: {extractor_text(extractor)}){predecessors}"
        case SinkNode():
            return f"Sink: {node.name} (topic: {node.topic}){predecessors}"


def _set(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"


def _names(neighbours: Iterable[_Described]) -> str:
    return ", ".join(neighbour.node.name for neighbour in neighbours) or "none"
