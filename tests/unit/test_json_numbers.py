"""Case P13: a number of JSON is never another number: it is exact, or its record is refused."""

from __future__ import annotations

import copy
import json
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import SerializationError
from millrace.serdes import AvroSerde, BytesSerde, JsonSerde, StringSerde
from millrace.serdes.json_columns import decode_objects
from millrace.testing import TestRecord, TopologyTestDriver

UNTYPED = JsonSerde()
DOUBLES = JsonSerde(pa.schema([("d", pa.float64()), ("i", pa.int64()), ("s", pa.string())]))
NESTED = JsonSerde(pa.schema([("o", pa.struct([("l", pa.list_(pa.float64()))]))]))
ROUNDED = JsonSerde(DOUBLES.schema, round_doubles=True)

INEXACT = [
    "12345678901234567.89",
    "90071992547409935e-1",
    "9007199254740993",
    "9007199254740993.0",
    "-9223372036854775809",
    "18446744073709551617",
    "327267367867168100001",
    "0.1234567890123456789",
    "0.10000000000000001",
    "1.0000000000000000000000000000001",
    "18446744073709551616",
    "1e-400",
    "-1E-400",
    "4.9e-325",
    "1.234567890123e-320",
    "123456789012345678901234567890.5e-10",
]
EXACT = [
    "0",
    "-0",
    "0.1",
    "-0.0",
    "1.50",
    "9007199254740992",
    "-9007199254740994",
    "12345678901234568",
    "1e22",
    "1E+300",
    "0.30000000000000004",
    "123456789012345.67",
    "1.7976931348623157e308",
    "5e-324",
    "2.2250738585072014E-308",
    "0.00000000000000000000001",
    "100000000000000000000000e-3",
    "0.1000000000000000000000000",
    "1000000000000000000000000000000",
]


def same(before: str, after: bytes) -> bool:
    return Decimal(before) == Decimal(after.decode())


