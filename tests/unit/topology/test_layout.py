"""Tasks and topics of a topology under an application id."""

from __future__ import annotations

import re

import pytest

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import LongSerde, StringSerde
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.topology.layout import (
    ApplicationTopics,
    SubTopologyLayout,
    TopologyLayout,
    layouts_of_summary,
    task_numbers,
)
from millrace.topology.source_topics import with_matched_topics
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
READ = Consumed.with_(TEXT, TEXT)


def topology() -> FrozenTopology:
    """Two merged streams, grouped again and counted; a table that its input restores; a store without changelog."""
    builder = StreamsBuilder()
    merged = builder.stream("small", READ).merge(builder.stream("large", READ))
    counts = merged.group_by(lambda _, value: value, Grouped.with_(TEXT, TEXT)).count(Materialized.as_("counts"))
    counts.to_stream().to("out", Produced.with_(TEXT, LongSerde()))
    prices = builder.table("prices", READ, materialized=Materialized.as_("latest"))
    prices.to_stream().to("out-prices", Produced.with_(TEXT, TEXT))
    seen = builder.stream("visits", READ).group_by_key()
    seen.count(Materialized.as_("seen").with_logging_disabled())
    builder.global_table("countries", READ)
    return builder.build(rewrites=["reuse-source-topic"])


def layout() -> TopologyLayout:
    return TopologyLayout.over_inputs(
        topology(), "app", {"small": 1, "large": 3, "prices": 2, "visits": 1, "countries": 7}
    )


def test_a_task_reads_its_partition_of_the_topics_that_have_it() -> None:
    tasks = layout().tasks
    assert list(tasks) == ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2", "2_0", "2_1", "3_0"]
    assert tasks["0_0"].inputs == (("large", 0), ("small", 0))
    assert tasks["0_2"].inputs == (("large", 2),)
    assert tasks["1_1"].inputs == (("app-counts-repartition", 1),)
    assert layout().task_counts == {0: 3, 1: 3, 2: 2, 3: 1}


def test_an_input_topic_that_restores_a_store_is_no_changelog_of_the_application_s_own() -> None:
    tasks = layout().tasks
    assert tasks["1_2"].changelogs == tasks["1_2"].own_changelogs == {"counts": ("app-counts-changelog", 2)}
    assert tasks["2_1"].changelogs == {"latest": ("prices", 1)}
    assert tasks["2_1"].own_changelogs == {}
    assert tasks["3_0"].changelogs == {}
    topics = ApplicationTopics(topology(), "app")
    assert topics.changelogs == {"counts": "app-counts-changelog", "latest": "prices"}
    assert topics.own_changelogs == {"counts": "app-counts-changelog"}
    assert topics.own == {"app-counts-changelog", "app-counts-repartition"}
    assert layout().own_changelogs == [("app-counts-changelog", number) for number in range(3)]


def test_own_topics_have_as_many_partitions_as_their_tasks_need() -> None:
    assert layout().own_partitions == {"app-counts-repartition": 3, "app-counts-changelog": 3}


def test_topics_of_global_stores_are_no_inputs_of_tasks() -> None:
    assert ApplicationTopics(topology(), "app").inputs == {
        "small", "large", "prices", "visits", "app-counts-repartition"
    }  # fmt: skip


def test_a_task_s_transactional_id_is_that_under_which_it_commits() -> None:
    part = topology().sub_topologies[0]
    config = StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "localhost:9092"})
    assert config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
    spec = TaskSpec(
        part=SubTopologySpec(sub_topology=part, config=config, run_id=1, topic_ids={}, partition_counts={}),
        partition=2,
        inputs=(),
    )
    task = layout().tasks["0_2"]
    assert (task.name, task.transactional_id) == (spec.name, spec.transactional_id) == ("0_2", "app-0_2")
    assert task_numbers("10_23") == (10, 23)


def test_a_summary_gives_the_same_topics_as_its_topology() -> None:
    built = topology()
    assert layouts_of_summary(built.summary(), "app") == ApplicationTopics(built, "app").sub_topologies


def test_repartition_topics_are_read_from_their_first_record_whatever_the_reset() -> None:
    topics = ApplicationTopics(topology(), "app")
    first, second, *_ = topology().sub_topologies
    assert topics.resets(first, "latest") == {"small": "latest", "large": "latest"}
    assert topics.resets(second, "latest") == {"app-counts-repartition": "earliest"}


def test_matched_topics_are_inputs_and_the_pattern_is_not() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("sensor-.*"), READ).to("out", Produced.with_(TEXT, TEXT))
    matched = with_matched_topics(builder.build(), ["sensor-a", "sensor-b"], "app")
    assert ApplicationTopics(matched, "app").inputs == {"sensor-a", "sensor-b"}


def test_topics_that_do_not_exist_are_left_out_only_where_that_is_asked_for() -> None:
    part = SubTopologyLayout(application_id="app", number=0, inputs=("gone", "here"))
    assert [task.inputs for task in part.within({"here"}).tasks({"here": 1})] == [(("here", 0),)]
    with pytest.raises(KeyError, match="gone"):
        part.tasks({"here": 1})
    with pytest.raises(TopologyError, match="unknown: large"):
        TopologyLayout.over_inputs(topology(), "app", {"small": 1, "prices": 2, "visits": 1, "countries": 7})


def test_a_store_has_a_changelog_where_a_topic_restores_it() -> None:
    logged = StoreSpec(name="a", kind=StoreKind.KEY_VALUE)
    unlogged = StoreSpec(name="b", kind=StoreKind.KEY_VALUE, logged=False)
    on_source = StoreSpec(name="c", kind=StoreKind.KEY_VALUE, logged=False, source_topic="in")
    stores = (logged, unlogged, on_source)
    assert [store.has_changelog for store in stores] == [True, False, True]
    assert [store.changelog_topic("app") for store in stores] == ["app-a-changelog", None, "in"]
    assert [store.own_changelog_topic("app") for store in stores] == ["app-a-changelog", None, None]
