from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from millrace.dsl import StreamsBuilder
from millrace.kafka.topics import changelog_topic, repartition_topic
from millrace.topology.nodes import SourceNode
from millrace.topology.parts import full_topic_name
from millrace.topology.topology import FrozenTopology

HERE = Path(__file__).parent


def _load_catalogue() -> ModuleType:
    spec = importlib.util.spec_from_file_location("topology_catalogue", HERE / "catalogue.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


catalogue = _load_catalogue()


def _golden(name: str) -> tuple[str, str]:
    description, _, topics = (HERE / "golden" / f"{name}.txt").read_text().partition("----\n")
    return description, topics


def _build(name: str) -> FrozenTopology:
    builder = StreamsBuilder()
    if name in catalogue.CATALOGUE:
        catalogue.CATALOGUE[name](builder)
        return builder.build()
    catalogue.OPTIMISED[name](builder)
    return builder.build(rewrites=("reuse-source-topic", "merge-repartition-topics", "single-store-self-join"))


def _internal_topics(topology: FrozenTopology) -> str:
    """In the format of tests/parity/java/InternalTopics.java."""
    repartition = {spec.name for spec in topology.repartition_topics}
    lines = []
    for part in topology.sub_topologies:
        sources = [node for node in part.nodes if isinstance(node, SourceNode) and node.internal]
        read = sorted(f"app-{topic}" for node in sources for topic in node.topics)
        changelogs = sorted(filter(None, (store.changelog_topic("app") for store in part.stores)))
        lines.append(f"{part.number} repartition [{', '.join(read)}] changelog [{', '.join(changelogs)}]\n")
    groups = (
        sorted(full_topic_name(topic, "app", internal=topic in repartition) for topic in group)
        for group in topology.co_partition_groups
    )
    lines += sorted(f"co-partitioned [{', '.join(group)}]\n" for group in groups)
    return "".join(lines)


# Kafka Streams forgets the second table of a re-keyed stream that is joined twice, and any suppressed table; here their
# partitions are checked too.
# Of a cogroup it compares the topics in front of the repartition topics instead of those, and of the table that comes
# of it none, when that is joined.
MORE_CO_PARTITIONED = {
    "two_joins_of_one_re_keyed_stream": (
        "co-partitioned [app-KSTREAM-KEY-SELECT-0000000001-repartition, users]",
        "co-partitioned [app-KSTREAM-KEY-SELECT-0000000001-repartition, plans, users]",
    ),
    "suppressed_table_looked_up": (
        "app-totals-changelog]\n",
        "app-totals-changelog]\nco-partitioned [clicks, in]\n",
    ),
    "cogroup_of_one_changed_key": (
        "co-partitioned [a, b]",
        "co-partitioned [app-COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition, b]",
    ),
    "cogroup_of_changed_keys_named": (
        "co-partitioned [a, b]",
        "co-partitioned [app-by-a-repartition, app-by-b-repartition]",
    ),
    "cogroup_of_two_changed_keys_one_named": (
        "co-partitioned [a, b]",
        "co-partitioned [app-by-b-repartition, app-kept-repartition]",
    ),
    "cogroup_aggregated_twice": (
        "co-partitioned [a, b]",
        "co-partitioned [app-COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition, b]",
    ),
    "cogroups_of_one_grouped_stream": ("co-partitioned [a, b]", "co-partitioned [app-by-a-repartition, b]"),
    "joins_with_a_cogrouped_table": ("co-partitioned [a, b]", "co-partitioned [a, b, c, d]"),
    "optimised_cogroup": ("co-partitioned [in, other]", "co-partitioned [app-one-repartition, other]"),
}

ALL = [*catalogue.CATALOGUE, *catalogue.OPTIMISED]


@pytest.mark.parametrize("name", ALL)
def test_the_description_is_the_text_of_kafka_streams(name: str) -> None:
    assert _build(name).describe() == _golden(name)[0]


@pytest.mark.parametrize("name", ALL)
def test_internal_topics_and_co_partitioned_groups_are_those_of_kafka_streams(name: str) -> None:
    theirs, ours = MORE_CO_PARTITIONED.get(name, ("\n", "\n"))
    assert theirs in _golden(name)[1]
    assert _internal_topics(_build(name)) == _golden(name)[1].replace(theirs, ours)


@pytest.mark.parametrize(("kind", "count"), [("windowed", 15), ("versioned", 3)])
def test_changelogs_have_the_settings_of_kafka_streams(kind: str, count: int) -> None:
    """Case W19, for every kind of window; and the history of versioned stores, which compaction must leave alone."""
    blocks = (HERE / "golden" / f"{kind}_changelogs.list").read_text().split("== ")[1:]
    assert len(blocks) == count
    for block in blocks:
        name, *lines = block.splitlines()
        made = [
            changelog_topic(store, "app", partitions=1) for part in _build(name).sub_topologies for store in part.stores
        ]
        texts = [
            f"{topic.name} {{{', '.join(f'{key}={value}' for key, value in sorted(topic.settings.items()))}}}"
            for topic in made
            if topic is not None
        ]
        assert sorted(texts) == lines


def test_internal_topics_of_a_foreign_key_join_have_the_settings_of_kafka_streams() -> None:
    topology = _build("foreign_key_left_join_named")
    stores = [store for part in topology.sub_topologies for store in part.stores]
    made = [repartition_topic(spec, "app", partitions=1) for spec in topology.repartition_topics]
    changelogs = [topic for store in stores if (topic := changelog_topic(store, "app", partitions=1)) is not None]
    lines = [
        f"{topic.name} {{{', '.join(f'{key}={value}' for key, value in sorted(topic.settings.items()))}}}"
        for topics in (made, changelogs)
        for topic in sorted(topics, key=lambda each: each.name)
    ]
    assert lines == (HERE / "golden" / "foreign_key_topics.list").read_text().splitlines()


def test_every_golden_file_has_its_topology() -> None:
    assert sorted(path.stem for path in (HERE / "golden").glob("*.txt")) == sorted(ALL)
