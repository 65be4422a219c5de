"""Where the nodes of a topology go in its picture: layers by the longest path, rows near the parents. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.insight.overview import Graph, GraphNode, GraphPart, NodeKind

BOX_WIDTH = 196
BOX_HEIGHT = 42
STORE_HEIGHT = 19
COLUMN = 262
ROW_GAP = 22
TITLE = 34
PADDING = 16
PART_GAP = 18
_SWEEPS = 4


@dataclass(frozen=True, kw_only=True)
class Box:
    """A node and its place.

    Args:
        node: the node.
        x: left edge, pixels.
        y: upper edge, pixels.
    """

    node: GraphNode
    x: float
    y: float

    @property
    def left(self) -> tuple[float, float]:
        """Where edges come in."""
        return self.x, self.y + BOX_HEIGHT / 2

    @property
    def right(self) -> tuple[float, float]:
        """Where edges go out."""
        return self.x + BOX_WIDTH, self.y + BOX_HEIGHT / 2

    @property
    def bottom(self) -> float:
        """Lower edge, its stores included."""
        return self.y + height_of(self.node)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A sub-topology and its place.

    Args:
        part: the sub-topology.
        y: upper edge, pixels.
        width: pixels.
        height: pixels.
    """

    part: GraphPart
    y: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Places of everything.

    Args:
        width: of the whole picture, pixels.
        height: likewise.
        frames: of the sub-topologies.
        boxes: of the nodes, by sub-topology and name.
    """

    width: float
    height: float
    frames: tuple[Frame, ...]
    boxes: Mapping[tuple[int, str], Box]


def height_of(node: GraphNode) -> float:
    """Height of a node with its stores, pixels."""
    return BOX_HEIGHT + STORE_HEIGHT * len(node.stores)


def layout(graph: Graph) -> Layout:
    """Sub-topologies below each other, each from left to right."""
    placed = {part.number: _place(part) for part in graph.parts}
    columns = 1 + max((x for rows in placed.values() for x, _ in rows.values()), default=0)
    width = 2 * PADDING + (columns - 1) * COLUMN + BOX_WIDTH
    boxes: dict[tuple[int, str], Box] = {}
    frames = []
    top = 0.0
    for part in graph.parts:
        rows = placed[part.number]
        nodes = {node.name: node for node in part.nodes}
        bottom = max((y + height_of(nodes[name]) for name, (_, y) in rows.items()), default=0.0)
        height = TITLE + bottom + PADDING
        frames.append(Frame(part=part, y=top, width=width, height=height))
        for name, (column, y) in rows.items():
            box = Box(node=nodes[name], x=PADDING + column * COLUMN, y=top + TITLE + y)
            boxes[part.number, name] = box
        top += height + PART_GAP
    return Layout(width=width, height=max(0.0, top - PART_GAP), frames=tuple(frames), boxes=boxes)


def _place(part: GraphPart) -> dict[str, tuple[int, float]]:
    """Column and upper edge of each node, from 0."""
    layers = _layers(part)
    children: dict[str, list[str]] = {node.name: [] for node in part.nodes}
    for node in part.nodes:
        for parent in node.parents:
            children.setdefault(parent, []).append(node.name)
    parents = {node.name: node.parents for node in part.nodes}
    for _ in range(_SWEEPS):
        _order(layers, parents)
        _order(layers[::-1], children)
    _order(layers, parents)
    heights = {node.name: height_of(node) for node in part.nodes}
    places: dict[str, tuple[int, float]] = {}
    for column, names in enumerate(layers):
        free = 0.0
        for name in names:
            above = [places[parent][1] for parent in parents[name] if parent in places]
            wanted = sum(above) / len(above) if above else free
            y = max(free, wanted)
            places[name] = (column, y)
            free = y + heights[name] + ROW_GAP
    return places


def _layers(part: GraphPart) -> list[list[str]]:
    column: dict[str, int] = {}
    for node in part.nodes:
        column[node.name] = 1 + max((column.get(parent, -1) for parent in node.parents), default=-1)
    last = max(column.values(), default=0)
    for node in part.nodes:
        # Sinks stand together at the right, where one looks for what comes out.
        if node.kind is NodeKind.SINK:
            column[node.name] = last
    layers: list[list[str]] = [[] for _ in range(last + 1)]
    for name, place in column.items():
        layers[place].append(name)
    return layers


def _order(layers: Sequence[list[str]], neighbours: Mapping[str, Sequence[str]]) -> None:
    """Order each layer by the mean place of the neighbours in the layers before it."""
    place: dict[str, float] = {}
    for layer in layers:
        here = {name: float(index) for index, name in enumerate(layer)}
        means = {}
        for name in layer:
            known = [place[other] for other in neighbours.get(name, ()) if other in place]
            means[name] = sum(known) / len(known) if known else here[name]
        layer.sort(key=lambda name: means[name])
        place |= {name: float(index) for index, name in enumerate(layer)}
