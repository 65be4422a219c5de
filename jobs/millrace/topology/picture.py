"""A topology as an SVG picture: columns by distance from the sources, one band for each sub-topology.

The layout is the layered one of Sugiyama in small: columns by the longest path, rows by the mean row of the parents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from millrace.topology.labels import label
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import looked_up_table, may_look_up_global_store
from millrace.topology.parts import GlobalStore, SubTopology
from millrace.topology.topology import FrozenTopology

_BOX_WIDTH = 210
_BOX_HEIGHT = 38
_STORE_HEIGHT = 18
_COLUMN = 258
_ROW = 78
_MARGIN = 24
_TITLE = 30
_BAND_GAP = 20
_LONGEST_LABEL = 32
_LONGEST_NAME = 36

_STYLE = """
text { font-family: system-ui, sans-serif; fill: #1f2933; }
.title { font-size: 13px; font-weight: 600; }
.label { font-size: 12px; font-weight: 600; text-anchor: middle; }
.name { font-size: 9.5px; fill: #52606d; text-anchor: middle; }
.band { fill: #f5f7fa; stroke: #cbd2d9; }
.topic { fill: #fff3c4; stroke: #cb6e17; }
.internal { fill: #fde2c8; stroke: #cb6e17; stroke-dasharray: 4 3; }
.processor { fill: #ffffff; stroke: #486581; }
.store { fill: #d9f2e6; stroke: #2f8f6b; }
.edge { fill: none; stroke: #7b8794; stroke-width: 1.3; }
.lookup { stroke: #2f8f6b; stroke-dasharray: 2 3; }
.between { stroke: #cb6e17; stroke-dasharray: 5 4; }
"""


@dataclass(frozen=True)
class _Position:
    """A node's upper left corner, in pixels."""

    node: Node
    x: float
    y: float

    @property
    def left(self) -> tuple[float, float]:
        return self.x, self.y + _BOX_HEIGHT / 2

    @property
    def right(self) -> tuple[float, float]:
        return self.x + _BOX_WIDTH, self.y + _BOX_HEIGHT / 2


def picture(topology: FrozenTopology) -> str:
    """Returns a complete SVG document."""
    positions: dict[str, _Position] = {}
    bands: list[str] = []
    columns = {part.number: _columns(part) for part in topology.parts}
    width = 2 * _MARGIN + _COLUMN * max(len(layout) for layout in columns.values())
    top = float(_MARGIN)
    for part in topology.parts:
        layout = columns[part.number]
        height = _TITLE + _ROW * max(len(column) for column in layout)
        bands.append(_band(part, top, width, height))
        for x, column in enumerate(layout):
            for y, node in enumerate(column):
                positions[node.name] = _Position(node, 2 * _MARGIN + x * _COLUMN, top + _TITLE + y * _ROW)
        top += height + _BAND_GAP
    body = [*bands, *_edges(positions), *_edges_between(positions), *_lookups(topology, positions)]
    body += [line for position in positions.values() for line in _box(position)]
    width += _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top:.0f}" viewBox="0 0 {width} {top:.0f}">\n'
        f"<style>{_STYLE}</style>\n"
        '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" fill="#7b8794"/></marker></defs>\n'
        f'<rect width="{width}" height="{top:.0f}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _columns(part: SubTopology | GlobalStore) -> list[list[Node]]:
    """The nodes of each column in the order of their rows."""
    column_of: dict[str, int] = {}
    for node in part.nodes:
        column_of[node.name] = 1 + max((column_of[parent] for parent in _parents(node)), default=-1)
    columns: list[list[Node]] = [[] for _ in range(1 + max(column_of.values()))]
    row_of: dict[str, float] = {}
    for node in part.nodes:
        columns[column_of[node.name]].append(node)
    for column in columns:
        middle = {
            node.name: sum(row_of[parent] for parent in _parents(node)) / max(1, len(_parents(node))) for node in column
        }
        column.sort(key=lambda node: middle[node.name])
        row_of |= {node.name: float(row) for row, node in enumerate(column)}
    return columns


def _parents(node: Node) -> tuple[str, ...]:
    return () if isinstance(node, SourceNode) else node.parents


def _band(part: SubTopology | GlobalStore, top: float, width: float, height: float) -> str:
    kind = ", global store" if isinstance(part, GlobalStore) else ""
    return (
        f'<rect class="band" x="{_MARGIN}" y="{top}" width="{width - _MARGIN}" height="{height}" rx="8"/>'
        f'<text class="title" x="{_MARGIN + 12}" y="{top + 19}">sub-topology {part.number}{kind}</text>'
    )


def _edges(positions: dict[str, _Position]) -> Iterator[str]:
    for position in positions.values():
        for parent in _parents(position.node):
            yield _curve(positions[parent].right, position.left, "edge")


def _edges_between(positions: dict[str, _Position]) -> Iterator[str]:
    """From the sink of a repartition topic to its source."""
    sources = {
        topic: position
        for position in positions.values()
        if isinstance(position.node, SourceNode) and position.node.internal
        for topic in position.node.topics
    }
    for position in positions.values():
        if isinstance(position.node, SinkNode) and position.node.internal and position.node.topic in sources:
            source = sources[position.node.topic]
            start = (position.x + _BOX_WIDTH / 2, position.y + _BOX_HEIGHT)
            end = (source.x + _BOX_WIDTH / 2, source.y)
            yield _curve(start, end, "edge between", vertical=True)


def _lookups(topology: FrozenTopology, positions: dict[str, _Position]) -> Iterator[str]:
    """From what makes a table to the nodes that look it up."""
    for position in positions.values():
        if not isinstance(position.node, ProcessorNode):
            continue
        operator = position.node.operator
        table = looked_up_table(operator)
        makers = [] if table is None else [table]
        makers += [
            part.processor.name
            for part in topology.global_stores
            if may_look_up_global_store(operator, part.store.name)
        ]
        for maker in makers:
            if maker in positions and maker not in position.node.parents:
                yield _curve(positions[maker].right, position.left, "edge lookup")


def _curve(start: tuple[float, float], end: tuple[float, float], style: str, *, vertical: bool = False) -> str:
    (x1, y1), (x2, y2) = start, end
    if vertical:
        bends = f"{x1:.1f},{(y1 + y2) / 2:.1f} {x2:.1f},{(y1 + y2) / 2:.1f}"
    else:
        bends = f"{(x1 + x2) / 2:.1f},{y1:.1f} {(x1 + x2) / 2:.1f},{y2:.1f}"
    path = f"M{x1:.1f},{y1:.1f} C{bends} {x2:.1f},{y2:.1f}"
    return f'<path class="{style}" d="{path}" marker-end="url(#arrow)"/>'


def _box(position: _Position) -> Iterator[str]:
    node = position.node
    kind = "processor"
    if not isinstance(node, ProcessorNode):
        kind = "internal" if node.internal else "topic"
    radius = 5 if kind == "processor" else _BOX_HEIGHT / 2
    middle = position.x + _BOX_WIDTH / 2
    yield (
        f"<g><title>{escape(f'{node.name}: {label(node)}')}</title>"
        f'<rect class="{kind}" x="{position.x}" y="{position.y}" width="{_BOX_WIDTH}"'
        f' height="{_BOX_HEIGHT}" rx="{radius}"/>'
        f'<text class="label" x="{middle}" y="{position.y + 16}">{_short(label(node), _LONGEST_LABEL)}</text>'
        f'<text class="name" x="{middle}" y="{position.y + 30}">{_short(node.name, _LONGEST_NAME)}</text></g>'
    )
    stores = node.stores if isinstance(node, ProcessorNode) else ()
    if stores:
        top = position.y + _BOX_HEIGHT
        names = ", ".join(stores)
        yield (
            f"<g><title>{escape(names)}</title>"
            f'<rect class="store" x="{position.x + 8}" y="{top}" width="{_BOX_WIDTH - 16}" height="{_STORE_HEIGHT}"/>'
            f'<text class="name" x="{middle}" y="{top + 12.5}">{_short(names, _LONGEST_NAME)}</text></g>'
        )


def _short(text: str, longest: int) -> str:
    """``text`` with its middle left out where it is too long: the ends of generated names distinguish them."""
    if len(text) > longest:
        head = longest // 2 - 1
        text = f"{text[:head]}…{text[-(longest - head - 1) :]}"
    return escape(text)
