from __future__ import annotations

import json
import math
import pickle
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes import JsonSerde
from millrace.serdes.json_columns import decode_objects

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("h", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.float64())),
        ("o", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])),
    ]
)
SERDE = JsonSerde(SCHEMA)
FLAT = JsonSerde(pa.schema([("i", pa.int64()), ("d", pa.float64()), ("s", pa.string()), ("b", pa.bool_())]))

FINE = b'{"i":1,"d":2.5,"s":"x"}'
POISON = [
    b"",
    b" ",
    b"null",
    b"1",
    b'"x"',
    b"[]",
    b'[{"i":1}]',
    b"{",
    b"}",
    b'{"i":1',
    b'{"i":1}{"i":2}',
    b'{"i":1},{"i":2}',
    b'{"i":1}\n{"i":2}',
    b'{"i":1} {"i":2}',
    b'{"i":1}x}',
    b'{"z":{"i":1}',
    b'{"i":1}\x00}',
    b"{}\x00{}",
    b'{"s":"a\nb"}',
    b'{"s":"\xff"}',
    b'{"z":"\xff"}',
    b'{"s":"\xed\xa0\x80"}',
    b'{"s":"\\ud800"}',
    b'{"z":"\\udc00"}',
    b'{"i":1.0}',
    b'{"i":1e2}',
    b'{"i":"1"}',
    b'{"i":true}',
    b'{"i":9223372036854775808}',
    b'{"h":2147483648}',
    b'{"d":"1"}',
    b'{"d":NaN}',
    b'{"d":Infinity}',
    b'{"d":-Inf}',
    b'{"z":NaN}',
    b'{"z":[-Infinity]}',
    b'{"z":[1, Inf ]}',
    b'{"d":1e400}',
    b'{"z":1e400}',
    b'{"d":1.7976931348623159e308}',
    b'{"z":1.7976931348623159E+308}',
    b'{"z":99999999999999999999e300}',
    b'{"d":' + b"9" * 400 + b"}",
    b'{"z":' + b"9" * 400 + b"}",
    b'{"z":-' + b"9" * 215 + b".5e99}",
    b'{"z":' + b"[" * 1_100 + b"]" * 1_100 + b"}",
    b'{"z":' + b'{"a":' * 1_100 + b"1" + b"}" * 1_100 + b"}",
    b'{"d":9007199254740993}',
    b'{"d":18446744073709551615}',
    b'{"d":18446744073709551616}',
    b'{"d":12345678901234567890123}',
    b'{"d":1e-400}',
    b'{"l":[0.1,0.12345678901234567890]}',
    b'{"s":1}',
    b'{"s":{}}',
    b'{"b":0}',
    b'{"b":"true"}',
    b'{"l":{}}',
    b'{"l":["x"]}',
    b'{"o":[]}',
    b'{"o":{"x":"1"}}',
    b'{"o":{"y":[{"z":1}]}}',
    b'{"i":01}',
    b'{"d":1.}',
    b'{"d":.5}',
    b'{"d":+1}',
    b'{"i":1,}',
    b"{'i':1}",
    b'{"i":/*c*/1}',
    b'\xef\xbb\xbf{"i":1}',
]
UNUSUAL_BUT_VALID = [
    b"{}",
    b' {"i":1} ',
    b'{\n  "i": 1,\n  "s": "two lines"\n}',
    b'\t{"i":1}',
    b'{"i":1,"i":2}',
    b'{"i":null,"i":2}',
    b'{"i":"x","i":2}',
    b'{"o":{"x":1,"x":2}}',
    b'{"z":1,"z":2}',
    b'{"i":-0,"d":-0}',
    b'{"d":-0.0}',
    b'{"l":[-0,1]}',
    b'{"d":9007199254740994}',
    b'{"z":12345678901234567890123}',
    b'{"z":1e-400}',
    b'{"d":1e22,"l":[1,2.5,null]}',
    b'{"i":-9223372036854775808,"h":-2147483648}',
    b'{"\\u0069":5}',
    b'{"s":"\\u0000\\ud83d\\ude00\\"\\\\\\/"}',
    b'{"s":"2024-01-01T00:00:00Z"}',
    b'{"s":"NaN","z":"Infinity -Inf"}',
    b'{"z":": NaN"}',
    b'{"z":"12e345","s":"3f2504e0-4f89-11d3-9a0c-0305e82c3301"}',
    b'{"z":[1,"a",{"b":null}],"i":1}',
    b'{"z":' + b"9" * 250 + b"}",
    b'{"z":' + b"[" * 900 + b"]" * 900 + b"}",
    b'{"o":{"x":null,"y":[null,{"z":"q"},{}]},"l":[]}',
    b'{"o":null,"l":null}',
    b'{"s":"\x7f\xc3\xa9"}',
    b'{"":1}',
]


