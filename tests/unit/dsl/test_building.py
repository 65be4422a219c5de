"""What a configuration does to what a builder or a specification's function builds."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Materialized, StreamsBuilder
from millrace.dsl import StreamsConfig as Exported
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError, TopologyError
from millrace.serdes import StringSerde
from millrace.topology import topology as frozen

TEXT = Consumed.with_(StringSerde(), StringSerde())
CONFIG = StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "b:1"})


def reading(builder: StreamsBuilder) -> StreamsBuilder:
    builder.table("prices", TEXT, Materialized.as_("prices"))
    return builder


def reuses_topic(topology: frozen.FrozenTopology) -> bool:
    ((store,),) = [part.stores for part in topology.sub_topologies]
    return store.source_topic is not None


@pytest.mark.parametrize(
    ("config", "reuses"),
    [
        (None, False),
        ({}, False),
        ({"topology.optimization": Exported.OPTIMIZE}, True),
        ({"topology.optimization": StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS}, True),
        ({"topology.optimization": StreamsConfig.MERGE_REPARTITION_TOPICS}, False),
        ({"topology.optimization": StreamsConfig.NO_OPTIMIZATION}, False),
        (CONFIG, False),
        (CONFIG.model_copy(update={"topology_optimization": "all"}), True),
    ],
)
def test_the_configuration_says_what_is_optimized(config: Any, reuses: bool) -> None:
    assert reuses_topic(reading(StreamsBuilder()).build(config)) is reuses


def test_what_the_call_says_wins_over_the_configuration() -> None:
    everything = {"topology.optimization": "all", "ensure.explicit.internal.resource.naming": True}
    builder = reading(StreamsBuilder())
    assert reuses_topic(builder.build(everything, rewrites=())) is False
    assert reuses_topic(builder.build({}, rewrites=("reuse-source-topic",))) is True
    builder.stream("in", TEXT).group_by_key().count()
    with pytest.raises(TopologyError, match="naming"):
        builder.build(everything)
    builder.build(everything, ensure_explicit_naming=False)


def test_a_configuration_that_is_not_valid_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"topology\.optimization knows"):
        reading(StreamsBuilder()).build({"topology.optimization": "some"})


def with_config(builder: StreamsBuilder, config: StreamsConfig) -> None:
    builder.stream("in", TEXT).to(f"{config.application_id}-out")


def with_optional_config(builder: StreamsBuilder, config: StreamsConfig | None = None) -> None:
    assert config is not None
    with_config(builder, config)


def with_named_config(builder: StreamsBuilder, *, config: StreamsConfig) -> None:
    with_config(builder, config)


def with_other_options(builder: StreamsBuilder, topic: str = "out") -> None:
    builder.stream("in", TEXT).to(topic)


def with_a_builder_of_its_own(_: StreamsBuilder) -> frozen.FrozenTopology:
    builder = StreamsBuilder()
    builder.stream("in", TEXT).to("own-out")
    return builder.build()


def returning_what_it_has_built(builder: StreamsBuilder) -> frozen.FrozenTopology:
    return reading(builder).build()


@pytest.mark.parametrize(
    ("function", "topic"),
    [
        ("with_config", "app-out"),
        ("with_optional_config", "app-out"),
        ("with_named_config", "app-out"),
        ("with_other_options", "out"),
        ("with_a_builder_of_its_own", "own-out"),
    ],
)
def test_the_function_of_a_specification_gets_the_configuration_if_it_asks_for_it(function: str, topic: str) -> None:
    assert load_topology(f"{__name__}:{function}", CONFIG).external_outputs == {topic}


def test_without_a_specification_the_function_gets_the_defaults() -> None:
    assert load_topology(f"{__name__}:with_config").external_outputs == {"unnamed-out"}


def test_what_the_builder_has_collected_is_built_with_the_configuration_whatever_the_function_returns() -> None:
    optimized = CONFIG.model_copy(update={"topology_optimization": "all"})
    assert reuses_topic(load_topology(f"{__name__}:returning_what_it_has_built", optimized)) is True
