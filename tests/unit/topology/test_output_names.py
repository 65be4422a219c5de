"""A topology whose outputs have other names."""

from __future__ import annotations

import pytest

from millrace.dsl import Consumed, Grouped, Materialized, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import StringSerde
from millrace.topology.output_names import with_output_prefix

TEXT = Consumed.with_(StringSerde(), StringSerde())


def test_every_output_gets_the_prefix_and_nothing_else_does() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", TEXT)
    stream.to("out")
    grouped = Grouped.as_("by-value").with_key_serde(StringSerde()).with_value_serde(StringSerde())
    stream.group_by(lambda key, value: value, grouped).count(Materialized.as_("counts")).to_stream().to("counts")
    before = builder.build()
    after = with_output_prefix(before, "app-canary-")
    assert after.external_outputs == {"app-canary-out", "app-canary-counts"}
    assert after.external_inputs == before.external_inputs == {"in"}
    assert after.repartition_topics == before.repartition_topics
    assert [part.stores for part in after.sub_topologies] == [part.stores for part in before.sub_topologies]
    assert before.external_outputs == {"out", "counts"}


def test_outputs_that_records_choose_are_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in", TEXT).to(lambda key, value, context: value)
    with pytest.raises(TopologyError, match="chosen for each record"):
        with_output_prefix(builder.build(), "app-canary-")
