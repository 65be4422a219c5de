"""The order of the nodes of a sub-topology: which node feeds which, and whose records meet again further down."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.topology.nodes import Node, ProcessorNode, SourceNode
from millrace.topology.operators import looked_up_table
from millrace.topology.parts import SubTopology


def children(nodes: tuple[Node, ...]) -> dict[str, tuple[str, ...]]:
    """Returns for each node that has children their names, in the order of the topology."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        if not isinstance(node, SourceNode):
            for parent in node.parents:
                found.setdefault(parent, []).append(node.name)
    return {name: tuple(names) for name, names in found.items()}


def joint_nodes(sub_topology: SubTopology) -> dict[str, tuple[ProcessorNode, ...]]:
    """Returns for each node that runs jointly with others all of these nodes, in the order of the topology."""
    groups: dict[str, list[ProcessorNode]] = {}
    for node in sub_topology.processors:
        joint: str | None = getattr(node.operator, "joint", None)
        if joint is not None:
            groups.setdefault(joint, []).append(node)
    return {node.name: tuple(members) for members in groups.values() for node in members}


def predecessors(sub_topology: SubTopology) -> dict[str, list[str]]:
    """Returns for each node those that must run before it: its parents, and the writers of the tables it looks up.

    For a node that runs together with others also their parents.
    """
    together = joint_nodes(sub_topology)
    found: dict[str, list[str]] = {}
    for node in sub_topology.nodes:
        before: list[str] = [] if isinstance(node, SourceNode) else list(node.parents)
        before += [parent for member in together.get(node.name, ()) for parent in member.parents]
        if isinstance(node, ProcessorNode) and looked_up_table(node.operator) is not None:
            before += [
                other.name
                for other in sub_topology.processors
                if looked_up_table(other.operator) is None and set(other.stores) & set(node.stores)
            ]
        found[node.name] = before
    return found


def schedule(sub_topology: SubTopology) -> tuple[Node, ...]:
    """Returns the nodes sorted so that all that feed a node come before it; otherwise in the topology's order."""
    before = predecessors(sub_topology)
    remaining = list(sub_topology.nodes)
    done: set[str] = set()
    scheduled: list[Node] = []
    while remaining:
        ready = next(node for node in remaining if all(name in done for name in before[node.name]))
        remaining.remove(ready)
        done.add(ready.name)
        scheduled.append(ready)
    return tuple(scheduled)


def reconverging(sub_topology: SubTopology, fed: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Returns the nodes whose children's paths meet again: in a node, a table, a topic or another task.

    For the children of these nodes the position in the order of children matters.
    """
    followers: dict[str, set[str]] = {}
    for name, before in predecessors(sub_topology).items():
        for feed in before:
            followers.setdefault(feed, set()).add(name)
    topics_are_chosen = any(sink.topic is None for sink in sub_topology.sinks)
    for sink in sub_topology.sinks:
        # Sinks that choose their topics may meet any other in one of them, and one task may read several of the
        # application's own.
        together = topics_are_chosen or sink.internal
        followers.setdefault(sink.name, set()).add("topics" if together else f"topic {sink.topic}")

    def reached_from(start: str) -> set[str]:
        seen: set[str] = set()
        unvisited = [start]
        while unvisited:
            name = unvisited.pop()
            if name not in seen:
                seen.add(name)
                unvisited.extend(followers.get(name, ()))
        return seen

    meeting = set()
    for name, own_children in fed.items():
        ways = [reached_from(child) for child in own_children]
        if any(first & second for number, first in enumerate(ways) for second in ways[number + 1 :]):
            meeting.add(name)
    return frozenset(meeting)
