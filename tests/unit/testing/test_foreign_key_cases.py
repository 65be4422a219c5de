"""Joins by a foreign key: what real users met, and what parity with Kafka Streams does not reach."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.dsl import Consumed, KTable, Materialized, Produced, StreamsBuilder, TableJoined
from millrace.errors import ProcessingError, SerializationError, TopologyError
from millrace.metrics import DropReason
from millrace.serdes import BytesSerde, JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT, JSON = StringSerde(), JsonSerde()
TYPED = JsonSerde(schema=pa.schema([("fk", pa.string()), ("v", pa.string())]))
EXTRACTORS: dict[str, Any] = {
    "by value": lambda row: row["fk"],
    "by key and value": lambda key, row: row["fk"],
    "an expression": pc.field("fk"),
}
NAMED = TableJoined.as_("fk")
KINDS = pytest.mark.parametrize("kind", ["inner", "left"])


def joined_value(left: Any, right: Any) -> str:
    return f"{left['v']}+{right}"


def tables(builder: StreamsBuilder, *, caching: bool = False, left_serde: Any = JSON) -> tuple[KTable, KTable]:
    def store(name: str) -> Materialized:
        options = Materialized.as_(name)
        return options.with_caching_enabled() if caching else options.with_caching_disabled()

    left = builder.table("left", Consumed.with_(TEXT, left_serde), store("left"))
    return left, builder.table("right", Consumed.with_(TEXT, TEXT), store("right"))


def topology(
    kind: str,
    extractor: Any = EXTRACTORS["by value"],
    *,
    options: TableJoined | None = NAMED,
    joiner: Any = joined_value,
    **kept: Any,
) -> FrozenTopology:
    builder = StreamsBuilder()
    left, right = tables(builder, **kept)
    join = {"inner": left.join, "left": left.left_join}[kind]
    result = join(
        right,
        joiner,
        Materialized.as_("joined").with_value_serde(TEXT),
        foreign_key_extractor=extractor,
        table_joined=options,
    )
    result.to_stream().to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


class Run:
    """A driver with its topics."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self.driver = driver
        self.left = driver.create_input_topic("left", TEXT, JSON)
        self.right = driver.create_input_topic("right", TEXT, TEXT)

    def outputs(self) -> list[tuple[Any, Any]]:
        return self.driver.create_output_topic("out", TEXT, TEXT).read_key_values()


def row(fk: str | None, v: str) -> dict[str, str | None]:
    return {"fk": fk, "v": v}


@pytest.mark.parametrize("caching", [False, True], ids=["without cache", "with cache"])
@pytest.mark.parametrize(
    ("extractor", "serde"),
    [
        *((name, serde) for name in ("by value", "by key and value") for serde in (JSON, TYPED)),
        ("an expression", TYPED),
    ],
)
def test_a_foreign_key_that_goes_null_and_comes_back(extractor: str, serde: Any, caching: bool) -> None:
    """Case J09."""
    built = topology("inner", EXTRACTORS[extractor], left_serde=serde, caching=caching)
    with TopologyTestDriver(built) as driver:
        run = Run(driver)
        run.right.pipe_input("f1", "R1", 0)
        run.left.pipe_input("p1", row(None, "a"), 1)
        run.left.pipe_input("p1", row("f1", "b"), 2)
        run.left.pipe_input("p1", row(None, "c"), 3)
        run.left.pipe_input("p1", row("f1", "d"), 4)
        run.left.pipe_input("p1", None, 5)
        assert run.outputs() == [("p1", "b+R1"), ("p1", None), ("p1", "d+R1"), ("p1", None)]
        assert driver.key_value_store("joined").all() == {}
        assert driver.dropped == {DropReason.NULL_KEY: 2}


@pytest.mark.parametrize(
    ("change", "deletions"),
    [(row("f2", "b"), 1), (row(None, "b"), 1), (None, 1), (row("f1", "b"), 0)],
    ids=["another key", "no key", "deleted", "the same key"],
)
def test_an_inner_join_deletes_what_it_never_sent(change: Any, deletions: int) -> None:
    """What surprises in Kafka Streams, 8: a change of key or a deletion sends a tombstone in any case."""
    with TopologyTestDriver(topology("inner")) as driver:
        run = Run(driver)
        run.left.pipe_input("p1", row("f1", "a"), 1)
        assert run.outputs() == []
        run.left.pipe_input("p1", change, 2)
        assert run.outputs() == [("p1", None)] * deletions


@KINDS
def test_null_keys_of_both_tables_are_dropped_and_counted(kind: str) -> None:
    with TopologyTestDriver(topology(kind)) as driver:
        run = Run(driver)
        run.left.pipe_input(None, row("f1", "a"), 1)
        run.right.pipe_input(None, "R", 1)
        assert (run.outputs(), dict(driver.dropped)) == ([], {DropReason.NULL_KEY: 2})