def one_by_one(serde: JsonSerde, values: Sequence[bytes | None]) -> list[Any] | None:
    try:
        return [None if value is None else serde.deserialize(value) for value in values]
    except SerializationError:
        return None


def as_a_column(serde: JsonSerde, values: Sequence[bytes | None]) -> list[Any] | None:
    try:
        column = serde.deserialize_column(pa.array(values, pa.binary()))
    except SerializationError:
        return None
    assert column.type.equals(serde.arrow_type)
    column.validate(full=True)
    return list(column.to_pylist())


def assert_same(serde: JsonSerde, values: Sequence[bytes | None]) -> None:
    # repr tells 0.0 from -0.0 and 1 from 1.0 and from True.
    assert repr(as_a_column(serde, values)) == repr(one_by_one(serde, values))


@pytest.mark.parametrize("value", POISON)
def test_a_poison_value_is_an_error_alone_and_in_a_column(value: bytes) -> None:
    with pytest.raises(SerializationError):
        SERDE.deserialize(value)
    for column in ([value], [FINE, value, FINE], [None, value], [FINE] * 3 + [value]):
        with pytest.raises(SerializationError):
            SERDE.deserialize_column(pa.array(column, pa.binary()))


@pytest.mark.parametrize("value", UNUSUAL_BUT_VALID)
def test_an_unusual_but_valid_value_is_the_same_alone_and_in_a_column(value: bytes) -> None:
    for column in ([value], [FINE, value, None, FINE]):
        assert one_by_one(SERDE, column) is not None
        assert_same(SERDE, column)


@pytest.mark.parametrize("other", [b'{"i":1}{"i":2}', b'{"i":1}{"i":2}{"i":3}'])
@pytest.mark.parametrize("lost", [b"", b" ", b"{}\x00}", b"{}\x00{}"])
def test_a_value_with_several_objects_does_not_make_up_for_one_without(other: bytes, lost: bytes) -> None:
    for column in ([other, lost], [lost, other], [other, lost, FINE], [FINE, other, lost]):
        with pytest.raises(SerializationError):
            SERDE.deserialize_column(pa.array(column, pa.binary()))


# Bytes that break or bend JSON, put anywhere.
_snippets = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"\n",
        b"\t",
        b"\x00",
        b" ",
        b"-",
        b"0",
        b"1e999",
        b"NaN",
        b"Inf",
        b"null",
        b"true",
        b"\xff",
        b"\xc3",
        b"\\u0000",
        b"\\ud800",
        b"1.0",
        b"-0",
        b'{"i":1}',
        b'"i":1',
        b'"d":-0,',
        b"//",
    ]
)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
_any_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.none() | values for name, values in fields.items()})


_finite = st.floats(allow_nan=False, allow_infinity=False)
_fitting = _optional(
    i=st.integers(-(2**63), 2**63 - 1),
    h=st.integers(-(2**31), 2**31 - 1),
    d=_finite | st.integers(-(2**53), 2**53),
    s=st.text(max_size=8),
    b=st.booleans(),
    l=st.lists(st.none() | _finite, max_size=3),
    o=_optional(x=st.integers(-9, 9), y=st.lists(st.none() | _optional(z=st.text(max_size=2)), max_size=2)),
)
_with_unknown = st.builds(
    lambda known, unknown: {**unknown, **known}, _fitting, st.fixed_dictionaries({"z": _any_json})
)
_misfit = st.dictionaries(st.sampled_from(["i", "h", "d", "s", "b", "l", "o", "z"]), _any_json, max_size=3)


