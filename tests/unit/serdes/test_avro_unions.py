"""Case P07: a value read through a union is written to the branch that it was read from."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from millrace.avro_branches import branch_of
from millrace.dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes import AvroSerde, BytesSerde, JsonSerde, StringSerde
from millrace.serdes.times import python_values
from millrace.testing import TopologyTestDriver
from tests.unit.serdes.avro_encodings import schemas


def record(name: str, *fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields], **more}


CREATED, DELETED = record("Created", ("user", "string")), record("Deleted", ("user", "string"))
ENVELOPE = record("Envelope", ("id", "string"), ("event", [CREATED, DELETED]))
CREATION, DELETION = bytes.fromhex("0231000275"), bytes.fromhex("0231020275")
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
FIXED = {"type": "fixed", "name": "F", "size": 1}
OTHER_FIXED = {"type": "fixed", "name": "n.s.F", "size": 1}
TIME_MS, TIME_US = {"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}
MONEY = {"logicalType": "decimal", "precision": 2, "scale": 0}
AMBIGUOUS: list[tuple[Any, list[str]]] = [
    ([CREATED, DELETED], ["000275", "020275"]),
    (["null", record("a.T", ("x", "int")), record("b.T", ("x", "int"))], ["00", "0202", "0402"]),
    (["int", "long"], ["0002", "0202"]),
    (["float", "double"], ["000000803f", "02000000000000f03f"]),
    (["string", ENUM], ["000241", "0200"]),
    (["bytes", FIXED, OTHER_FIXED], ["000241", "0241", "0441"]),
    ([{"type": "map", "values": "string"}, CREATED], ["00020875736572027500", "020275"]),
    (
        [{"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}],
        ["0002", "02d00f"],
    ),
    ([{"type": "bytes", **MONEY}, {"type": "fixed", "name": "M", "size": 1, **MONEY}], ["000205", "0205"]),
    (["int", {"type": "long", "logicalType": "timestamp-nanos"}], ["0002", "0202"]),
    # Not Avro, since both are longs, but written.
    (
        [{"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"}],
        ["0002", "02d00f"],
    ),
    ([{"type": "int", "logicalType": "date"}, "string", ENUM], ["0002", "020241", "0400"]),
]


@pytest.mark.parametrize(("union", "written"), AMBIGUOUS)
@pytest.mark.parametrize("wrapped", ["alone", "record", "array", "map"])
def test_each_branch_comes_back_as_the_same_bytes(union: Any, written: list[str], wrapped: str) -> None:
    schema, begin, end = {
        "alone": (union, b"", b""),
        "record": (record("Outer", ("u", union), ("after", "int")), b"", b"\2"),
        "array": ({"type": "array", "items": union}, b"\2", b"\0"),
        "map": ({"type": "map", "values": union}, b"\2\2k", b"\0"),
    }[wrapped]
    serde = AvroSerde(schema)
    for each in written:
        data = begin + bytes.fromhex(each) + end
        value = serde.deserialize(data)
        for same in (
            value,
            copy.deepcopy(value),
            pickle.loads(pickle.dumps(value)),
            cloudpickle.loads(cloudpickle.dumps(value)),
        ):
            assert serde.serialize(same) == data


@pytest.mark.parametrize(("union", "written"), AMBIGUOUS)
def test_a_value_of_another_schema_s_union_keeps_the_branch_by_its_name(union: Any, written: list[str]) -> None:
    turned = union[::-1]
    for index, each in enumerate(written):
        value = AvroSerde(union).deserialize(bytes.fromhex(each))
        there = AvroSerde(turned).serialize(value)
        assert there == bytes([(len(turned) - 1 - index) * 2]) + bytes.fromhex(each)[1:]
        assert AvroSerde(union, writer_schema=turned).deserialize(there) == value
        assert AvroSerde(union).serialize(AvroSerde(union, writer_schema=turned).deserialize(there)) == bytes.fromhex(
            each
        )


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schemas(), st.data())
def test_what_any_schema_writes_is_written_again_as_it_was_read(made: Any, data: st.DataObject) -> None:
    schema, encodings = made
    serde = AvroSerde(schema)
    encoded = data.draw(st.lists(encodings, min_size=1, max_size=3))
    values = [serde.deserialize(each) for each in encoded]
    for each, value in zip(encoded, values, strict=True):
        assert serde.serialize(value) == each
        assert serde.serialize(pickle.loads(pickle.dumps(value))) == each
    if serde.arrow_type is not None:
        column = serde.deserialize_column(pa.array(encoded))
        # A null that stands alone is a null record in Kafka, as it is for Kafka Streams.
        present = [None if value is None else each for each, value in zip(encoded, values, strict=True)]
        assert serde.serialize_column(column).to_pylist() == present
        assert python_values(column) == values


def test_what_cannot_say_its_branch_is_not_written() -> None:
    serde = AvroSerde(ENVELOPE)
    with pytest.raises(SerializationError, match=r"event is .*could be Created and Deleted.*\('Created', value\)"):
        serde.serialize({"id": "1", "event": {"user": "u"}})
    for union, value in (
        (["int", "long"], 5),
        (["float", "double"], 0.5),
        (["string", ENUM], "A"),
        (["bytes", FIXED], b"A"),
    ):
        with pytest.raises(SerializationError, match="could be"):
            AvroSerde(union).serialize(value)


@pytest.mark.parametrize(
    ("union", "value", "written"),
    [
        (["int", "long"], 2**40, "02808080808040"),
        (["string", ENUM], "B", "000242"),
        (["bytes", FIXED], b"AB", "00044142"),
        (["null", "int", "double"], 5, "020a"),
        (["null", "int", "double"], 0.5, "04000000000000e03f"),
        (["int", {"type": "long", "logicalType": "timestamp-millis"}], 5, "000a"),
        (["int", {"type": "long", "logicalType": "timestamp-millis"}], datetime(1970, 1, 1, tzinfo=UTC), "0200"),
        ([{"type": "int", "logicalType": "date"}, "string"], "1970-01-02", "0214313937302d30312d3032"),
        ([CREATED, record("Paid", ("user", "string"), ("cents", "int"))], {"user": "u", "cents": 1}, "02027502"),
        ([record("Old", ("user", "string")), DELETED], ("Deleted", {"user": "u"}), "020275"),
        (["null", record("a.b.C", ("x", "int"))], {"x": 1}, "0202"),
        (["int", "long"], ("long", 5), "020a"),
        ([{"type": "bytes", **MONEY}, FIXED], Decimal(5), "000205"),
    ],
)
def test_what_only_one_branch_takes_best_is_written_to_it(union: Any, value: Any, written: str) -> None:
    assert AvroSerde(union).serialize(value) == bytes.fromhex(written)


def test_a_value_that_no_branch_takes_is_refused_with_the_branches() -> None:
    with pytest.raises(SerializationError, match="none of int, string"):
        AvroSerde(["int", "string"]).serialize(1.5)
    with pytest.raises(SerializationError, match=r"it\.user is 1, not a string"):
        AvroSerde([CREATED, DELETED]).serialize(("Created", {"user": 1}))


def test_a_union_in_a_union_and_a_branch_twice_are_refused() -> None:
    for schema in ([["int"], "string"], ["int", "int"], []):
        with pytest.raises(ConfigurationError, match="union"):
            AvroSerde(schema)


def test_a_value_that_carries_its_branch_is_a_plain_value_to_everything_else() -> None:
    serde = AvroSerde(ENVELOPE)
    created, deleted = (serde.deserialize(data)["event"] for data in (CREATION, DELETION))
    assert isinstance(deleted, dict)
    assert deleted == {"user": "u"}
    assert created != deleted
    assert JsonSerde().serialize(deleted) == b'{"user":"u"}'
    assert branch_of(deleted.copy()) == branch_of(copy.copy(deleted)) == branch_of(deleted | {"user": "v"}) == "Deleted"
    assert serde.serialize({"id": "1", "event": deleted | {"user": "v"}}) == bytes.fromhex("0231020276")
    number = AvroSerde(["float", "double"]).deserialize(bytes.fromhex("02000000000000f03f"))
    assert JsonSerde().serialize([number]) == b"[1.0]"
    assert number + 1 == 2.0
    assert branch_of(number + 1) is None


def test_a_record_that_was_renamed_is_read_into_the_branch_with_its_old_name_as_alias() -> None:
    renamed = [record("Made", ("user", "string")), record("shop.Gone", ("user", "string"), aliases=["Deleted"])]
    serde = AvroSerde(renamed, writer_schema=[CREATED, DELETED])
    value = serde.deserialize(bytes.fromhex("020275"))
    assert branch_of(value) == "shop.Gone"
    assert AvroSerde(renamed).serialize(value) == bytes.fromhex("020275")
    with pytest.raises(SerializationError, match=r"Created is none of Made, shop\.Gone"):
        serde.deserialize(bytes.fromhex("000275"))


def test_a_type_that_is_no_union_is_read_into_its_branch_of_one() -> None:
    serde = AvroSerde([CREATED, DELETED], writer_schema=DELETED)
    assert AvroSerde([CREATED, DELETED]).serialize(serde.deserialize(b"\x02u")) == b"\x02\x02u"
    assert AvroSerde(["string", "long", "double"], writer_schema="int").deserialize(b"\x02") == 1


@pytest.mark.parametrize("data", [b"\x01\x02a", b"\x03", b"\x04", b"\x05\x02a", b"\x7f"])
def test_a_branch_that_the_union_does_not_have_is_malformed(data: bytes) -> None:
    with pytest.raises(SerializationError, match="not Avro"):
        AvroSerde(["string", "long"]).deserialize(data)


AVRO = AvroSerde(ENVELOPE)


def _filtered(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", Consumed.with_(StringSerde(), AVRO))
    stream.filter(lambda k, v: True).to("out", Produced.with_(StringSerde(), AVRO))


def _stored(builder: StreamsBuilder) -> None:
    table = builder.table("in", Consumed.with_(StringSerde(), AVRO), Materialized.as_("store"))
    table.map_values(lambda k, v: v, Materialized.with_(StringSerde(), AVRO)).to_stream().to(
        "out", Produced.with_(StringSerde(), AVRO)
    )


def _reduced(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", Consumed.with_(StringSerde(), AVRO))
    grouped = stream.group_by(lambda k, v: k, Grouped.with_(StringSerde(), AVRO))
    grouped.reduce(lambda old, new: new, Materialized.with_(StringSerde(), AVRO)).to_stream().to(
        "out", Produced.with_(StringSerde(), AVRO)
    )


@pytest.mark.parametrize("through", [_filtered, _stored, _reduced])
def test_an_event_keeps_its_kind_through_filters_stores_changelogs_and_repartition_topics(
    through: Callable[[StreamsBuilder], None],
) -> None:
    builder = StreamsBuilder()
    through(builder)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", StringSerde(), BytesSerde())
        topic.pipe_input("a", CREATION, 1)
        topic.pipe_input("b", DELETION, 2)
        out = driver.create_output_topic("out", StringSerde(), BytesSerde()).read_key_values()
        changelogs = [record.value for records in driver.changelogs.values() for record in records]
    assert out == [("a", CREATION), ("b", DELETION)]
    assert all(CREATION in changelogs and DELETION in changelogs for _ in changelogs[:1])
