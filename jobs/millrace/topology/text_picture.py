"""A topology as a tree of text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from millrace.topology.labels import label
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.topology import FrozenTopology, GlobalStore, SubTopology


def text_picture(topology: FrozenTopology) -> str:
    """Returns a tree for each source, by sub-topology. A node with several parents is drawn below the first."""
    return "\n".join(line for part in topology.parts for line in _part(part)) + "\n"


def _part(part: SubTopology | GlobalStore) -> Iterator[str]:
    yield f"sub-topology {part.number}{' (global store)' if isinstance(part, GlobalStore) else ''}"
    children: dict[str, list[Node]] = {node.name: [] for node in part.nodes}
    for node in part.nodes:
        for parent in () if isinstance(node, SourceNode) else node.parents:
            children[parent].append(node)
    drawn: set[str] = set()
    for source in (node for node in part.nodes if isinstance(node, SourceNode)):
        yield f"  ▶ {label(source)}   {source.name}"
        yield from _below(source.name, children, drawn, "  ")
    yield ""


def _below(name: str, children: dict[str, list[Node]], drawn: set[str], indent: str) -> Iterator[str]:
    for number, child in enumerate(children[name], start=1):
        last = number == len(children[name])
        yield f"{indent}{'└─' if last else '├─'} {_line(child, again=child.name in drawn)}"
        if child.name not in drawn:
            drawn.add(child.name)
            yield from _below(child.name, children, drawn, indent + ("   " if last else "│  "))


def _line(node: Node, *, again: bool) -> str:
    if again:
        return f"↑ {node.name}"
    if isinstance(node, SinkNode):
        return f"▶ {label(node)}   {node.name}"
    stores = f"  [{', '.join(node.stores)}]" if isinstance(node, ProcessorNode) and node.stores else ""
    return f"{label(node)}   {node.name}{stores}"
