"""A running topology as an SVG that stands in the page and takes its colours from the page's style sheet."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup, escape

from millrace.insight.overview import Graph, GraphNode, NodeKind, PartState
from millrace_airflow.ui.layout import BOX_HEIGHT, BOX_WIDTH, STORE_HEIGHT, Box, Frame, Layout, layout
from millrace_airflow.ui.words import per_second, short_number

SYMBOLS = {
    PartState.RUNNING: "✓",
    PartState.BEHIND: "◔",
    PartState.RESTORING: "↻",
    PartState.STOPPED: "■",
    PartState.GLOBAL: "◇",
    PartState.UNKNOWN: "?",
}
_WORDS = {
    PartState.RUNNING: "running",
    PartState.BEHIND: "behind",
    PartState.RESTORING: "restoring",
    PartState.STOPPED: "not running",
    PartState.GLOBAL: "global store, no tasks",
    PartState.UNKNOWN: "state not known",
}
_LONGEST_LABEL = 24
_LONGEST_NAME = 34
_LONGEST_STORE = 28


def topology_picture(graph: Graph) -> Markup:
    """The picture; every name in it is escaped.

    Args:
        graph: what to show.
    """
    placed = layout(graph)
    body = [*_frames(placed), *_edges_between(placed), *_edges(placed), *_boxes(placed), *_rates(placed)]
    width, height = f"{placed.width:.0f}", f"{placed.height:.0f}"
    words = f"Topology with {len(graph.parts)} sub-topologies; the list below the picture says the same in words"
    return Markup(
        f'<svg class="topology" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(words)}">'
        '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="3.5" orient="auto">'
        '<path class="arrow" d="M0,0 L7,3.5 L0,7 z"/></marker></defs>' + "".join(body) + "</svg>"
    )


def part_words(state: PartState) -> str:
    """What the colour of a sub-topology means."""
    return _WORDS[state]


def _frames(placed: Layout) -> Iterator[str]:
    for frame in placed.frames:
        part = frame.part
        yield (
            f'<rect class="part {part.state}" x="0.5" y="{frame.y + 0.5:.1f}" width="{frame.width - 1:.0f}" '
            f'height="{frame.height - 1:.0f}" rx="8"/>'
            f'<text class="part-title" x="16" y="{frame.y + 22:.1f}">Sub-topology {part.number}'
            f'<tspan class="part-state {part.state}" dx="10">{SYMBOLS[part.state]} {escape(_WORDS[part.state])}</tspan>'
            f'<tspan class="part-facts" dx="10">{escape(_facts(frame))}</tspan></text>'
        )


def _facts(frame: Frame) -> str:
    part = frame.part
    facts = []
    if part.tasks:
        facts.append(f"{part.tasks} task{'s' if part.tasks != 1 else ''}")
    if part.rate is not None:
        facts.append(f"{per_second(part.rate)} in")
    if part.lag is not None:
        facts.append(f"lag {short_number(part.lag)}")
    return " · ".join(facts)


def _edges(placed: Layout) -> Iterator[str]:
    for (number, _), box in placed.boxes.items():
        for parent in box.node.parents:
            above = placed.boxes.get((number, parent))
            if above is not None:
                yield _curve(above.right, box.left, "edge")


def _edges_between(placed: Layout) -> Iterator[str]:
    """From what writes a topic of the application's own to what reads it."""
    readers: dict[str, list[Box]] = {}
    for box in placed.boxes.values():
        if box.node.kind is NodeKind.SOURCE:
            for topic in box.node.topics:
                readers.setdefault(topic, []).append(box)
    for box in placed.boxes.values():
        if box.node.kind is not NodeKind.SINK:
            continue
        for topic in box.node.topics:
            for reader in readers.get(topic, ()):
                down = reader.y > box.y
                start = (box.x + BOX_WIDTH / 2, box.bottom if down else box.y)
                end = (reader.x + BOX_WIDTH / 2, reader.y if down else reader.bottom)
                yield _curve(start, end, "edge between", vertical=True)