def _written(value: Any) -> st.SearchStrategy[bytes]:
    return st.sampled_from(
        [
            json.dumps(value, separators=(",", ":")).encode(),
            json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"),
            json.dumps(value).encode(),
            json.dumps(value, indent=1).encode(),
        ]
    )


def _cut(data: bytes, at: float, snippet: bytes, drop: int) -> bytes:
    offset = int(at * len(data))
    return data[:offset] + snippet + data[offset + drop :]


_texts = (_fitting | _with_unknown).flatmap(_written)
_values = st.one_of(
    _texts,
    _texts,
    (_misfit | _any_json).flatmap(_written),
    st.builds(_cut, _texts, st.floats(0, 1), _snippets | st.binary(max_size=2), st.integers(0, 2)),
    st.sampled_from(UNUSUAL_BUT_VALID + POISON),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.none() | _texts, max_size=6))
def test_columns_of_fitting_objects_decode_as_single_values_do(values: Sequence[bytes | None]) -> None:
    assert one_by_one(SERDE, values) is not None
    assert_same(SERDE, values)


@settings(max_examples=800, deadline=None)
@given(st.lists(_values, min_size=1, max_size=3))
def test_columns_of_anything_decode_or_fail_as_single_values_do(values: Sequence[bytes | None]) -> None:
    assert_same(SERDE, values)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.none() | _fitting, max_size=6), st.integers(0, 3))
def test_columns_are_written_byte_for_byte_as_single_values_are(rows: list[Any], skipped: int) -> None:
    rows = [None if row is None else {**row, "d": None if row.get("d") is None else float(row["d"])} for row in rows]
    column = pa.array(rows, SERDE.arrow_type)[skipped:]
    written = SERDE.serialize_column(column)
    assert written.type.equals(pa.binary())
    assert written.to_pylist() == [None if row is None else SERDE.serialize(row) for row in rows[skipped:]]
    assert SERDE.deserialize_column(written).equals(column)


def test_writing_is_compact_in_the_schema_s_order_with_nulls_and_escapes() -> None:
    row = {"s": 'a"\\\n\x01é', "i": -3, "d": 1}
    expected = b'{"i":-3,"d":1.0,"s":"a\\"\\\\\\n\\u0001\xc3\xa9","b":null}'
    assert FLAT.serialize(row) == expected
    assert FLAT.serialize_column(pa.array([row, None], FLAT.arrow_type)).to_pylist() == [expected, None]


def test_columns_of_near_types_and_other_field_order_are_written_like_their_values() -> None:
    near = pa.StructArray.from_arrays(
        [pa.array(["x", None], pa.large_string()), pa.array([1, 2], pa.int16()), pa.array([7, 8], pa.int32())],
        names=["s", "d", "i"],
    )
    assert FLAT.serialize_column(near).to_pylist() == [FLAT.serialize(row) for row in near.to_pylist()]


@pytest.mark.parametrize(
    "row",
    [
        {"i": 1.0},
        {"i": True},
        {"i": 2**63},
        {"d": "1"},
        {"d": True},
        {"d": math.nan},
        {"d": math.inf},
        {"d": 2**53 + 1},
        {"s": 1},
        {"s": b"x"},
        {"b": 1},
        {"unknown": 1},
    ],
)
def test_a_row_that_does_not_fit_is_refused_alone_and_in_a_column(row: dict[str, Any]) -> None:
    with pytest.raises(SerializationError):
        FLAT.serialize(row)
    if row != {"i": 2**63}:
        with pytest.raises(SerializationError):
            FLAT.serialize_column(pa.array([{}, row]))


@pytest.mark.parametrize("value", [None, [], "x", 1, ("i", 1), {"s": "\ud800"}])
def test_what_is_no_object_of_text_is_not_written(value: Any) -> None:
    with pytest.raises(SerializationError):
        FLAT.serialize(value)


