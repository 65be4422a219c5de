from __future__ import annotations

import json
import math
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes import AvroSerde, Serde, topic_record_subject, topic_subject

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": ["double", "null"]},
        {"name": "y", "type": "bytes"},
        {"name": "s", "type": {"type": "string"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "e2", "type": ["null", "E"]},
        {"name": "x", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "a", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "r", "type": {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}},
        {"name": "r2", "type": ["null", "Inner"]},
    ],
}
_ints = st.integers(-(2**31), 2**31 - 1)
_longs = st.integers(-(2**63), 2**63 - 1)
_inner = st.fixed_dictionaries({"n": _ints})
_times = st.integers(-(2**40), 2**42)
_everything = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": _ints,
        "l": st.none() | _longs,
        "f": st.floats(width=32, allow_nan=False),
        "d": st.none() | st.floats(allow_nan=False),
        "y": st.binary(max_size=4),
        "s": st.text(max_size=4),
        "e": st.sampled_from("AB"),
        "e2": st.none() | st.sampled_from("AB"),
        "x": st.binary(min_size=2, max_size=2),
        "a": st.lists(st.none() | _ints, max_size=3),
        "at": _times.map(lambda ms: datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)),
        "us": st.none() | _times.map(lambda ms: datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=7)),
        "day": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
        "r": _inner,
        "r2": st.none() | _inner,
    }
)


def test_the_bytes_are_avro_s() -> None:
    serde = AvroSerde(ORDER)
    assert isinstance(serde, Serde)
    data = serde.serialize({"id": "ab", "cents": -3, "note": "x"})
    assert data == b"\x04ab\x05\x02\x02x"
    assert serde.deserialize(data) == {"id": "ab", "cents": -3, "note": "x"}
    assert AvroSerde("long").serialize(64) == b"\x80\x01"


def test_missing_fields_take_their_defaults() -> None:
    serde = AvroSerde(ORDER)
    assert serde.deserialize(serde.serialize({"id": "a", "cents": 1})) == {"id": "a", "cents": 1, "note": None}


@given(rows=st.lists(st.none() | _everything, max_size=4), skipped=st.integers(0, 2))
def test_columns_and_single_values_agree_both_ways(rows: list[Any], skipped: int) -> None:
    serde = AvroSerde(EVERYTHING)
    single = [None if row is None else serde.serialize(row) for row in rows][skipped:]
    column = pa.array(rows, serde.arrow_type)[skipped:]
    assert serde.serialize_column(column).to_pylist() == single
    read = serde.deserialize_column(pa.array(single, pa.binary()))
    assert read.equals(column)
    assert read.to_pylist() == rows[skipped:]
    assert [None if data is None else serde.deserialize(data) for data in single] == rows[skipped:]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "map", "values": "int"},
        ["null", "int", "string"],
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        {"type": "string", "logicalType": "uuid"},
        {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]},
        {"type": "record", "name": "N", "fields": []},
        {"type": "record", "name": "M", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]},
        "null",
    ],
)
def test_what_arrow_would_change_has_no_columns(schema: Any) -> None:
    serde = AvroSerde(schema)
    assert serde.arrow_type is None
    with pytest.raises(SerializationError, match="no columns"):
        serde.serialize_column(pa.array([1]))
    with pytest.raises(SerializationError, match="no columns"):
        serde.deserialize_column(pa.array([b"x"]))


