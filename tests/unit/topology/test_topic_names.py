"""Names of topics that a broker would refuse."""

from __future__ import annotations

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError, TopologyError
from millrace.serdes import LongSerde, StringSerde
from millrace.testing import TopologyTestDriver
from millrace.topology.naming import colliding_names
from millrace.topology.topic_names import check_topic_names
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
LONG_STORE = "s" * 100
LONG_ID = "a" * 180


def counting(builder: StreamsBuilder | None = None, *, store: str = LONG_STORE, topic: str = "in") -> FrozenTopology:
    builder = builder or StreamsBuilder()
    stream = builder.stream(topic, Consumed.with_(TEXT, TEXT)).group_by_key()
    stream.count(Materialized.as_(store)).to_stream().to("out", Produced.with_(TEXT, LongSerde()))
    return builder.build()


def build(builder: StreamsBuilder) -> None:
    """As an application's module has it."""
    counting(builder)


def test_the_changelog_of_legal_names_may_be_too_long() -> None:
    """Case S19: an application id of 180 characters, a store of 100."""
    with pytest.raises(TopologyError) as refused:
        check_topic_names(counting(), LONG_ID)
    assert f"{LONG_ID}-{LONG_STORE}-changelog, the topic of store {LONG_STORE}" in refused.value.message
    assert "has 291 characters, and the limit is 249" in refused.value.message
    assert "application.id (180 characters)" in refused.value.remedy


def test_the_test_driver_finds_it() -> None:
    """Case S19."""
    with pytest.raises(TopologyError, match="291 characters, and the limit is 249"):
        TopologyTestDriver(counting(), {"application.id": LONG_ID})


def test_what_a_specification_builds_is_checked_under_its_application_id() -> None:
    """Case S19: so the preflight, a dry run and every command that loads the topology find it."""
    config = StreamsConfig.from_mapping({"application.id": LONG_ID, "bootstrap.servers": "localhost:1"})
    with pytest.raises(TopologyError, match="291 characters"):
        load_topology(f"{__name__}:build", config)


def test_a_name_that_is_just_short_enough_is_taken() -> None:
    store = "s" * (249 - len("app") - len("--changelog"))
    check_topic_names(counting(store=store), "app")
    with pytest.raises(TopologyError, match="250 characters"):
        check_topic_names(counting(store=store + "s"), "app")


def test_names_that_no_application_id_makes_short_enough_are_refused_when_the_topology_is_built() -> None:
    with pytest.raises(TopologyError, match=r"<application.id>-s+-changelog, .*, has 260 characters"):
        counting(store="s" * 248)


def test_repartition_topics_are_checked_and_every_one_is_listed() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).select_key(lambda key, value: value)
    for part in ("x", "y"):
        stream.group_by_key(Grouped.as_(part * 200)).count(Materialized.as_(part))
    topology = builder.build()
    check_topic_names(topology, "app")
    with pytest.raises(TopologyError, match=r"the names of 2 topics: .*x-repartition.*y-repartition"):
        check_topic_names(topology, "a" * 60)


@pytest.mark.parametrize("name", ["", "..", "a b", "d" * 250])
def test_the_dead_letter_topic_is_checked(name: str) -> None:
    with pytest.raises(TopologyError, match="the topic of the dead-letter records"):
        check_topic_names(counting(store="s"), "app", dead_letter_topic=name)


def test_topics_that_differ_in_dots_and_underscores_only_are_refused() -> None:
    """Case S19: a broker takes the first of them only."""
    with pytest.raises(
        TopologyError, match=r"my_app-a_b-changelog \(the topic of store a_b\) and my.app-a.b-changelog"
    ):
        check_topic_names(counting(store="a_b", topic="my.app-a.b-changelog"), "my_app")
    assert colliding_names(["a.b"], ["a_b", "other"]) == ["a.b and a_b, which exists"]
    assert colliding_names(["a.b"], ["a.b"]) == []


@pytest.mark.parametrize("name", [".", ".."])
def test_an_application_id_that_is_no_directory_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"application\.id"):
        StreamsConfig.from_mapping({"application.id": name, "bootstrap.servers": "localhost:1"})
