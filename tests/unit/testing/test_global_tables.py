"""Global tables: what real users met, and what parity with Kafka Streams does not reach."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.dsl import Consumed, GlobalKTable, KStream, Materialized, Produced, StoreBackend, StreamsBuilder
from millrace.errors import SerializationError, StateError
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.state.read_only import ReadOnlyKeyValueStore
from millrace.testing import TestRecord, TopologyTestDriver

TEXT, LONG, JSON = StringSerde(), LongSerde(), JsonSerde()
TYPED = JsonSerde(schema=pa.schema([("ref", pa.string())]))
CONTINUE = {"default.deserialization.exception.handler": "continue"}


def ref(key: Any, value: Any) -> Any:
    return value["ref"]


def joined(value: Any, row: Any) -> str:
    return f"{value['ref']} + {row}"


def enrichment(
    kind: str, selector: Any = ref, serde: Any = JSON, materialized: Materialized | None = None
) -> StreamsBuilder:
    builder = StreamsBuilder()
    table = builder.global_table("global", Consumed.with_(TEXT, TEXT), materialized)
    stream = builder.stream("stream", Consumed.with_(TEXT, serde))
    join = stream.join if kind == "inner" else stream.left_join
    join(table, selector, joined).to("out", Produced.with_(TEXT, TEXT))
    return builder


def outputs(driver: TopologyTestDriver) -> list[tuple[Any, Any]]:
    return driver.create_output_topic("out", TEXT, TEXT).read_key_values()


@pytest.mark.parametrize("selector", [ref, pc.field("ref")], ids=["a callable", "an expression"])
@pytest.mark.parametrize("serde", [JSON, TYPED], ids=["objects", "columns"])
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_the_selected_key_counts_and_a_null_one_has_no_row(kind: str, serde: JsonSerde, selector: Any) -> None:
    """Case J07."""
    with TopologyTestDriver(enrichment(kind, selector, serde).build()) as driver:
        driver.create_input_topic("global", TEXT, TEXT).pipe_input("g1", "G1")
        driver.create_input_topic("stream", TEXT, JSON).pipe_batch(
            [
                TestRecord(None, {"ref": "g1"}, 1),
                TestRecord("s2", {"ref": None}, 2),
                TestRecord("s3", {"ref": "missing"}, 3),
            ]
        )
        expected: list[tuple[Any, Any]] = [(None, "g1 + G1")]
        if kind == "left":
            expected += [("s2", "None + None"), ("s3", "missing + None")]
        assert outputs(driver) == expected
        assert dict(driver.dropped) == ({} if kind == "left" else {DropReason.NULL_KEY: 1})


def test_records_of_a_global_topic_come_before_those_of_streams_in_one_batch() -> None:
    with TopologyTestDriver(enrichment("left").build()) as driver:
        stream = driver.create_input_topic("stream", TEXT, JSON)
        table = driver.create_input_topic("global", TEXT, TEXT)
        driver.pipe_batch(
            [
                (stream, TestRecord("s", {"ref": "g"}, 1)),
                (table, TestRecord("g", "first", 500)),
                (table, TestRecord("g", "last", 2)),
            ]
        )
        assert outputs(driver) == [("s", "g + last")]


@pytest.mark.parametrize("backend", StoreBackend)
def test_a_table_has_its_store_whatever_it_is_kept_in_and_no_changelog(backend: StoreBackend) -> None:
    materialized = Materialized.as_("rows").with_store_type(backend)
    with TopologyTestDriver(enrichment("inner", materialized=materialized).build()) as driver:
        table = driver.create_input_topic("global", TEXT, TEXT)
        table.pipe_input("a", "1", 10)
        table.pipe_input("b", "2", 20)
        table.pipe_input("a", None, 30)
        assert list(driver.key_value_store("rows").entries()) == [("b", "2", 20)]
        assert driver.produced_topic_names() == set()


def test_an_unreadable_row_is_dropped_and_sent_to_the_dead_letter_topic() -> None:
    builder = StreamsBuilder()
    table = builder.global_table("global", Consumed.with_(TEXT, LONG), Materialized.as_("rows"))
    stream: KStream = builder.stream("stream", Consumed.with_(TEXT, TEXT))
    stream.left_join(table, lambda key, value: value, lambda value, row: f"{value}:{row}").to(
        "out", Produced.with_(TEXT, TEXT)
    )
    settings = CONTINUE | {"errors.dead.letter.queue.topic.name": "dlq"}
    with TopologyTestDriver(builder.build(), settings) as driver:
        rows = driver.create_input_topic("global", TEXT, TEXT)
        rows.pipe_batch([TestRecord("a", "12345678", 1), TestRecord("a", "poison", 2), TestRecord("b", "12345678", 3)])
        driver.create_input_topic("stream", TEXT, TEXT).pipe_input("s", "a")
        number = LONG.deserialize(b"12345678")
        assert driver.key_value_store("rows").all() == {"a": number, "b": number}
        assert outputs(driver) == [("s", f"a:{number}")]
        assert dict(driver.dropped) == {DropReason.DESERIALIZATION: 1}
        (record,) = driver.create_output_topic("dlq", TEXT, TEXT).read_records()
        headers = dict(record.headers)
        assert (record.key, record.value) == ("a", "poison")
        assert headers["__streams.errors.topic"] == b"global"
        assert headers["__streams.errors.offset"] == b"1"


def test_an_unreadable_row_stops_the_application_by_default_and_changes_nothing() -> None:
    builder = StreamsBuilder()
    builder.global_table("global", Consumed.with_(TEXT, LONG), Materialized.as_("rows"))
    builder.stream("stream").to("out")
    with TopologyTestDriver(builder.build()) as driver:
        rows = driver.create_input_topic("global", TEXT, TEXT)
        with pytest.raises(
            SerializationError, match="of global store rows cannot read the record at global-0 offset 1"
        ):
            rows.pipe_batch([TestRecord("a", "12345678", 1), TestRecord("b", "poison", 2)])
        assert driver.key_value_store("rows").all() == {}


def test_a_global_table_may_stand_alone_beside_nothing_else() -> None:
    builder = StreamsBuilder()
    table: GlobalKTable = builder.global_table("global", Consumed.with_(TEXT, TEXT))
    assert table.queryable_store_name == "global-STATE-STORE-0000000000"
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("global", TEXT, TEXT).pipe_input("a", "1")
        assert driver.key_value_store("global-STATE-STORE-0000000000").all() == {"a": "1"}


def test_only_the_topic_writes_a_global_store() -> None:
    with TopologyTestDriver(enrichment("inner", materialized=Materialized.as_("rows")).build()) as driver:
        store = driver._global_stores["global"].store
        assert isinstance(store, ReadOnlyKeyValueStore)
        with pytest.raises(StateError, match="rows can only be read"):
            store.put_many([b"a"], [b"1"], pa.array([1]).to_numpy())