def test_a_changed_foreign_row_reaches_its_rows_in_the_order_of_their_keys_and_no_others() -> None:
    with TopologyTestDriver(topology("inner")) as driver:
        run = Run(driver)
        for key, fk in (("p2", "f"), ("p10", "f"), ("p1", "f"), ("p3", "ff"), ("p4", "")):
            run.left.pipe_input(key, row(fk, key), 1)
        run.right.pipe_input("f", "R", 2)
        assert run.outputs() == [("p1", "p1+R"), ("p10", "p10+R"), ("p2", "p2+R")]


@KINDS
def test_headers_of_the_change_that_led_to_a_result_go_with_it(kind: str) -> None:
    with TopologyTestDriver(topology(kind)) as driver:
        run = Run(driver)
        run.right.pipe_input("f1", "R1", 0, [("of", b"right")])
        run.left.pipe_input("p1", row("f1", "a"), 1, [("of", b"left")])
        run.right.pipe_input("f1", "R2", 2, [("of", b"right again")])
        records = driver.create_output_topic("out", TEXT, TEXT).read_records()
        assert [record.headers for record in records] == [[("of", b"left")], [("of", b"right again")]]


def test_updates_of_a_row_within_a_cached_batch_are_one_change_of_its_foreign_key() -> None:
    with TopologyTestDriver(topology("inner", caching=True)) as driver:
        run = Run(driver)
        run.right.pipe_batch([TestRecord("f1", "R1", 0), TestRecord("f3", "R3", 0)])
        run.left.pipe_input("p1", row("f1", "a"), 1)
        run.left.pipe_batch([TestRecord("p1", row(fk, "b"), 2) for fk in ("f2", "f3", "f1", "f3")])
        assert run.outputs() == [("p1", "a+R1"), ("p1", "b+R3")]
        assert [key.foreign_key for key in driver.key_value_store("fk-subscription-store").all()] == ["f3"]


def test_a_joiner_that_raises_costs_its_row_only() -> None:
    def joiner(left: Any, right: Any) -> str:
        if left["v"] == "bad":
            raise ValueError("bad")
        return joined_value(left, right)

    built = topology("inner", joiner=joiner)
    with TopologyTestDriver(built, {"processing.exception.handler": "continue"}) as driver:
        run = Run(driver)
        run.left.pipe_batch([TestRecord(f"p{v}", row("f1", v), 1) for v in ("a", "bad", "c")])
        run.right.pipe_input("f1", "R", 2)
        assert run.outputs() == [("pa", "a+R"), ("pc", "c+R")]
        assert driver.dropped == {DropReason.PROCESSING: 1}
    with TopologyTestDriver(built) as driver:
        run = Run(driver)
        run.right.pipe_input("f1", "R", 2)
        with pytest.raises(ProcessingError, match="fk-subscription-response-resolver"):
            run.left.pipe_input("p", row("f1", "bad"), 3)


def test_what_another_version_wrote_to_the_join_s_topic_is_refused() -> None:
    with TopologyTestDriver(topology("inner"), {"application.id": "app"}) as driver:
        internal = driver.create_input_topic("app-fk-subscription-registration-topic", TEXT, TEXT)
        with pytest.raises(SerializationError, match="version 2"):
            internal.pipe_input("f1", "\x02\x03" + "h" * 16 + "pk" + "\0" * 4)


def test_internal_topics_take_the_partitions_that_the_partitioners_choose() -> None:
    asked: list[tuple[str, Any, Any, int]] = []

    def partitioner(topic: str, key: Any, value: Any, partitions: int) -> int:
        asked.append((topic, key, value, partitions))
        return 0

    options = NAMED.with_partitioner(partitioner).with_other_partitioner(partitioner)
    with TopologyTestDriver(topology("left", options=options), {"application.id": "app"}) as driver:
        Run(driver).left.pipe_batch([TestRecord("p1", row("f1", "a")), TestRecord("p2", row(None, "b"))])
    assert asked == [
        ("app-fk-subscription-registration-topic", "f1", None, 1),
        ("app-fk-subscription-registration-topic", None, None, 1),
        ("app-fk-subscription-response-topic", "p1", None, 1),
        ("app-fk-subscription-response-topic", "p2", None, 1),
    ]


def test_a_subscription_of_an_older_version_is_answered_by_the_hash_of_its_key() -> None:
    from millrace.serdes.subscriptions import Response
    from millrace.topology.foreign_key_join import PartitionedAsPrimary

    partitioner = pickle.loads(pickle.dumps(PartitionedAsPrimary()))
    assert partitioner("topic", "key", Response(None, None, None), 4) is None
    assert partitioner("topic", "key", Response(None, None, 3), 4) == 3


