"""Cases P11 and P20: what a writer's schema wrote, as the reader's schema says, by Avro's specification."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millrace.avro_branches import branch_of
from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes import AvroSerde, BytesSerde, StringSerde
from millrace.serdes.times import python_values
from millrace.testing import TopologyTestDriver
from tests.unit.serdes.avro_encodings import bytes_bytes, long_bytes


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, *default: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **({"default": default[0]} if default else {}), **more}


ID = field("id", "int")
FIXED = {"type": "fixed", "name": "F", "size": 2}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
COLOR = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"], "default": "GREEN"}
INNER = record(field("n", "int"), field("note", "string", "none"), field("data", "bytes", "\u00ff"), name="Inner")


def read(writer: Any, reader: Any, data: bytes) -> Any:
    """The value of one record, which is the same in a column where there are columns."""
    serde = AvroSerde(reader, writer_schema=writer)
    value = serde.deserialize(data)
    if serde.arrow_type is not None:
        assert python_values(serde.deserialize_column(pa.array([data]))) == [value]
    return value


@pytest.mark.parametrize(
    ("kind", "default", "value", "written"),
    [
        ("null", None, None, b""),
        ("boolean", True, True, b"\1"),
        ("int", 5, 5, b"\n"),
        ("long", -5, -5, b"\t"),
        ("double", 5, 5.0, struct.pack("<d", 5)),
        ("double", "-Infinity", float("-inf"), struct.pack("<d", float("-inf"))),
        ("float", 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0], struct.pack("<f", 0.1)),
        ("string", "\u00ff", "\u00ff", b"\4\xc3\xbf"),
        ("bytes", "\u00ff\u0000", b"\xff\0", b"\4\xff\0"),
        (FIXED, "\u0001\u00fe", b"\x01\xfe", b"\x01\xfe"),
        (MONEY, "\u0001\u0000", Decimal("2.56"), b"\4\1\0"),
        (
            {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1},
            "\u00ff\u00ff",
            Decimal("-0.1"),
            b"\xff\xff",
        ),
        (COLOR, "RED", "RED", b"\0"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"], b"\2\2\xff\0"),
        (
            {"type": "array", "items": INNER},
            [{"n": 1}],
            [{"n": 1, "note": "none", "data": b"\xff"}],
            b"\2\2\x08none\2\xff\0",
        ),
        ({"type": "map", "values": FIXED}, {"k": "ab"}, {"k": b"ab"}, b"\2\2kab\0"),
        (INNER, {"n": 1, "note": "x"}, {"n": 1, "note": "x", "data": b"\xff"}, b"\2\2x\2\xff"),
        (["bytes", "string"], "\u00ff", b"\xff", b"\0\2\xff"),
        (["null", "bytes"], None, None, b"\0"),
        # Of the first branch until Avro 1.11, of the first that fits since 1.12.
        (["null", "bytes"], "\u00ff", b"\xff", b"\2\2\xff"),
        (["double", "int"], 5, 5.0, b"\0" + struct.pack("<d", 5)),
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**60, 2**60, long_bytes(2**60)),
        ({"type": "string", "logicalType": "no such"}, "x", "x", b"\2x"),
    ],
)
def test_a_field_that_the_writer_did_not_have_gets_its_default(
    kind: Any, default: Any, value: Any, written: bytes
) -> None:
    reader = record(ID, field("x", kind, default))
    got = read(record(ID), reader, b"\2")
    assert got == {"id": 1, "x": value}
    assert AvroSerde(reader).serialize(got) == b"\2" + written
    assert AvroSerde(reader).serialize({"id": 1}) == b"\2" + written


def test_the_fields_of_the_case_are_the_bytes_that_the_specification_says() -> None:
    reader = record(
        ID, field("b", "bytes", "\u00ff\u0000"), field("f", FIXED, "\u0001\u00fe"), field("paid", MONEY, "\u0001\u0000")
    )
    value = read(record(ID), reader, b"\2")
    assert value == {"id": 1, "b": b"\xff\0", "f": b"\1\xfe", "paid": Decimal("2.56")}
    paid = AvroSerde(record(ID, field("paid", MONEY)))
    assert paid.serialize({"id": value["id"], "paid": value["paid"]}) == bytes.fromhex("02040100")


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ({"type": "map", "values": "int"}, {}),
        ({"type": "array", "items": "int"}, []),
        (INNER, {"n": 1}),
        ([INNER, "null"], {"n": 1}),
    ],
)
def test_no_two_records_share_a_default_that_can_be_changed(kind: Any, default: Any) -> None:
    serde = AvroSerde(record(ID, field("x", kind, default)), writer_schema=record(ID))
    first, second = serde.deserialize(b"\2")["x"], serde.deserialize(b"\2")["x"]
    assert first is not second
    first.clear()
    assert serde.deserialize(b"\2")["x"] == second
    nested = AvroSerde(
        record(ID, field("o", record(field("x", kind, default), name="O"), {})), writer_schema=record(ID)
    )
    nested.deserialize(b"\2")["o"]["x"].clear()
    assert nested.deserialize(b"\2")["o"]["x"] == second


def test_a_default_of_a_union_of_records_is_of_its_first_branch_and_says_so() -> None:
    union = [record(field("user", "string"), name="Created"), record(field("user", "string"), name="Deleted")]
    reader = record(ID, field("event", union, {"user": "u"}))
    value = read(record(ID), reader, b"\2")
    assert branch_of(value["event"]) == "Created"
    assert AvroSerde(reader).serialize(value) == b"\2\0\2u"


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "0"),
        ("int", 2**31),
        ("int", 1.0),
        ("long", True),
        ("boolean", "false"),
        ("double", "0"),
        ("float", 1e39),
        ("string", 1),
        ("bytes", "\u0100"),
        (FIXED, "x"),
        (COLOR, "BLUE"),
        ({"type": "array", "items": "int"}, ["x"]),
        ({"type": "map", "values": "int"}, []),
        (INNER, {}),
        (INNER, {"n": 1, "unknown": 1}),
        (["null", "int"], "x"),
        (record(field("again", "R", {})), {}),
    ],
)
def test_a_default_of_the_application_s_own_that_is_not_of_its_type_is_refused(kind: Any, default: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not valid"):
        AvroSerde(record(ID, field("x", kind, default), name="Whole"))


def test_symbols_that_the_reader_does_not_have_become_its_default() -> None:
    newer = {**COLOR, "symbols": ["RED", "BLUE", "GREEN"]}
    for data, symbol in ((b"\0", "RED"), (b"\2", "GREEN"), (b"\4", "GREEN")):
        assert read(newer, COLOR, data) == symbol
        assert read({"type": "array", "items": newer}, {"type": "array", "items": COLOR}, b"\2" + data + b"\0") == [
            symbol
        ]
    without = {key: value for key, value in COLOR.items() if key != "default"}
    with pytest.raises(SerializationError, match="no symbol BLUE and no default"):
        read(newer, without, b"\2")
    with pytest.raises(SerializationError):
        AvroSerde(COLOR, writer_schema=newer).deserialize(b"\1")
    with pytest.raises(SerializationError):
        AvroSerde(COLOR).deserialize_column(pa.array([b"\1"]))


@pytest.mark.parametrize(
    "writer",
    [
        record(ID, field("at", "long", "0")),
        record(ID, field("paid", "boolean", "false")),
        record(ID, field("x", ["null", "int"], 5)),
        record(ID, field("x", INNER, 7)),
        record(ID, field("x", COLOR, 0)),
        record(ID, field("x", {"type": "array", "items": "int"}, {})),
        record(ID, field("x", FIXED, "too long")),
        record(ID, field("x", "int", "x", aliases="not a list", order=5, doc=7)),
        record(ID, field("x", "int"), aliases=[1], namespace=7),
        record(ID, field("1-odd name", "int"), name="R", namespace="odd-name.1"),
        record(ID, field("x", {"type": "enum", "name": "E-1", "symbols": ["1", "a b"], "default": "none"})),
        record(ID, field("x", {"type": "int", "logicalType": "no such"})),
        record(ID, field("x", {"type": "int", "logicalType": ["not", "text"]})),
        record(ID, field("x", {"type": "string", "logicalType": "date"})),
        record(ID, field("x", {"type": "bytes", "logicalType": "decimal"})),
        record(ID, field("x", {"type": "bytes", "logicalType": "decimal", "precision": "9", "scale": -1})),
        record(ID, field("x", {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5})),
        record(ID, field("x", {**FIXED, "logicalType": "decimal", "precision": 99})),
        record(ID, field("x", {**FIXED, "logicalType": "duration"})),
        record(ID, field("x", {"type": {"type": "string", "avro.java.string": "String"}})),
        record(ID, field("x", "array", items="int")),
        record(ID, field("x", INNER), field("y", INNER)),
    ],
)
def test_nothing_of_a_writer_s_schema_that_decoding_does_not_use_makes_a_record_unreadable(writer: Any) -> None:
    values = {"long": b"\x0e", "boolean": b"\1", "int": b"\2", "string": b"\2x", "bytes": b"\2x", "null": b""}

    def encoded(kind: Any) -> bytes:
        match kind:
            case str():
                return values[kind]
            case list():
                return b"\0" + encoded(kind[0])
            case {"type": "record", "fields": fields}:
                return b"".join(encoded(each if each["type"] == "array" else each["type"]) for each in fields)
            case {"type": "enum"}:
                return b"\2"
            case {"type": "fixed"}:
                return b"ab"
            case {"type": "array"}:
                return b"\2\2\0"
        return encoded(kind["type"])

    data = encoded(writer)
    assert read(writer, record(ID), data) == {"id": 1}
    builder = StreamsBuilder()
    serde = AvroSerde(record(ID), writer_schema=writer)
    builder.stream("in", Consumed.with_(StringSerde(), serde)).to("out", Produced.with_(StringSerde(), serde))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", StringSerde(), BytesSerde()).pipe_input("k", data, 1)
        assert driver.create_output_topic("out", StringSerde(), BytesSerde()).read_key_values() == [("k", b"\2")]


def test_a_logical_type_that_means_nothing_is_its_plain_type_for_the_application_too() -> None:
    for kind, value in (("string", "x"), ("int", 5)):
        serde = AvroSerde(record(field("x", {"type": kind, "logicalType": "no such"})))
        assert serde.arrow_type is not None
        assert serde.deserialize(serde.serialize({"x": value})) == {"x": value}
    with pytest.raises(ConfigurationError, match="precision"):
        AvroSerde({"type": "bytes", "logicalType": "decimal"})


@pytest.mark.parametrize(
    "schema", ["{", {"type": "record"}, {"type": "no such"}, {"type": "array"}, record(field("x", "Y"))]
)
def test_what_cannot_be_decoded_with_is_no_writer_s_schema(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="Avro schema"):
        AvroSerde("int", writer_schema=schema)


@pytest.mark.parametrize(
    ("writer", "reader", "data", "value"),
    [
        ("int", "long", b"\2", 1),
        ("int", "float", b"\2", 1.0),
        ("long", "double", long_bytes(2**53 + 1), 2.0**53),
        ("long", "float", long_bytes(2**24 + 1), 2.0**24),
        ("float", "double", struct.pack("<f", 0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("string", "bytes", b"\4\xc3\xbf", b"\xc3\xbf"),
        ("bytes", "string", b"\4\xc3\xbf", "\u00ff"),
        (["null", "int"], "long", b"\2\2", 1),
        ("int", ["null", "long"], b"\2", 1),
        (["int", "string"], ["null", "string", "double"], b"\0\2", 1.0),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, b"\2\2k\2\0", {"k": 1.0}),
        (record(ID, field("old", "int")), record(field("new", "long", aliases=["old"])), b"\2\4", {"new": 2}),
        (
            record(field("a", "int"), field("b", "int")),
            record(field("b", "int", aliases=["a"]), field("a", "int")),
            b"\2\4",
            {"b": 2, "a": 1},
        ),
        (record(ID, name="x.Old"), record(ID, name="y.New", aliases=["Old"]), b"\2", {"id": 1}),
        (record(ID, name="x.R"), record(ID, name="y.R"), b"\2", {"id": 1}),
        (MONEY, {**MONEY, "scale": 4}, b"\4\1\0", Decimal("2.5600")),
        ("bytes", MONEY, b"\4\1\0", Decimal("2.56")),
        (MONEY, "bytes", b"\4\1\0", b"\1\0"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", b"\2", 1),
    ],
)
def test_types_are_resolved_as_the_specification_says(writer: Any, reader: Any, data: bytes, value: Any) -> None:
    found = read(writer, reader, data)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("writer", "reader", "data"),
    [
        ("long", "int", b"\2"),
        ("string", "int", b"\2x"),
        (["null", "int"], "int", b"\0"),
        (["string", "int"], ["null", "int"], b"\0\2x"),
        (record(ID, name="A"), record(ID, name="B"), b"\2"),
        (record(ID, name="A"), ["null", record(ID, name="B")], b"\2"),
        (FIXED, {**FIXED, "size": 3}, b"ab"),
        (FIXED, {**FIXED, "name": "G"}, b"ab"),
        (record(ID), record(ID, field("x", "int")), b"\2"),
        ({"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}, b"\2"),
        (MONEY, {**MONEY, "scale": 1}, b"\4\0\1"),
    ],
)
def test_what_does_not_resolve_is_refused_with_a_remedy(writer: Any, reader: Any, data: bytes) -> None:
    with pytest.raises(SerializationError, match=r"cannot be read with the reader's.*Remedy"):
        AvroSerde(reader, writer_schema=writer).deserialize(data)


def test_a_time_in_another_unit_is_the_same_time_or_refused() -> None:
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    value = read(micros, millis, long_bytes(5_000))
    assert value == AvroSerde(millis).deserialize(long_bytes(5))
    assert read(millis, micros, long_bytes(5)) == value
    for writer, reader, number in ((micros, millis, 5_001), (millis, micros, 2**60)):
        with pytest.raises(SerializationError, match="not a whole"):
            AvroSerde(reader, writer_schema=writer).deserialize(long_bytes(number))
        with pytest.raises(SerializationError, match="not a whole"):
            AvroSerde(reader, writer_schema=writer).deserialize_column(pa.array([long_bytes(number)]))


def test_names_are_found_in_their_namespaces() -> None:
    inner = record(ID, name="In")
    schema = record(
        field("x", inner), field("y", "In"), field("z", "a.b.In"), field("v", ["null", "In"]), name="a.b.Out"
    )
    serde = AvroSerde(schema)
    data = b"\2\4\6\2\x08"
    assert serde.deserialize(data) == {"x": {"id": 1}, "y": {"id": 2}, "z": {"id": 3}, "v": {"id": 4}}
    assert serde.serialize(serde.deserialize(data)) == data
    with pytest.raises(ConfigurationError, match=r"a\.b\.In is defined twice"):
        AvroSerde(record(field("x", inner), field("y", inner), name="a.b.Out"))


def test_recursive_types_are_resolved_at_every_depth() -> None:
    reader = record(field("s", "string"), field("i", ["null", "In"]), name="In", namespace="c")
    writer = record(field("i", ["null", "In"]), field("s", "string"), field("n", "int"), name="In")
    data = b"\2\0" + bytes_bytes(b"x") + b"\2" + bytes_bytes(b"y") + b"\4"
    assert read(writer, reader, data) == {"s": "y", "i": {"s": "x", "i": None}}
