"""What global tables and joins with them accept, and what becomes of them in a topology."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from millrace.dsl import Consumed, JoinWindows, Materialized, StreamsBuilder
from millrace.errors import TopologyError
from millrace.serdes import LongSerde, StringSerde
from millrace.topology.diff import ChangeKind, diff
from millrace.topology.layout import TopologyLayout
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
NEAR = JoinWindows.of_time_difference_with_no_grace(1)


def select(key: Any, value: Any) -> Any:
    return value


def both(value: Any, row: Any) -> Any:
    return value, row


def enriched(topic: str = "global", *, serde: Any = TEXT, store: str = "rows") -> FrozenTopology:
    builder = StreamsBuilder()
    table = builder.global_table(topic, Consumed.with_(TEXT, serde), Materialized.as_(store))
    builder.stream("in").left_join(table, select, both).to("out")
    return builder.build()


def test_the_topic_is_an_input_that_no_task_reads() -> None:
    topology = enriched()
    assert topology.external_inputs == {"global", "in"}
    assert topology.global_topics == {"global"}
    (part,) = topology.sub_topologies
    assert part.number == 1
    assert part.input_topics("app") == ("in",)
    assert part.stores == ()
    assert [each.store.name for each in part.global_stores] == ["rows"]
    assert topology.co_partition_groups == ()
    assert TopologyLayout.over_inputs(topology, "app", {"in": 4, "global": 7}).task_counts == {1: 4}


def test_the_store_is_never_logged_and_takes_the_serdes_of_consumed() -> None:
    builder = StreamsBuilder()
    options = Materialized.as_("rows").with_value_serde(LongSerde()).with_logging_enabled({"a": "b"})
    builder.global_table("global", Consumed.with_(TEXT, TEXT), options)
    (made,) = builder.build().global_stores
    assert (made.store.logged, made.store.key_serde, made.store.value_serde) == (False, TEXT, TEXT)


def test_only_sub_topologies_that_look_it_up_name_a_global_store() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("global")
    builder.stream("a").to("out-a")
    builder.stream("b").join(table, select, both).to("out-b")
    found = {part.number: len(part.global_stores) for part in builder.build().sub_topologies}
    assert found == {1: 0, 2: 1}


def test_a_topology_with_a_global_table_can_be_sent_to_workers() -> None:
    assert pickle.loads(pickle.dumps(enriched())).describe() == enriched().describe()


@pytest.mark.parametrize("read", ["stream", "table", "global_table"])
def test_a_topic_is_read_once(read: str) -> None:
    builder = StreamsBuilder()
    builder.global_table("topic")
    getattr(builder, read)("topic")
    with pytest.raises(TopologyError, match="'topic' is read by both"):
        builder.build()


def test_joiners_that_do_not_fit_and_other_builders_are_refused() -> None:
    builder = StreamsBuilder()
    table, stream = builder.global_table("global"), builder.stream("in")
    join: Any = stream.join
    with pytest.raises(TopologyError, match="cannot be called with"):
        join(table, lambda value: value, both)
    with pytest.raises(TopologyError, match=r"cannot be called with \(value, table_value\)"):
        join(table, select, lambda key, value, row: value, joiner_takes_key=False, joiner_takes_selected_key=False)
    with pytest.raises(TopologyError, match=r"cannot be called with \(key, selected_key, value, table_value\)"):
        join(table, select, both, joiner_takes_selected_key=True)
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        StreamsBuilder().stream("in").join(table, select, both)


def compare(old: FrozenTopology, new: FrozenTopology) -> list[tuple[ChangeKind, str]]:
    found = diff(json.loads(json.dumps(old.summary())), new)
    assert not found.loses_state
    return [(change.kind, change.text) for change in found.changes]


def test_a_changed_global_table_loses_no_state() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    plain = builder.build()
    assert compare(plain, enriched()) == [
        (ChangeKind.NEW, "global store rows is new and is read from topic global"),
    ]
    assert compare(enriched(), plain) == [
        (
            ChangeKind.CHANGED,
            "global store rows of topic global would not be used any more; its topic has all of it",
        )
    ]
    assert compare(enriched(), enriched("other", serde=LongSerde())) == [
        (
            ChangeKind.CHANGED,
            (
                "global store rows is built again from its topic: topic global becomes other; value_serde StringSerde "
                "becomes LongSerde"
            ),
        )
    ]
    assert compare(enriched(), enriched()) == []


def test_the_fingerprint_knows_global_tables() -> None:
    assert enriched().fingerprint == enriched().fingerprint
    assert enriched().fingerprint != enriched("other").fingerprint
    assert enriched().fingerprint != enriched(store="other").fingerprint