def test_non_finite_doubles_inside_lists_are_refused() -> None:
    serde = JsonSerde(pa.schema([("l", pa.list_(pa.float64()))]))
    with pytest.raises(SerializationError, match=r"\[1\]"):
        serde.serialize({"l": [1.0, math.inf]})
    with pytest.raises(SerializationError):
        serde.serialize_column(pa.array([{"l": [1.0, math.inf]}], serde.arrow_type))


@pytest.mark.parametrize(
    "wanted",
    [
        pa.timestamp("ms"),
        pa.decimal128(10, 2),
        pa.binary(),
        pa.float32(),
        pa.uint64(),
        pa.date32(),
        pa.struct([]),
        pa.map_(pa.string(), pa.string()),
        pa.list_(pa.timestamp("ms")),
    ],
)
def test_a_schema_with_a_type_that_json_does_not_carry_is_refused_by_name(wanted: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match="bad"):
        JsonSerde(pa.schema([("good", pa.int64()), ("bad", wanted)]))


def test_a_schema_needs_distinct_nullable_fields() -> None:
    for schema in (
        pa.schema([]),
        pa.schema([("a", pa.int64()), ("a", pa.int64())]),
        pa.schema([pa.field("a", pa.int64(), nullable=False)]),
    ):
        with pytest.raises(ConfigurationError):
            JsonSerde(schema)


def test_the_serde_is_hashable_and_survives_pickling_after_use() -> None:
    SERDE.deserialize(FINE)
    copy = pickle.loads(pickle.dumps(SERDE))
    assert copy == SERDE
    assert hash(copy) == hash(SERDE)
    assert copy.deserialize(FINE) == SERDE.deserialize(FINE)


def test_empty_and_null_columns_keep_their_type_and_length() -> None:
    for values in ([], [None, None]):
        decoded = SERDE.deserialize_column(pa.array(values, pa.binary()))
        assert decoded.type.equals(SERDE.arrow_type)
        assert decoded.to_pylist() == values
        assert SERDE.serialize_column(decoded).to_pylist() == values


def test_large_binary_and_sliced_columns_decode_as_they_read() -> None:
    values = [b"poison", FINE, b'{"i":2}', None, b"poison"]
    for kind in (pa.binary(), pa.large_binary()):
        decoded = FLAT.deserialize_column(pa.array(values, kind)[1:4])
        assert [row and row["i"] for row in decoded.to_pylist()] == [1, 2, None]


def test_columns_of_many_blocks_and_of_long_values_take_the_columnar_path() -> None:
    rows = [orjson.dumps({"i": row, "s": "x" * 50, "z": "not in the schema"}) for row in range(40_000)]
    rows[7] = orjson.dumps({"i": 7, "s": "y" * 3_000_000})
    column = pa.array(rows, pa.binary())
    decoded = decode_objects(column, FLAT.arrow_type)
    assert decoded is not None
    assert decoded.field("i").to_pylist() == list(range(40_000))
    assert decoded.field("s")[7].as_py() == "y" * 3_000_000
    assert FLAT.deserialize_column(column).equals(decoded)


def test_ordinary_columns_take_the_columnar_path() -> None:
    for value in (FINE, b'{"i":1,"z":[1,"Inf"]}', b'{"d":-0.0}', b'{"s":"e123"}'):
        assert decode_objects(pa.array([value, FINE], pa.binary()), FLAT.arrow_type) is not None


def test_without_a_schema_any_json_goes_both_ways_but_not_in_columns() -> None:
    serde = JsonSerde()
    value = {"a": [1, None, 2.5], "b": "é"}
    assert serde.arrow_type is None
    assert serde.deserialize(serde.serialize(value)) == value
    for refused in (math.nan, {"a": [None, {"b": -math.inf}]}, {1, 2}, {1: 2}, object()):
        with pytest.raises(SerializationError):
            serde.serialize(refused)
    for data in (b"", b"{", b"NaN", b'{"a":1}{"a":1}'):
        with pytest.raises(SerializationError):
            serde.deserialize(data)
    with pytest.raises(SerializationError):
        serde.deserialize_column(pa.array([b"1"]))
    with pytest.raises(SerializationError):
        serde.serialize_column(pa.array([1]))
