from __future__ import annotations

from datetime import timedelta
from xml.etree import ElementTree

import pytest

from millrace.dsl import Grouped, Materialized, RecordContext, StreamsBuilder, TimeWindows
from millrace.topology.labels import label
from millrace.topology.operators import looked_up_table, may_look_up_global_store
from millrace.topology.picture import picture
from millrace.topology.topology import FrozenTopology
from tests.unit.topology.catalogue import CATALOGUE

SVG = "{http://www.w3.org/2000/svg}"


def by_key(key: str, value: object, context: RecordContext) -> str:
    return key


@pytest.fixture
def topology() -> FrozenTopology:
    builder = StreamsBuilder()
    both = builder.stream("a").merge(builder.stream("b"))
    windows = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
    grouped = both.group_by(lambda key, value: value, Grouped.as_("by-value"))
    grouped.windowed_by(windows).count(Materialized.as_("counts")).to_stream().to("out")
    return builder.build()


def test_the_picture_is_well_formed_and_shows_every_node_store_and_edge(topology: FrozenTopology) -> None:
    root = ElementTree.fromstring(picture(topology))
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    nodes = [node for part in topology.sub_topologies for node in part.nodes]
    for node in nodes:
        assert any(title.startswith(f"{node.name}: ") for title in titles)
    assert "counts" in titles
    edges = [path for path in root.iter(f"{SVG}path") if (path.get("class") or "").startswith("edge")]
    assert len(edges) == sum(len(getattr(node, "parents", ())) for node in nodes) + len(topology.repartition_topics)


def test_boxes_of_the_picture_do_not_overlap_and_lie_inside_of_it(topology: FrozenTopology) -> None:
    root = ElementTree.fromstring(picture(topology))
    boxes = [
        tuple(float(rect.get(side) or 0) for side in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("class") in {"processor", "topic", "internal", "store"}
    ]
    for number, (x, y, width, height) in enumerate(boxes):
        assert x + width <= float(root.get("width") or 0)
        assert y + height <= float(root.get("height") or 0)
        for other_x, other_y, other_width, other_height in boxes[:number]:
            apart_in_x = x >= other_x + other_width or other_x >= x + width
            assert apart_in_x or y >= other_y + other_height or other_y >= y + height


def catalogued(name: str) -> FrozenTopology:
    builder = StreamsBuilder()
    CATALOGUE[name](builder)
    return builder.build()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_kind_of_node_is_drawn_with_words_of_its_own(name: str) -> None:
    topology = catalogued(name)
    root = ElementTree.fromstring(picture(topology))
    titles = {title.text or "" for title in root.iter(f"{SVG}title")}
    for part in topology.parts:
        for node in part.nodes:
            assert f"{node.name}: {label(node)}" in titles
            assert label(node) == label(node).strip() != ""
    boxes = [
        (float(rect.get("x") or 0), float(rect.get("y") or 0))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("class") in {"processor", "topic", "internal"}
    ]
    assert len(set(boxes)) == len(boxes) == sum(len(part.nodes) for part in topology.parts)
    ends = [path for path in root.iter(f"{SVG}path") if "lookup" in (path.get("class") or "")]
    looking = [
        node
        for part in topology.sub_topologies
        for node in part.processors
        if looked_up_table(node.operator) not in (None, *node.parents)
        or any(may_look_up_global_store(node.operator, each.store.name) for each in topology.global_stores)
    ]
    assert len(ends) == len(looking)


def test_a_sink_that_chooses_topics_is_drawn_with_what_chooses() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to(by_key)
    topology = builder.build()
    assert "KSTREAM-SINK-0000000001: topic by by_key" in picture(topology)