def _curve(start: tuple[float, float], end: tuple[float, float], style: str, *, vertical: bool = False) -> str:
    (x1, y1), (x2, y2) = start, end
    if vertical:
        bend = (y1 + y2) / 2
        bends = f"{x1:.1f},{bend:.1f} {x2:.1f},{bend:.1f}"
    else:
        bend = (x1 + x2) / 2 if x2 - x1 < 200 else x1 + 40
        bends = f"{bend:.1f},{y1:.1f} {x2 - 40:.1f},{y2:.1f}"
    return f'<path class="{style}" d="M{x1:.1f},{y1:.1f} C{bends} {x2:.1f},{y2:.1f}" marker-end="url(#arrow)"/>'


def _boxes(placed: Layout) -> Iterator[str]:
    for box in placed.boxes.values():
        yield _box(box)


def _box(box: Box) -> str:
    node = box.node
    style = node.kind.value + (" internal" if node.internal else "")
    radius = 6 if node.kind is NodeKind.PROCESSOR else BOX_HEIGHT / 2
    middle = box.x + BOX_WIDTH / 2
    second_line = _lag(box) or _short(node.name, _LONGEST_NAME)
    drawn = (
        f"<g><title>{escape(_tooltip(node))}</title>"
        f'<rect class="node {style}" x="{box.x:.1f}" y="{box.y:.1f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" '
        f'rx="{radius:g}"/>'
        f'<text class="node-label" x="{middle:.1f}" y="{box.y + 18:.1f}">{_short(node.label, _LONGEST_LABEL)}</text>'
        f'<text class="node-name" x="{middle:.1f}" y="{box.y + 32:.1f}">{second_line}</text></g>'
    )
    for index, store in enumerate(node.stores):
        y = box.y + BOX_HEIGHT + index * STORE_HEIGHT
        drawn += (
            f"<g><title>{escape(f'store {store}')}</title>"
            f'<rect class="store" x="{box.x + 10:.1f}" y="{y:.1f}" width="{BOX_WIDTH - 20}" height="{STORE_HEIGHT}"/>'
            f'<text class="store-name" x="{middle:.1f}" y="{y + 13.5:.1f}">▤ {_short(store, _LONGEST_STORE)}</text></g>'
        )
    return drawn


def _lag(box: Box) -> str:
    node = box.node
    if node.kind is not NodeKind.SOURCE or node.lag is None:
        return ""
    style = "lag behind" if node.lag else "lag"
    return f'<tspan class="{style}">{"◔" if node.lag else "✓"} lag {short_number(node.lag)}</tspan>'


def _tooltip(node: GraphNode) -> str:
    words = [f"{node.name}: {node.label}"]
    if node.lag is not None:
        words.append(f"lag {node.lag:,}")
    if node.rate is not None:
        words.append(per_second(node.rate))
    return ", ".join(words)


def _rates(placed: Layout) -> Iterator[str]:
    """Behind a source what it reads, before a sink what it writes; edges in between are not measured."""
    for box in placed.boxes.values():
        node = box.node
        if node.rate is None:
            continue
        text = f"{short_number(node.rate)}/s" if node.rate >= 1 or node.rate == 0 else per_second(node.rate)
        if node.kind is NodeKind.SOURCE:
            x, y = box.right
            yield f'<text class="rate" x="{x + 8:.1f}" y="{y - 6:.1f}">{escape(text)}</text>'
        else:
            x, y = box.left
            yield f'<text class="rate end" x="{x - 10:.1f}" y="{y - 6:.1f}">{escape(text)}</text>'


def _short(text: str, longest: int) -> str:
    """``text`` with its middle left out where it is too long: ends of generated names tell them apart."""
    if len(text) > longest:
        head = longest // 2 - 1
        text = f"{text[:head]}…{text[-(longest - head - 1) :]}"
    return str(escape(text))
