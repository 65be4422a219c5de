"""What belongs to an application, by its topology or by what the status topic says of it."""

from __future__ import annotations

import re

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from millrace.operations.reset.resources import resources_of
from millrace.serdes import LongSerde, StringSerde
from millrace.topology.source_topics import with_matched_topics
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
READ = Consumed.with_(TEXT, TEXT)


def counting(source: str | re.Pattern[str]) -> FrozenTopology:
    builder = StreamsBuilder()
    grouped = builder.stream(source, READ).group_by(lambda _, value: value, Grouped.with_(TEXT, TEXT))
    counts = grouped.count(Materialized.as_("counts"))
    counts.to_stream().to("out", Produced.with_(TEXT, LongSerde()))
    return builder.build()


def test_inputs_of_a_pattern_are_the_topics_that_it_matches() -> None:
    matched = with_matched_topics(counting(re.compile("sensor-.*")), ["sensor-a", "sensor-b", "other"], "app")
    found = resources_of("app", matched, None)
    assert found.inputs == {"sensor-a", "sensor-b"}
    assert found.sub_topologies[0].inputs == ("sensor-a", "sensor-b")


def test_the_status_of_an_application_tells_which_topics_its_pattern_matched() -> None:
    matched = with_matched_topics(counting(re.compile("sensor-.*")), ["sensor-a", "sensor-b"], "app")
    status = ApplicationStatus(
        application_id="app",
        state=ApplicationState.NOT_RUNNING,
        driver=DriverIdentity.of_this_process(),
        driver_epoch=1,
        topology_summary=matched.summary(),
        partitions={"sensor-a": 1, "sensor-b": 1, "app-counts-repartition": 1},
    )
    found = resources_of("app", None, status)
    assert found.inputs == {"sensor-a", "sensor-b"}
    assert [layout.inputs for layout in found.sub_topologies] == [("sensor-a", "sensor-b"), ("app-counts-repartition",)]
    assert resources_of("app", matched, status) == resources_of("app", matched, None)


def test_what_an_application_creates_is_internal_and_what_it_reads_or_writes_for_others_is_not() -> None:
    found = resources_of("app", counting("in"), None)
    assert found.internal == {"app-counts-repartition", "app-counts-changelog"}
    assert found.inputs == {"in"}
    assert found.outputs == {"out"}
    # Even where it bears the name of one.
    assert resources_of("app", counting("app-counts-changelog"), None).internal == {"app-counts-repartition"}
