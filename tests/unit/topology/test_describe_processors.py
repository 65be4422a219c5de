"""Topologies with processors: described as Kafka Streams does (tests/parity/java/DescribeProcessors.java)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millrace.dsl import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    Grouped,
    Materialized,
    Processor,
    Record,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    Topology,
    ValueTransformerWithKey,
)
from millrace.kafka.topics import changelog_topic
from millrace.serdes import StringSerde
from millrace.topology.nodes import SourceNode
from millrace.topology.topology import FrozenTopology

GOLDEN = Path(__file__).parent / "golden_processors"
S = StringSerde()
STRINGS = Consumed.with_(S, S)
GROUPED = Grouped.with_(S, S)


class Pass(Processor[Any, Any]):
    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)


class PassValues(FixedKeyProcessor[Any, Any]):
    def process(self, record: FixedKeyRecord[Any, Any], /) -> None:
        self.context.forward(record)


class Transform(ValueTransformerWithKey[Any, Any, Any]):
    def transform(self, key: Any, value: Any, /) -> Any:
        return value


class WithStores(Pass):
    @staticmethod
    def stores() -> list[StoreBuilder]:
        return [key_value("brought")]


def key_value(name: str) -> StoreBuilder:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), S, S)


def window(name: str) -> StoreBuilder:
    supplier = Stores.persistent_window_store(name, timedelta(hours=1), timedelta(minutes=1))
    return Stores.window_store_builder(supplier, S, S)


def session(name: str) -> StoreBuilder:
    return Stores.session_store_builder(Stores.persistent_session_store(name, timedelta(hours=2)), S, S)


def same(key: Any, value: Any) -> Any:
    return value


def true(key: Any, value: Any) -> bool:
    return True


def process_unnamed(b: StreamsBuilder) -> None:
    b.stream("in", STRINGS).process(Pass).to("out")


def process_named_with_stores(b: StreamsBuilder) -> None:
    b.add_state_store(key_value("one")).add_state_store(window("two")).add_state_store(session("three"))
    b.stream("in", STRINGS).process(Pass, "one", "two", "three", named="mine").to("out")


def process_and_aggregate(b: StreamsBuilder) -> None:
    stream = b.stream("in", STRINGS)
    stream.process(Pass).group_by_key(GROUPED).count().to_stream().to("out")
    stream.process_values(PassValues).group_by_key(GROUPED).count().to_stream().to("out-values")


def process_values_named_after_key_change(b: StreamsBuilder) -> None:
    b.add_state_store(key_value("one"))
    values = b.stream("in", STRINGS).select_key(same).process_values(PassValues, "one", named="values")
    values.group_by_key(GROUPED).count().to_stream().to("out")


def processes_that_share_a_store(b: StreamsBuilder) -> None:
    b.add_state_store(key_value("shared"))
    b.stream("a", STRINGS).process(Pass, "shared").to("out")
    b.stream("b", STRINGS).process(Pass, "shared").to("out")
    b.stream("c", STRINGS).process(Pass).to("out")


def process_with_the_store_of_a_table(b: StreamsBuilder) -> None:
    table = b.table("users", STRINGS, Materialized.as_("users-store"))
    b.stream("in", STRINGS).process(Pass, "users-store").to("out")
    table.to_stream().to("changes")


def process_with_a_supplier_that_brings_stores(b: StreamsBuilder) -> None:
    b.stream("in", STRINGS).process(WithStores).to("out")
    b.stream("other", STRINGS).process(WithStores).to("out")


def global_store_that_a_processor_fills(b: StreamsBuilder) -> None:
    b.stream("in", STRINGS).process(Pass).to("out")
    b.add_global_store(key_value("kept"), "everywhere", STRINGS, Pass)
    b.add_global_store(key_value("named"), "more", STRINGS.with_name("mine"), Pass)


def transform_values_with_a_store(b: StreamsBuilder) -> None:
    b.add_state_store(key_value("one"))
    table = b.table("users", STRINGS)
    table.transform_values(Transform, "one").to_stream().to("out")
    kept = table.transform_values(Transform, Materialized.as_("kept"), "one", named="named")
    kept.group_by(lambda key, value: (value, key), GROUPED).count().to_stream().to("counts")


def optimised_processes_between(b: StreamsBuilder) -> None:
    keyed = b.stream("in", STRINGS).process(Pass)
    keyed.filter(true).group_by_key(GROUPED).count().to_stream().to("one")
    keyed.process_values(PassValues).group_by_key(GROUPED).count().to_stream().to("two")
    keyed.group_by_key(GROUPED).reduce(same).to_stream().to("three")


def by_hand_in_a_row() -> Topology:
    topology = Topology().add_source("source", "in").add_processor("process", Pass, "source")
    return topology.add_sink("sink", "out", "process")


def by_hand_with_stores() -> Topology:
    topology = Topology()
    topology.add_source("z-source", "in", "also").add_source("a-source", "other").add_source("m-source", "third")
    topology.add_processor("first", Pass, "z-source")
    topology.add_processor("second", Pass, "a-source", "first")
    topology.add_processor("third", Pass, "m-source")
    topology.add_state_store(key_value("kept"), "first")
    topology.add_state_store(window("windows"), "second", "first")
    topology.add_state_store(session("unused"))
    topology.add_sink("sink", "out", "first", "second", "third").add_sink("end", "end", "first")
    return topology.add_source("apart", "apart").add_processor("alone", Pass, "apart")


def by_hand_with_a_global_store() -> Topology:
    topology = Topology().add_source("source", "in")
    topology.add_global_store(
        key_value("kept").with_logging_disabled(), "global-source", "everywhere", "global-processor", Pass
    )
    return topology.add_processor("process", Pass, "source").add_sink("sink", "out", "process")


def by_hand_joined_by_a_store() -> Topology:
    topology = Topology().add_source("b", "in-b").add_source("a", "in-a").add_source("c", "in-c")
    topology.add_processor("of-b", Pass, "b").add_processor("of-a", Pass, "a").add_processor("of-c", Pass, "c")
    topology.add_state_store(key_value("shared"), "of-c").connect_processor_and_state_stores("of-b", "shared")
    return topology.add_sink("to-a", "out", "of-a").add_sink("to-b", "out", "of-b")


WRITTEN: tuple[Callable[[StreamsBuilder], None], ...] = (
    process_unnamed,
    process_named_with_stores,
    process_and_aggregate,
    process_values_named_after_key_change,
    processes_that_share_a_store,
    process_with_the_store_of_a_table,
    process_with_a_supplier_that_brings_stores,
    global_store_that_a_processor_fills,
    transform_values_with_a_store,
    optimised_processes_between,
)
BY_HAND: tuple[Callable[[], Topology], ...] = (
    by_hand_in_a_row,
    by_hand_with_stores,
    by_hand_with_a_global_store,
    by_hand_joined_by_a_store,
)


def _built(write: Callable[[StreamsBuilder], None]) -> FrozenTopology:
    builder = StreamsBuilder()
    write(builder)
    optimised = write.__name__.startswith("optimised")
    return builder.build(rewrites=("reuse-source-topic", "merge-repartition-topics") if optimised else ())


TOPOLOGIES: dict[str, Callable[[], FrozenTopology]] = {
    **{write.__name__: lambda write=write: _built(write) for write in WRITTEN},  # type: ignore[misc]
    **{make.__name__: lambda make=make: make().build() for make in BY_HAND},  # type: ignore[misc]
}


def _internal_topics(topology: FrozenTopology) -> str:
    lines = []
    for part in topology.sub_topologies:
        sources = [node for node in part.nodes if isinstance(node, SourceNode) and node.internal]
        read = sorted(f"app-{topic}" for node in sources for topic in node.topics)
        changelogs = sorted(filter(None, (store.changelog_topic("app") for store in part.stores)))
        lines.append(f"{part.number} repartition [{', '.join(read)}] changelog [{', '.join(changelogs)}]\n")
    return "".join(lines)


def _changelog_settings(topology: FrozenTopology) -> list[str]:
    made = [changelog_topic(store, "app", partitions=1) for part in topology.sub_topologies for store in part.stores]
    return sorted(
        f"{topic.name} {{{', '.join(f'{key}={value}' for key, value in sorted(topic.settings.items()))}}}"
        for topic in made
        if topic is not None
    )


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_description_and_internal_topics_are_those_of_kafka_streams(name: str) -> None:
    description, topics, settings = (GOLDEN / f"{name}.txt").read_text().split("----\n")
    topology = TOPOLOGIES[name]()
    assert topology.describe() == description
    assert _internal_topics(topology) == topics
    assert _changelog_settings(topology) == settings.splitlines()


def test_every_golden_file_has_its_topology() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(TOPOLOGIES)