@pytest.mark.parametrize("number", [*INEXACT, *EXACT, str(2**64 - 1), str(-(2**63)), str(10**300 + 1)])
def test_without_a_schema_each_number_is_written_as_the_one_that_was_read(number: str) -> None:
    for before, after in (("", ""), ('{"a":[', "]}"), ('{"x":{"a":', '},"s":"1234567890123456789"}')):
        value = UNTYPED.deserialize(f"{before}{number}{after}".encode())
        for each in (value, copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            written = UNTYPED.serialize(each).decode()
            assert written.startswith(before)
            assert written.endswith(after)
            assert same(number, written[len(before) : len(written) - len(after)].encode())


@pytest.mark.parametrize("number", INEXACT)
def test_a_field_of_doubles_refuses_what_no_double_is_alone_and_in_columns(number: str) -> None:
    for serde, data in (
        (DOUBLES, f'{{"d":{number}}}'),
        (DOUBLES, f'{{"s":"x","d": {number} ,"i":1234567890123456789}}'),
        (NESTED, f'{{"o":{{"l":[0.5,{number}]}}}}'),
    ):
        with pytest.raises(SerializationError, match="a double does not hold exactly"):
            serde.deserialize(data.encode())
        with pytest.raises(SerializationError):
            serde.deserialize_column(pa.array([b'{"d":0.5}', data.encode()]))
    assert ROUNDED.deserialize(f'{{"d":{number}}}'.encode())["d"] == float(number)
    column = ROUNDED.deserialize_column(pa.array([f'{{"d":{number}}}'.encode()] * 2))
    assert column.field("d").to_pylist() == [float(number)] * 2


@pytest.mark.parametrize("number", EXACT)
def test_a_field_of_doubles_takes_what_a_double_is_alone_and_in_columns(number: str) -> None:
    data = f'{{"d":{number},"i":1234567890123456789,"s":"1234567890123456789.5"}}'.encode()
    expected = {"d": float(number), "i": 1234567890123456789, "s": "1234567890123456789.5"}
    assert DOUBLES.deserialize(data) == expected
    assert DOUBLES.deserialize_column(pa.array([data, data])).to_pylist() == [expected] * 2
    assert same(number, json.dumps(expected["d"]).encode())


def test_numbers_that_no_field_has_refuse_nothing() -> None:
    data = b'{"i":5,"z":12345678901234567.89,"y":[1e-400]}'
    for serde in (DOUBLES, JsonSerde(pa.schema([("i", pa.int64())]))):
        assert serde.deserialize(data)["i"] == 5
        assert serde.deserialize_column(pa.array([data])).field("i").to_pylist() == [5]


@pytest.mark.parametrize(
    "data",
    [
        b'{"d":0.5,"s":"4111111111111111"}',
        b'{"d":0.0,"i":1234567890123456789,"s":"some-thing e-mail 3e-12"}',
        b'{"d":0.30000000000000004,"i":-9223372036854775808}',
        b'{"d":-123456.78901234567,"s":"2024-01-01T00:00:00.123456789Z"}',
    ],
)
def test_columns_of_ordinary_numbers_are_read_in_columns(data: bytes) -> None:
    assert decode_objects(pa.array([data] * 3), DOUBLES.arrow_type) is not None


_digits = st.text("0123456789", min_size=1, max_size=22)
_numbers = st.builds(
    lambda sign, whole, part, exponent: f"{sign}{int(whole)}{part}{exponent}",
    st.sampled_from(["", "-"]),
    _digits,
    st.just("") | _digits.map(lambda digits: f".{digits}"),
    st.just("") | st.integers(-340, 280).map(lambda exponent: f"e{exponent}"),
)


@settings(max_examples=200, deadline=None)
@given(_numbers | st.floats(allow_nan=False, allow_infinity=False).map(repr), st.sampled_from(["", " "]))
def test_any_number_is_exact_or_refused_and_columns_agree(number: str, space: str) -> None:
    assert same(number, UNTYPED.serialize(UNTYPED.deserialize(number.encode())))
    data = f'{{"s":"x","d":{space}{number}{space}}}'.encode()
    try:
        value = DOUBLES.deserialize(data)["d"]
    except SerializationError:
        assert Decimal(repr(float(number))) != Decimal(number)
        with pytest.raises(SerializationError):
            DOUBLES.deserialize_column(pa.array([data, b"{}"]))
    else:
        assert Decimal(repr(value)) == Decimal(number)
        assert DOUBLES.deserialize_column(pa.array([data, b"{}"])).field("d").to_pylist() == [value, None]


def test_what_python_makes_of_such_numbers() -> None:
    value = UNTYPED.deserialize(b"[327267367867168100001,12345678901234567.89,0.10000000000000001,0.1]")
    assert value == [327267367867168100001, Decimal("12345678901234567.89"), 0.1, 0.1]
    assert [type(each) is float for each in value] == [False, False, False, True]
    assert str(value[2]) == "0.10000000000000001"
    assert value[2] * 2 == 0.2


def test_large_integers_and_decimals_of_the_application_s_own_are_written() -> None:
    made = {"wei": 10**30 + 1, "list": (1, [2**64]), "paid": Decimal("1.10"), "few": Decimal("1E+3")}
    assert (
        UNTYPED.serialize(made)
        == b'{"wei":1000000000000000000000000000001,"list":[1,[18446744073709551616]],"paid":1.10,"few":1E+3}'
    )
    for refused in (
        Decimal("NaN"),
        [Decimal("Infinity")],
        {"a": object(), "b": 2**70},
        float("nan"),
        [2**70, float("inf")],
    ):
        with pytest.raises(SerializationError):
            UNTYPED.serialize(refused)
    for inexact in (Decimal("0.1"), 2**53 + 1, 2**60, UNTYPED.deserialize(b"0.10000000000000001")):
        with pytest.raises(SerializationError, match="does not hold exactly"):
            DOUBLES.serialize({"d": inexact})
    assert DOUBLES.serialize({"d": 10**22}) == b'{"d":1e+22,"i":null,"s":null}'


def test_numbers_beyond_all_limits_are_refused() -> None:
    for data in (b"1e400", b"9" * 400, b"1e-9999999999999999999999999"):
        with pytest.raises(SerializationError):
            UNTYPED.deserialize(data)


@pytest.mark.parametrize("column", [False, True])
def test_keys_and_values_pass_an_application_as_they_are_or_go_to_the_handler(column: bool) -> None:
    serde = DOUBLES if column else UNTYPED
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(serde, serde))
    stream.filter(lambda k, v: True).to("out", Produced.with_(serde, serde))
    rows = [
        '{"d":1.5,"i":1,"s":"a"}',
        '{"d":327267367867168100001,"i":1,"s":"b"}',
        '{"d":0.1234567890123456789,"i":2,"s":"c"}',
    ]
    lines = [row.encode() for row in rows]
    settings_ = {"deserialization.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dlq"}
    with TopologyTestDriver(builder.build(), settings_) as driver:
        topic = driver.create_input_topic("in", BytesSerde(), BytesSerde())
        pairs = [(line, lines[0]) for line in lines] + [(lines[0], line) for line in lines[1:]]
        topic.pipe_batch([TestRecord(key, value, timestamp=1) for key, value in pairs])
        out = driver.create_output_topic("out", BytesSerde(), BytesSerde()).read_key_values()
        dead = driver.create_output_topic("dlq", BytesSerde(), BytesSerde()).read_key_values() if column else []
    assert out == (pairs[:1] if column else pairs)
    assert dead == (pairs[1:] if column else [])


def test_a_float_that_keeps_its_digits_is_a_float_to_numpy_arrow_and_avro() -> None:
    value = UNTYPED.deserialize(b"0.10000000000000001")
    assert np.asarray([value]).tolist() == pa.array([value]).to_pylist() == [0.1]
    avro = AvroSerde("double")
    assert avro.deserialize(avro.serialize(value)) == 0.1
    assert StringSerde().serialize(str(value)) == b"0.10000000000000001"