def test_values_without_columns_go_both_ways() -> None:
    decimal = AvroSerde({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2})
    assert decimal.deserialize(decimal.serialize(Decimal("12.34"))) == Decimal("12.34")
    tree = AvroSerde({"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]})
    assert tree.deserialize(tree.serialize({"next": {"next": None}})) == {"next": {"next": None}}
    mapping = AvroSerde({"type": "map", "values": "int"})
    assert mapping.deserialize(mapping.serialize({"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"cents": 1.5},
        {"cents": True},
        {"cents": 2**63},
        {"cents": "1"},
        {"cents": None},
        {"id": b"x"},
        {"id": None},
        {"note": 1},
        {"unknown": 1},
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_a_remedy(change: dict[str, Any]) -> None:
    with pytest.raises(SerializationError, match=r"does not fit the Avro schema.*Remedy"):
        AvroSerde(ORDER).serialize({"id": "a", "cents": 1, **change})


def test_other_misfits_are_refused_too() -> None:
    for schema, value in (("int", 2**31), ("int", 1.0), ("float", "x"), ("boolean", 1), (ORDER, [1]), (ORDER, {})):
        with pytest.raises(SerializationError):
            AvroSerde(schema).serialize(value)
    enum = AvroSerde({"type": "enum", "name": "E", "symbols": ["A"]})
    with pytest.raises(SerializationError):
        enum.serialize("B")
    with pytest.raises(SerializationError):
        enum.serialize_column(pa.array(["B"]))
    with pytest.raises(SerializationError):
        AvroSerde(ORDER).serialize_column(pa.array([{"id": "a"}]))
    with pytest.raises(SerializationError, match="unknown"):
        AvroSerde(ORDER).serialize_column(pa.array([{"id": "a", "cents": 1, "unknown": 1}]))


@pytest.mark.parametrize(
    "data", [b"", b"\x04a", b"\x04ab\x05\x04", b"\x02\xff\x05\x00", b"\x04ab\x05\x00more", b"\x03"]
)
def test_malformed_bytes_are_an_error_alone_and_in_a_column(data: bytes) -> None:
    serde = AvroSerde(ORDER)
    with pytest.raises(SerializationError, match="not Avro of the writer's schema"):
        serde.deserialize(data)
    with pytest.raises(SerializationError):
        serde.deserialize_column(pa.array([None, data], pa.binary()))


def test_the_writer_s_schema_is_resolved_to_the_reader_s() -> None:
    older = {**ORDER, "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "int"}]}
    serde = AvroSerde(ORDER, writer_schema=older)
    data = AvroSerde(older).serialize({"id": "a", "cents": 5})
    assert serde.deserialize(data) == {"id": "a", "cents": 5, "note": None}
    assert serde.deserialize_column(pa.array([data])).to_pylist() == [{"id": "a", "cents": 5, "note": None}]


def test_schemas_that_do_not_resolve_are_an_error_with_a_remedy() -> None:
    older = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    data = AvroSerde(older).serialize({"id": "a"})
    with pytest.raises(SerializationError, match=r"cannot be read with the reader's.*cents.*default"):
        AvroSerde(ORDER, writer_schema=older).deserialize(data)


@pytest.mark.parametrize(
    "schema",
    ["{", {"type": "record"}, {"type": "no such type"}, "no such type", {"type": {1, 2}}, {"fields": []}],
)
def test_what_is_no_schema_is_refused_when_the_serde_is_made(schema: Any) -> None:
    with pytest.raises(ConfigurationError):
        AvroSerde(schema)
    with pytest.raises(ConfigurationError):
        AvroSerde("int", writer_schema=schema)


def test_a_schema_is_the_same_as_text_and_as_a_dict() -> None:
    serde = AvroSerde(json.dumps(ORDER))
    assert serde == AvroSerde(ORDER)
    assert hash(serde) == hash(AvroSerde(ORDER))
    assert AvroSerde("string") == AvroSerde('"string"')
    assert serde != AvroSerde("string")


@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_the_serde_survives_pickling_after_use(pickler: Any) -> None:
    serde = AvroSerde(ORDER)
    data = serde.serialize({"id": "a", "cents": 1})
    pickled = pickler.dumps(serde)
    copy = pickler.loads(pickled)
    assert copy == serde
    assert copy.deserialize(data) == serde.deserialize(data)
    assert b"fastavro" not in pickled


def test_a_serde_with_a_registry_is_made_and_pickled_without_asking_it() -> None:
    serde = AvroSerde(ORDER, registry_url="http://127.0.0.1:1/", registry_settings={"basic.auth.user.info": "a:secret"})
    assert pickle.loads(pickle.dumps(serde)) == serde
    assert serde.subject == "shop.Order"
    assert serde.arrow_type is not None
    assert "secret" not in repr(serde)


def test_subjects_are_named_as_confluent_names_them() -> None:
    assert topic_subject("orders") == "orders-value"
    assert topic_subject("orders", is_key=True) == "orders-key"
    assert topic_record_subject("orders", "shop.Order") == "orders-shop.Order"


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        (ORDER, {"subject": "x"}, "need a schema registry"),
        (ORDER, {"registry_settings": {"timeout": 1}}, "need a schema registry"),
        (ORDER, {"registry_url": "http://x", "writer_schema": "int"}, "comes from there"),
        ("string", {"registry_url": "http://x"}, "no name that could be its subject"),
        ("bytes", {"registry_url": "http://x", "subject": "x"}, "BytesSerde"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(schema: Any, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        AvroSerde(schema, **arguments)


def test_nan_and_infinities_are_kept() -> None:
    serde = AvroSerde("double")
    assert math.isnan(serde.deserialize(serde.serialize(math.nan)))
    assert serde.deserialize(serde.serialize(math.inf)) == math.inf
