"""The rewrite ``merge.repartition.topics`` of Kafka Streams: one repartition topic behind a change of key, not several.

Operators between the change of key and the repartition topics move behind the one that is left, unless one of them
changes values: the topic's serdes would not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millrace.topology.logical import AnyLogicalNode, LogicalGraph, Process, Repartition

Test = Callable[[AnyLogicalNode], bool]


def merge_repartition_topics(graph: LogicalGraph) -> LogicalGraph:
    """Merges the repartition topics below each change of key (or merge of such streams) into the first.

    The topic keeps the first one's name. A lone one is replaced as well, which renames its nodes but not the topic.
    """
    for brancher, repartitions in _mergeable(graph).items():
        graph = _merge(graph, brancher, repartitions)
    return graph


def _mergeable(graph: LogicalGraph) -> dict[str, list[str]]:
    """Names of the repartitions to merge under the name of the node behind which the merged one belongs."""
    nodes = graph.by_name()
    below: dict[str, list[str]] = {node.name: [] for node in graph.nodes if _changes_key(node)}
    for node in graph.nodes:
        if isinstance(node, Repartition) and node.mergeable:
            changer = _seek(nodes, node, _changes_key)
            if changer is not None and changer is _seek(nodes, node, _changes_key_or_value):
                below[changer.name].append(node.name)
    return _moved_behind_merges(nodes, below)


def _moved_behind_merges(nodes: dict[str, AnyLogicalNode], below: dict[str, list[str]]) -> dict[str, list[str]]:
    """Repartitions of streams that were merged go behind the merge, not behind each stream's change of key."""
    behind: dict[str, list[str]] = {}
    moved: set[str] = set()
    for node in nodes.values():
        if not (isinstance(node, Process) and node.merges):
            continue
        changers = [
            changer
            for changer, repartitions in below.items()
            if all(_seek(nodes, nodes[name], _is_child_of(node.name)) is not None for name in repartitions)
            and _seek(nodes, node, _is_child_of(changer)) is not None
        ]
        behind[node.name] = list(dict.fromkeys(name for changer in changers for name in below[changer]))
        moved.update(changers)
    for name, repartitions in behind.items():
        nearer = [other for other in behind if other != name and set(behind[other]) & set(repartitions)]
        if any(_seek(nodes, nodes[other], _is_child_of(name)) is not None for other in nearer):
            behind[name] = []
    kept = {changer: names for changer, names in below.items() if changer not in moved}
    return {brancher: names for brancher, names in (*kept.items(), *behind.items()) if names}


def _merge(graph: LogicalGraph, brancher: str, names: list[str]) -> LogicalGraph:
    nodes = graph.by_name()
    replaced = [
        node
        for name in names
        if isinstance(node := nodes.get(name), Repartition) and _all_records_pass(nodes, node, brancher)
    ]
    if not replaced:
        return graph
    topic = replaced[0].topic
    merged = Repartition(
        name=f"{topic}-source",
        parents=(brancher,),
        priority=nodes[brancher].priority,
        filter_name=f"{topic}-filter",
        sink_name=f"{topic}-sink",
        topic=topic,
        key_serde=next((node.key_serde for node in replaced if node.key_serde is not None), None),
        value_serde=next((node.value_serde for node in replaced if node.value_serde is not None), None),
        generated=replaced[0].generated,
    )
    starts = {name for node in replaced for name in _up_to(nodes, node, brancher) if brancher in nodes[name].parents}
    for gone in replaced:
        for node in [node for node in nodes.values() if gone.name in node.parents]:
            parents = (*(parent for parent in node.parents if parent != gone.name), *gone.parents)
            nodes[node.name] = replace(node, parents=tuple(dict.fromkeys(parents)))
            if brancher in gone.parents:
                starts.add(node.name)
        del nodes[gone.name]
    for name in starts & set(nodes):
        others = tuple(parent for parent in nodes[name].parents if parent != brancher)
        nodes[name] = replace(nodes[name], parents=(*others, merged.name))
    old = {node.name for node in replaced}
    return replace(
        graph,
        nodes=(*nodes.values(), merged),
        co_partitioned=tuple((group - old) | {merged.name} if group & old else group for group in graph.co_partitioned),
    )


def _up_to(nodes: dict[str, AnyLogicalNode], start: AnyLogicalNode, end: str) -> set[str]:
    """Names of ``start`` and of the nodes above it, up to and without ``end``."""
    seen: set[str] = set()
    remaining = [start.name]
    while remaining:
        name = remaining.pop()
        if name != end and name not in seen:
            seen.add(name)
            remaining += nodes[name].parents
    return seen


def _all_records_pass(nodes: dict[str, AnyLogicalNode], node: AnyLogicalNode, through: str) -> bool:
    """Whether no input reaches ``node`` around ``through``: its records would miss the merged topic."""
    return all(nodes[name].parents for name in _up_to(nodes, node, through))


def _seek(nodes: dict[str, AnyLogicalNode], start: AnyLogicalNode, test: Test) -> AnyLogicalNode | None:
    """The node that fits, from ``start`` upwards; where nodes have several parents, the last one's finding counts."""
    if test(start):
        return start
    found: AnyLogicalNode | None = None
    for parent in (nodes[name] for name in start.parents):
        if test(parent):
            return parent
        found = _seek(nodes, parent, test)
    return found


def _changes_key(node: AnyLogicalNode) -> bool:
    return isinstance(node, Process) and node.changes_key


def _changes_key_or_value(node: AnyLogicalNode) -> bool:
    return isinstance(node, Process) and (node.changes_key or node.changes_value)


def _is_child_of(name: str) -> Test:
    return lambda node: name in node.parents
