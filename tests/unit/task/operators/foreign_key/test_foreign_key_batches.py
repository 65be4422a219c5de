"""Where the input of each side of a foreign-key join is cut into batches does not show in what the side writes.

Each side runs alone here: what goes to and fro between both depends on when it arrives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder, TableJoined
from millrace.kafka.murmur3 import hash128
from millrace.metrics import DropReason
from millrace.serdes import BytesSerde, JsonSerde, StringSerde
from millrace.serdes.subscriptions import Instruction, Response, ResponseSerde, Subscription, SubscriptionSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT, JSON = StringSerde(), JsonSerde()
APPLICATION = "app"
SETTINGS = {"application.id": APPLICATION, "foreign.key.join.settles": True}
SUBSCRIPTIONS = "app-fk-subscription-registration-topic"
RESPONSES = "app-fk-subscription-response-topic"
SERDES: dict[str, Any] = {
    "orders": JSON,
    "customers": TEXT,
    SUBSCRIPTIONS: SubscriptionSerde(TEXT),
    RESPONSES: ResponseSerde(TEXT),
}
KEYS = st.sampled_from(["", "a", "b", "ab", None])
TIMES = st.integers(0, 30)
ORDERS = st.none() | st.fixed_dictionaries({"customer": st.none() | st.sampled_from(["", "a", "b"])})
HASHES = st.none() | ORDERS.map(lambda order: order and hash128(JSON.serialize(order)))
FOREIGN_SIDE = st.lists(
    st.tuples(st.just("customers"), KEYS, st.none() | st.sampled_from(["x", "y"]), TIMES)
    | st.tuples(
        st.just(SUBSCRIPTIONS),
        KEYS,
        st.builds(
            Subscription,
            HASHES,
            st.sampled_from(Instruction),
            st.sampled_from(["", "p", "q"]),
            st.just(0),
            st.just(1),
        ),
        TIMES,
    ),
    max_size=30,
)
PRIMARY_SIDE = st.lists(
    st.tuples(st.just("orders"), KEYS, ORDERS, TIMES)
    | st.tuples(
        st.just(RESPONSES),
        KEYS.filter(lambda key: key is not None),
        st.builds(Response, HASHES, st.none() | st.sampled_from(["x", "y"]), st.none()),
        TIMES,
    ),
    max_size=30,
)
CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=6)
KINDS = pytest.mark.parametrize("kind", ["inner", "left"])


def hash_of(customer: str) -> bytes:
    return hash128(JSON.serialize({"customer": customer}))


def join(kind: str) -> FrozenTopology:
    builder = StreamsBuilder()
    orders = builder.table("orders", Consumed.with_(TEXT, JSON), Materialized.as_("orders").with_caching_disabled())
    customers = builder.table(
        "customers", Consumed.with_(TEXT, TEXT), Materialized.as_("customers").with_caching_disabled()
    )
    joined = {"inner": orders.join, "left": orders.left_join}[kind](
        customers,
        lambda order, customer: [order, customer],
        Materialized.as_("joined").with_value_serde(JSON).with_caching_disabled(),
        foreign_key_extractor=lambda order: order["customer"],
        table_joined=TableJoined.as_("fk"),
    )
    joined.to_stream().to("out", Produced.with_(TEXT, JSON))
    return builder.build()


def run(topology: FrozenTopology, rows: list[tuple[str, Any, Any, int]], sizes: list[int]) -> Any:
    """What a sub-topology makes of rows, in the order of their processing, in batches of the given sizes."""
    with TopologyTestDriver(topology, SETTINGS) as driver:
        (inputs,) = (part.input_topics(APPLICATION) for part in topology.sub_topologies)
        topics = {name: driver.create_input_topic(name, TEXT, SERDES[name]) for name in inputs}
        start, turn = 0, 0
        while start < len(rows):
            batch = rows[start : start + sizes[turn % len(sizes)]]
            driver.pipe_batch([(topics[name], TestRecord(key, value, time)) for name, key, value, time in batch])
            start, turn = start + len(batch), turn + 1
        outputs = {
            name: [
                (record.key, record.value, record.timestamp)
                for record in driver.create_output_topic(name, BytesSerde(), BytesSerde()).read_records()
            ]
            for name in sorted(driver.produced_topic_names() - set(driver.changelogs))
        }
        stores = {
            spec.name: list(driver.key_value_store(spec.name).entries())
            for part in topology.sub_topologies
            for spec in part.stores
        }
        return outputs, stores, dict(driver.dropped)


def side(kind: str, number: int) -> FrozenTopology:
    topology = join(kind)
    return replace(topology, sub_topologies=(topology.sub_topologies[number],))


def in_order(rows: list[Any]) -> list[Any]:
    """Every cut then merges them in this order: timestamps ascend, and ties go by topic."""
    return sorted(rows, key=lambda row: (row[3], row[0]))


@KINDS
@settings(max_examples=50, deadline=None)
@given(rows=FOREIGN_SIDE, sizes=CUTS)
def test_the_foreign_side_answers_alike_however_its_input_is_cut(kind: str, rows: list[Any], sizes: list[int]) -> None:
    topology, ordered = side(kind, 1), in_order(rows)
    assert run(topology, ordered, sizes) == run(topology, ordered, [1])


@KINDS
@settings(max_examples=50, deadline=None)
@given(rows=PRIMARY_SIDE, sizes=CUTS)
def test_the_primary_side_joins_alike_however_its_input_is_cut(kind: str, rows: list[Any], sizes: list[int]) -> None:
    topology, ordered = side(kind, 0), in_order(rows)
    if kind == "inner":
        # What asks again does so once a batch: see the tests below.
        ordered = [row for row in ordered if not (isinstance(row[2], Response) and row[2].foreign_value is None)]
    assert run(topology, ordered, sizes) == run(topology, ordered, [1])


def subscriptions(outputs: dict[str, Any]) -> list[tuple[Any, Subscription, int]]:
    return [(key, SERDES[SUBSCRIPTIONS].deserialize(data), time) for key, data, time in outputs.get(SUBSCRIPTIONS, [])]


@pytest.mark.parametrize("sizes", [[1], [2, 9], [9]])
def test_an_inner_join_asks_again_where_the_end_of_a_result_comes_too_late(sizes: list[int]) -> None:
    """Without another answer the old result would stay: the new subscription gets none where there is no customer."""
    rows = [
        ("orders", "a", {"customer": "x"}, 1),
        ("orders", "a", None, 2),
        ("orders", "a", {"customer": "y"}, 3),
        (RESPONSES, "a", Response(None, None), 4),
    ]
    outputs, _, dropped = run(side("inner", 0), rows, sizes)
    assert dropped == {DropReason.STALE_RESPONSE: 1}
    key, asked, time = subscriptions(outputs)[-1]
    answer = Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE
    assert (key, asked, time) == (b"y", Subscription(hash_of("y"), answer, "a", 0), 3)
    assert len(subscriptions(outputs)) == 4


@pytest.mark.parametrize(
    ("kind", "response", "final"),
    [
        ("left", Response(None, None), {"customer": "y"}),
        ("inner", Response(None, "X"), {"customer": "y"}),
        ("inner", Response(hash_of("y"), None), {"customer": None}),
        ("inner", Response(hash_of("y"), None), None),
    ],
)
def test_nothing_asks_again_where_an_answer_comes_anyway(kind: str, response: Response, final: Any) -> None:
    rows = [("orders", "a", {"customer": "y"}, 1), ("orders", "a", final, 2), (RESPONSES, "a", response, 3)]
    with_response, without = (run(side(kind, 0), part, [1])[0] for part in (rows, rows[:2]))
    assert subscriptions(with_response) == subscriptions(without)


@pytest.mark.parametrize("final", [{"customer": None}, None], ids=["without a foreign key", "deleted"])
@pytest.mark.parametrize("sizes", [[1], [3], [2, 2]])
def test_the_result_of_a_row_that_has_none_any_more_goes_whenever_that_is_known(final: Any, sizes: list[int]) -> None:
    """The end came with the hash of a value that the row has lost meanwhile."""
    rows = [
        ("orders", "a", {"customer": "x"}, 1),
        ("orders", "a", final, 2),
        (RESPONSES, "a", Response(hash_of("gone"), None), 3),
    ]
    outputs, _, _ = run(side("inner", 0), rows, sizes)
    assert outputs["out"] == [(b"a", None, 3)]


def test_a_row_that_changes_further_within_the_batch_asks_again_as_it_is_then() -> None:
    rows = [
        ("orders", "a", {"customer": "x"}, 1),
        (RESPONSES, "a", Response(None, None), 2),
        (RESPONSES, "a", Response(None, None), 3),
        ("orders", "a", {"customer": "y"}, 4),
    ]
    outputs, _, _ = run(side("inner", 0), rows, [4])
    assert [(key, each.instruction, each.hash) for key, each, _ in subscriptions(outputs)] == [
        (b"x", Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, hash_of("x")),
        (b"x", Instruction.DELETE_KEY_NO_PROPAGATE, hash_of("y")),
        (b"y", Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, hash_of("y")),
        (b"y", Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, hash_of("y")),
    ]


@KINDS
def test_what_a_batch_replaces_leaves_no_result_behind(kind: str) -> None:
    with TopologyTestDriver(join(kind), SETTINGS) as driver:
        orders = driver.create_input_topic("orders", TEXT, JSON)
        driver.create_input_topic("customers", TEXT, TEXT).pipe_input("x", "X", 0)
        orders.pipe_input("a", {"customer": "x"}, 1)
        orders.pipe_batch([TestRecord("a", None, 2), TestRecord("a", {"customer": "y"}, 3)])
        left = {"a": [{"customer": "y"}, None]} if kind == "left" else {}
        assert driver.key_value_store("joined").all() == left


def test_without_settling_the_old_result_stays_as_in_kafka_streams() -> None:
    settings = {**SETTINGS, "foreign.key.join.settles": False}
    with TopologyTestDriver(join("inner"), settings) as driver:
        driver.create_input_topic("customers", TEXT, TEXT).pipe_input("x", "X", 0)
        orders = driver.create_input_topic("orders", TEXT, JSON)
        orders.pipe_input("a", {"customer": "x"}, 1)
        orders.pipe_batch([TestRecord("a", None, 2), TestRecord("a", {"customer": "y"}, 3)])
        assert driver.key_value_store("joined").all() == {"a": [{"customer": "x"}, "X"]}
