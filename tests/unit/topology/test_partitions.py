from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import Grouped, Materialized, Repartitioned, StreamsBuilder, TableJoined
from millrace.errors import TopologyError
from millrace.topology.layout import TopologyLayout
from millrace.topology.partitions import repartition_partition_counts


def value_as_key(key: Any, value: Any) -> Any:
    return value


def test_a_repartition_topic_has_as_many_partitions_as_the_largest_input() -> None:
    builder = StreamsBuilder()
    merged = builder.stream("a").merge(builder.stream("b"))
    merged.group_by(value_as_key, Grouped.as_("grouped")).count(Materialized.as_("counts")).to_stream().to("out")
    topology = builder.build()
    assert repartition_partition_counts(topology, {"a": 2, "b": 5}) == {"grouped-repartition": 5}
    assert TopologyLayout.over_inputs(topology, "app", {"a": 2, "b": 5}).task_counts == {0: 5, 1: 5}


def test_numbers_go_through_a_chain_of_repartition_topics() -> None:
    builder = StreamsBuilder()
    first = builder.stream("in").select_key(value_as_key).repartition(Repartitioned.as_("first"))
    first.select_key(value_as_key).repartition(Repartitioned.as_("second")).to("out")
    counts = repartition_partition_counts(builder.build(), {"in": 3})
    assert counts == {"first-repartition": 3, "second-repartition": 3}


def test_the_number_that_the_user_asked_for_wins() -> None:
    builder = StreamsBuilder()
    builder.stream("in").repartition(Repartitioned.as_("wide").with_number_of_partitions(7)).to("out")
    assert TopologyLayout.over_inputs(builder.build(), "app", {"in": 2}).task_counts == {0: 2, 1: 7}


def joined(*, re_keyed: bool) -> StreamsBuilder:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks")
    if re_keyed:
        clicks = clicks.select_key(value_as_key, named="by-user")
    clicks.join(builder.table("users"), lambda click, user: user).to("out")
    return builder


def test_a_repartition_topic_follows_the_table_it_is_joined_with() -> None:
    counts = repartition_partition_counts(joined(re_keyed=True).build(), {"clicks": 8, "users": 3})
    assert counts == {"by-user-repartition": 3}


def test_joined_inputs_with_different_numbers_are_refused_with_both() -> None:
    """Case S14: two co-partitioned inputs of 3 and 4 partitions."""
    with pytest.raises(TopologyError, match="clicks has 3, users has 4"):
        repartition_partition_counts(joined(re_keyed=False).build(), {"clicks": 3, "users": 4})


def test_an_input_whose_number_is_unknown_is_named() -> None:
    with pytest.raises(TopologyError, match="unknown: users"):
        repartition_partition_counts(joined(re_keyed=False).build(), {"clicks": 3})


def test_the_topics_of_a_foreign_key_join_follow_the_tables_that_they_lead_to() -> None:
    """Case J12: subscriptions go to the partitions of the foreign table, responses to those of the primary one."""
    builder = StreamsBuilder()
    orders, customers = builder.table("orders"), builder.table("customers")
    options = TableJoined.as_("fk")
    orders.join(customers, lambda order, _: order, foreign_key_extractor=value_as_key, table_joined=options)
    topology, inputs = builder.build(), {"orders": 4, "customers": 3}
    assert repartition_partition_counts(topology, inputs) == {
        "fk-subscription-registration-topic": 3,
        "fk-subscription-response-topic": 4,
    }
    assert TopologyLayout.over_inputs(topology, "app", inputs).task_counts == {0: 4, 1: 3}


def test_the_topics_of_a_foreign_key_join_of_re_keyed_streams_follow_their_repartition_topics() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders").select_key(value_as_key).to_table(named="orders-by-value")
    customers = builder.stream("customers").select_key(value_as_key).to_table(named="customers-by-value")
    options = TableJoined.as_("fk")
    orders.join(customers, lambda order, _: order, foreign_key_extractor=value_as_key, table_joined=options)
    topology = builder.build()
    names = {"fk-subscription-registration-topic", "fk-subscription-response-topic"}
    names |= {"orders-by-value-repartition", "customers-by-value-repartition"}
    assert repartition_partition_counts(topology, {"orders": 5, "customers": 2}) == dict.fromkeys(names, 5)
    assert repartition_partition_counts(topology, {"orders": 2, "customers": 5}) == {
        **dict.fromkeys(names, 5),
        "orders-by-value-repartition": 5,
    }
