from __future__ import annotations

import itertools
from xml.etree import ElementTree

from millrace.insight.overview import Graph, GraphNode, GraphPart, LagPoint, NodeKind, PartState, Trend
from millrace_airflow.ui.layout import BOX_WIDTH, ROW_GAP, height_of, layout
from millrace_airflow.ui.picture import topology_picture
from millrace_airflow.ui.sparkline import sparkline

SVG = "{http://www.w3.org/2000/svg}"


def processor(name: str, *parents: str, stores: tuple[str, ...] = ()) -> GraphNode:
    return GraphNode(name=name, kind=NodeKind.PROCESSOR, label="map", parents=parents, stores=stores)


def source(topic: str, **more: object) -> GraphNode:
    return GraphNode(name=f"{topic}-source", kind=NodeKind.SOURCE, label=topic, topics=(topic,), **more)  # type: ignore[arg-type]


def sink(topic: str, *parents: str, **more: object) -> GraphNode:
    return GraphNode(
        name=f"{topic}-sink",
        kind=NodeKind.SINK,
        label=topic,
        topics=(topic,),
        parents=parents,
        **more,  # type: ignore[arg-type]
    )


def two_parts() -> Graph:
    first = (source("in", rate=1234.5, lag=42), processor("a", "in-source"), sink("mid", "a", internal=True, rate=0.4))
    second = (
        source("mid", internal=True, rate=3.0, lag=0),
        processor("b", "mid-source", stores=("one", "two")),
        sink("<out>", "b"),
    )
    return Graph(
        parts=(
            GraphPart(number=0, nodes=first, state=PartState.BEHIND, tasks=2, rate=1234.5, lag=42),
            GraphPart(number=1, nodes=second, state=PartState.RUNNING, tasks=1),
        )
    )


def test_the_picture_is_well_formed_and_shows_nodes_stores_rates_and_lag() -> None:
    root = ElementTree.fromstring(str(topology_picture(two_parts())))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert any("Sub-topology 0" in text and "behind" in text and "2 tasks" in text for text in texts)
    assert {"1.23k/s", "3/s", "0.4/s"} <= set(texts)
    assert "◔ lag 42" in texts
    assert "✓ lag 0" in texts
    assert {"▤ one", "▤ two"} <= set(texts)
    assert "<out>" in texts
    edges = [path for path in root.iter(f"{SVG}path") if (path.get("class") or "").startswith("edge")]
    assert len(edges) == 4 + 1  # and one from the sink of mid to its source


def test_nothing_in_the_picture_depends_on_style_attributes() -> None:
    text = str(topology_picture(two_parts()))
    assert "style=" not in text
    assert "<style" not in text


def wide() -> Graph:
    """30 nodes: a source that branches six times, each branch a chain of four, merged into one sink."""
    nodes = [source("in")]
    for branch in range(6):
        nodes.append(processor(f"{branch}-0", "in-source", stores=("store",) if branch % 2 else ()))
        nodes += [processor(f"{branch}-{step}", f"{branch}-{step - 1}") for step in range(1, 4)]
    nodes += [processor("merge", *(f"{branch}-3" for branch in range(6))), sink("out", "merge")]
    nodes += [source("other"), processor("x", "other-source"), sink("late", "x")]
    return Graph(parts=(GraphPart(number=0, nodes=tuple(nodes), state=PartState.RUNNING),))


def test_boxes_of_thirty_nodes_never_overlap_and_edges_go_to_the_right() -> None:
    graph = wide()
    assert len(graph.parts[0].nodes) == 30
    placed = layout(graph)
    boxes = list(placed.boxes.values())
    for one, other in itertools.combinations(boxes, 2):
        apart = abs(one.x - other.x) >= BOX_WIDTH or one.bottom + ROW_GAP <= other.y or other.bottom + ROW_GAP <= one.y
        assert apart, (one.node.name, other.node.name)
    for box in boxes:
        assert box.bottom <= placed.height
        assert box.x + BOX_WIDTH <= placed.width
        for parent in box.node.parents:
            assert placed.boxes[0, parent].x + BOX_WIDTH < box.x


def test_a_chain_is_a_straight_line_also_below_a_node_with_stores() -> None:
    nodes = (source("in"), processor("a", "in-source", stores=("one", "two")), processor("b", "a"), sink("out", "b"))
    placed = layout(Graph(parts=(GraphPart(number=0, nodes=nodes, state=PartState.RUNNING),)))
    assert len({box.y for box in placed.boxes.values()}) == 1
    assert height_of(nodes[1]) > height_of(nodes[2])


def test_a_sparkline_says_in_words_what_it_shows_and_stays_in_its_box() -> None:
    points = [LagPoint(at=at, lag=at * at) for at in range(10)]
    text = str(sparkline(points, Trend.GROWING))
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == "Lag over 9 s: from 0 to 81, highest 81, growing"
    line = root.find("polyline")
    assert line is not None
    places = [tuple(map(float, place.split(","))) for place in (line.get("points") or "").split()]
    assert all(0 <= x <= 96 and 0 <= y <= 22 for x, y in places)
    assert str(sparkline(points[:1], Trend.UNKNOWN)) == ""
    assert "from 7 to 7" in str(sparkline([LagPoint(at=0, lag=7), LagPoint(at=5, lag=7)], Trend.STEADY))
