"""A topology as an SVG picture: topics, operators and stores, one frame a sub-topology, data flowing downwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape

from millrace.topology.nodes import SinkNode, SourceNode
from millrace.topology.topology import SubTopology, Topology

_CHARACTER = 7.3
_HEIGHT = 34
_GAP_X = 28
_GAP_Y = 34
_MARGIN = 24
_TITLE = 30

_STYLE = """\
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1d2733; text-anchor: middle; }
.frame { fill: #f7f9fb; stroke: #c4ced8; }
.title { font-weight: bold; text-anchor: start; fill: #52606d; }
.topic { fill: #dbeafe; stroke: #3b82f6; }
.operator { fill: #ffffff; stroke: #64748b; }
.store { fill: #fef3c7; stroke: #d97706; }
.edge { fill: none; stroke: #64748b; }
.access { fill: none; stroke: #d97706; stroke-dasharray: 4 3; }"""


class _Kind(StrEnum):
    TOPIC = "topic"
    OPERATOR = "operator"
    STORE = "store"


@dataclass(eq=False)
class _Shape:
    """A thing in the picture: kind, label, what is above it; the rest is found by the layout."""

    kind: _Kind
    label: str
    above: list[_Shape] = field(default_factory=list)
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return len(self.label) * _CHARACTER + 24


def picture(topology: Topology) -> str:
    """The picture, an SVG document.

    A repartition topic is drawn twice: at the end of the sub-topology that writes it, and at the beginning of the one
    that reads it.
    """
    frames: list[str] = []
    top, widest = float(_MARGIN), 0.0
    for part in topology.sub_topologies:
        shapes = _shapes(part)
        width, height = _lay_out(shapes, left=2 * _MARGIN, top=top + _TITLE)
        frames += _frame(f"Sub-topology {part.number}", top, width, height + _TITLE)
        frames += [line for shape in shapes for line in _edges(shape)]
        frames += [line for shape in shapes for line in _drawn(shape)]
        top += height + _TITLE + _MARGIN
        widest = max(widest, width)
    total = widest + 4 * _MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total:.0f} {top:.0f}" width="{total:.0f}">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *frames, "</svg>", ""])


def _shapes(part: SubTopology) -> list[_Shape]:
    """What is to be drawn of a sub-topology, parents first."""
    shapes: list[_Shape] = []
    by_node: dict[str, _Shape] = {}
    topics: dict[str, _Shape] = {}
    stores: dict[str, _Shape] = {}

    def add(kind: _Kind, label: str, above: Iterable[_Shape] = ()) -> _Shape:
        shapes.append(_Shape(kind, label, list(above)))
        return shapes[-1]

    for node in part.nodes:
        if isinstance(node, SourceNode):
            for topic in node.topics:
                topics.setdefault(topic, add(_Kind.TOPIC, topic))
            by_node[node.name] = add(_Kind.OPERATOR, node.name, [topics[topic] for topic in node.topics])
            continue
        operator = by_node[node.name] = add(_Kind.OPERATOR, node.name, [by_node[parent] for parent in node.parents])
        if isinstance(node, SinkNode):
            add(_Kind.TOPIC, node.topic, [operator])
            continue
        for store in node.stores:
            if store in stores:
                stores[store].above.append(operator)
            else:
                stores[store] = add(_Kind.STORE, store, [operator])
    return shapes


def _lay_out(shapes: list[_Shape], *, left: float, top: float) -> tuple[float, float]:
    """Gives each shape its place; returns width and height of the whole."""
    for shape in shapes:
        shape.layer = max((parent.layer + 1 for parent in shape.above), default=0)
    layers: defaultdict[int, list[_Shape]] = defaultdict(list)
    for shape in shapes:
        layers[shape.layer].append(shape)
    widths = {
        number: sum(shape.width for shape in layer) + _GAP_X * (len(layer) - 1) for number, layer in layers.items()
    }
    width = max(widths.values())
    for number in sorted(layers):
        # Below its parents, so that few lines cross.
        layer = sorted(layers[number], key=lambda shape: sum(parent.x for parent in shape.above))
        x = left + (width - widths[number]) / 2
        for shape in layer:
            shape.x = x + shape.width / 2
            shape.y = top + number * (_HEIGHT + _GAP_Y)
            x += shape.width + _GAP_X
    return width, (max(layers) + 1) * (_HEIGHT + _GAP_Y) - _GAP_Y + _MARGIN


def _frame(title: str, top: float, width: float, height: float) -> list[str]:
    return [
        f'<rect class="frame" x="{_MARGIN}" y="{top:.0f}" width="{width + 2 * _MARGIN:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="{_MARGIN + 12}" y="{top + 19:.0f}">{escape(title)}</text>',
    ]


def _edges(shape: _Shape) -> list[str]:
    lines = []
    for parent in shape.above:
        start, end = parent.y + _HEIGHT, shape.y
        bend = (start + end) / 2
        kind = "access" if shape.kind is _Kind.STORE else "edge"
        lines.append(
            f'<path class="{kind}" d="M {parent.x:.1f} {start:.1f} C {parent.x:.1f} {bend:.1f}, '
            f'{shape.x:.1f} {bend:.1f}, {shape.x:.1f} {end:.1f}"/>'
        )
    return lines


def _drawn(shape: _Shape) -> list[str]:
    left, right = shape.x - shape.width / 2, shape.x + shape.width / 2
    top, bottom = shape.y, shape.y + _HEIGHT
    if shape.kind is _Kind.STORE:
        radius = shape.width / 2
        outline = (
            f'<path class="store" d="M {left:.1f} {top + 5:.1f} A {radius:.1f} 5 0 0 1 {right:.1f} {top + 5:.1f} '
            f"V {bottom - 5:.1f} A {radius:.1f} 5 0 0 1 {left:.1f} {bottom - 5:.1f} Z "
            f'M {left:.1f} {top + 5:.1f} A {radius:.1f} 5 0 0 0 {right:.1f} {top + 5:.1f}"/>'
        )
    else:
        rounding = _HEIGHT / 2 if shape.kind is _Kind.TOPIC else 4
        outline = (
            f'<rect class="{shape.kind}" x="{left:.1f}" y="{top:.1f}" width="{shape.width:.1f}" height="{_HEIGHT}" '
            f'rx="{rounding:.0f}"/>'
        )
    return [outline, f'<text x="{shape.x:.1f}" y="{shape.y + 22:.1f}">{escape(shape.label)}</text>']