def test_the_result_is_stored_where_it_is_named_or_read() -> None:
    def stores(materialized: Materialized | None, *, read: bool) -> set[str]:
        builder = StreamsBuilder()
        left, right = tables(builder)
        result = left.join(right, joined_value, materialized, foreign_key_extractor=EXTRACTORS["by value"])
        if read:
            builder.stream("clicks").join(result, lambda click, _: click).to("out")
        return {store.name for part in builder.build().sub_topologies for store in part.stores} - {"left", "right"}

    subscriptions, generated = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000008", "KTABLE-FK-JOIN-OUTPUT-STATE-STORE"
    assert stores(None, read=False) == stores(Materialized.with_(TEXT, TEXT), read=False) == {subscriptions}
    assert stores(None, read=True) == {subscriptions, f"{generated}-0000000017"}
    assert stores(Materialized.as_("result"), read=False) == {subscriptions, "result"}


def test_a_result_without_a_name_cannot_be_queried() -> None:
    left, right = tables(StreamsBuilder())
    by = EXTRACTORS["by value"]
    assert left.join(right, joined_value, foreign_key_extractor=by).queryable_store_name is None
    named = left.join(right, joined_value, Materialized.as_("result"), foreign_key_extractor=by)
    assert named.queryable_store_name == "result"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"foreign_key_extractor": "fk"}, "not callable"),
        ({"foreign_key_extractor": lambda: None}, r"neither \(value\) nor \(key, value\)"),
        ({"foreign_key_extractor": lambda row: row, "named": "fk"}, "not named by named="),
        ({"table_joined": NAMED}, "TableJoined is for joins by a foreign key"),
    ],
)
@KINDS
def test_options_that_do_not_fit_are_refused(kind: str, options: dict[str, Any], message: str) -> None:
    left, right = tables(StreamsBuilder())
    with pytest.raises(TopologyError, match=message):
        {"inner": left.join, "left": left.left_join}[kind](right, joined_value, **options)


def test_tables_of_two_builders_and_joiners_that_do_not_fit_are_refused() -> None:
    left, right = tables(StreamsBuilder())
    other, _ = tables(StreamsBuilder())
    with pytest.raises(TopologyError, match="different StreamsBuilders"):
        left.join(other, joined_value, foreign_key_extractor=lambda row: row)
    with pytest.raises(TopologyError, match="joiner"):
        left.join(right, str.upper, foreign_key_extractor=lambda row: row)  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="partitioner"):
        TableJoined.with_(other_partitioner=lambda key: 0)  # type: ignore[misc, arg-type]


def test_two_joins_of_one_name_are_refused() -> None:
    left, right = tables(StreamsBuilder())
    left.join(right, joined_value, foreign_key_extractor=lambda row: row, table_joined=NAMED)
    with pytest.raises(TopologyError, match="Two nodes are named"):
        left.join(right, joined_value, foreign_key_extractor=lambda row: row, table_joined=NAMED)


def test_an_extractor_without_a_readable_signature_gets_the_value() -> None:
    builder = StreamsBuilder()
    left = builder.table("left", Consumed.with_(TEXT, TEXT))
    right = builder.table("right", Consumed.with_(TEXT, TEXT))
    left.join(right, lambda one, two: one + two, foreign_key_extractor=str).to_stream().to(
        "out", Produced.with_(TEXT, TEXT)
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("right", TEXT, TEXT).pipe_input("f", "R")
        driver.create_input_topic("left", TEXT, TEXT).pipe_input("p", "f")
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("p", "fR")]


def test_a_table_whose_value_serde_is_unknown_says_so() -> None:
    builder = StreamsBuilder()
    left, right = tables(builder)
    mapped = left.map_values(lambda key, value: value)
    mapped.join(right, joined_value, foreign_key_extractor=EXTRACTORS["by value"], table_joined=NAMED)
    with pytest.raises(TopologyError, match=r"Node fk-subscription-registration-processor has no value serde"):
        TopologyTestDriver(builder.build())


def test_a_row_that_its_table_s_serde_cannot_write_says_so() -> None:
    builder = StreamsBuilder()
    left, right = tables(builder)
    mapped = left.map_values(lambda key, value: value, Materialized.with_(TEXT, BytesSerde()))
    mapped.join(right, joined_value, foreign_key_extractor=EXTRACTORS["by value"], table_joined=NAMED)
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(SerializationError, match="cannot hash"):
        Run(driver).left.pipe_input("p1", row("f1", "a"))


def test_foreign_keys_of_another_type_than_the_table_s_keys_are_refused() -> None:
    builder = StreamsBuilder()
    left = builder.table("left", Consumed.with_(TEXT, JSON))
    right = builder.table("right", Consumed.with_(LongSerde(), TEXT))
    left.join(right, joined_value, foreign_key_extractor=EXTRACTORS["by value"])
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(ProcessingError, match=r"left-0 offset 0: SerializationError: .* cannot write a foreign key"),
    ):
        driver.create_input_topic("left", TEXT, JSON).pipe_input("p1", row("f1", "a"))
