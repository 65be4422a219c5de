from __future__ import annotations

import math
import pickle
import struct
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import ConfigurationError, SerializationError
from millrace.serdes import (
    NAMED_SERDES,
    BytesSerde,
    DoubleSerde,
    FloatSerde,
    IntegerSerde,
    JsonSerde,
    LongSerde,
    Serde,
    SessionWindowedSerde,
    ShortSerde,
    StringSerde,
    TimeWindowedSerde,
    UUIDSerde,
    Windowed,
    deserialize_windowed,
    serde_by_name,
    serialize_sessions,
    serialize_windowed,
)

VALUES: dict[Serde, st.SearchStrategy[Any]] = {
    BytesSerde(): st.binary(max_size=9),
    StringSerde(): st.text(max_size=9),
    ShortSerde(): st.integers(-(2**15), 2**15 - 1),
    IntegerSerde(): st.integers(-(2**31), 2**31 - 1),
    LongSerde(): st.integers(-(2**63), 2**63 - 1),
    FloatSerde(): st.floats(allow_nan=False, width=32),
    DoubleSerde(): st.floats(allow_nan=False),
}


@pytest.mark.parametrize("serde", VALUES, ids=lambda serde: type(serde).__name__)
@given(data=st.data())
def test_columns_and_single_values_agree_both_ways(serde: Serde, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[serde], max_size=8))
    skipped = data.draw(st.integers(0, 3))
    single = [None if value is None else serde.serialize(value) for value in values][skipped:]
    column = pa.array(values, serde.arrow_type)[skipped:]
    written = serde.serialize_column(column)
    written.validate(full=True)
    assert written.type.equals(pa.binary())
    assert written.to_pylist() == single
    read = serde.deserialize_column(pa.array([b"x", *single], pa.binary())[1:])
    read.validate(full=True)
    assert read.equals(column)
    assert [None if item is None else serde.deserialize(item) for item in single] == values[skipped:]


@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        (ShortSerde(), -2, b"\xff\xfe"),
        (IntegerSerde(), -2, b"\xff\xff\xff\xfe"),
        (LongSerde(), 258, b"\0\0\0\0\0\0\1\2"),
        (FloatSerde(), 1.5, b"\x3f\xc0\0\0"),
        (DoubleSerde(), 1.5, struct.pack(">d", 1.5)),
        (StringSerde(), "é", b"\xc3\xa9"),
        (BytesSerde(), b"\0", b"\0"),
    ],
)
def test_the_bytes_are_those_of_kafka_s_serializers(serde: Serde, value: Any, data: bytes) -> None:
    assert serde.serialize(value) == data
    assert serde.serialize_column(pa.array([value], serde.arrow_type)).to_pylist() == [data]


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (ShortSerde(), b"\0"),
        (IntegerSerde(), b"\0\0\0"),
        (LongSerde(), b"\0\0\0\0"),
        (LongSerde(), b""),
        (FloatSerde(), b"12345678"),
        (DoubleSerde(), b"123456789"),
        (StringSerde(), b"\xff"),
        (StringSerde(), b"\xed\xa0\x80"),
    ],
)
def test_malformed_bytes_are_an_error_alone_and_in_a_column(serde: Serde, data: bytes) -> None:
    fine = serde.serialize_column(pa.array([None], serde.arrow_type)).to_pylist()
    with pytest.raises(SerializationError):
        serde.deserialize(data)
    with pytest.raises(SerializationError):
        serde.deserialize_column(pa.array([*fine, data], pa.binary()))


@pytest.mark.parametrize("data", [b"1234567", b"123456789"])
def test_lengths_that_only_add_up_are_still_errors(data: bytes) -> None:
    rest = b"x" * (16 - len(data))
    with pytest.raises(SerializationError):
        LongSerde().deserialize_column(pa.array([data, rest]))


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (ShortSerde(), 2**15),
        (ShortSerde(), 1.0),
        (IntegerSerde(), 2**31),
        (IntegerSerde(), True),
        (LongSerde(), 1.0),
        (LongSerde(), "1"),
        (LongSerde(), 2**63),
        (DoubleSerde(), "1"),
        (DoubleSerde(), True),
        (DoubleSerde(), 2**53 + 1),
        (FloatSerde(), "1"),
        (FloatSerde(), True),
        (FloatSerde(), 2**24 + 1),
        (FloatSerde(), 1e39),
        (StringSerde(), b"x"),
        (StringSerde(), 1),
        (StringSerde(), "\ud800"),
        (BytesSerde(), "x"),
    ],
)
def test_values_of_another_type_are_refused_alone_and_in_a_column(serde: Serde, value: Any) -> None:
    with pytest.raises(SerializationError):
        serde.serialize(value)
    if value not in ("\ud800", 2**63):
        with pytest.raises(SerializationError):
            serde.serialize_column(pa.array([value]))


def test_near_types_are_taken() -> None:
    assert LongSerde().serialize(np.int32(5)) == LongSerde().serialize(5)
    assert DoubleSerde().serialize(np.float32(0.5)) == DoubleSerde().serialize(0.5)
    assert DoubleSerde().serialize(3) == DoubleSerde().serialize(3.0)
    assert BytesSerde().serialize(memoryview(b"x")) == b"x"
    assert LongSerde().serialize_column(pa.array([1, None], pa.int8())).to_pylist() == [b"\0" * 7 + b"\1", None]
    assert DoubleSerde().serialize_column(pa.array([3])).to_pylist() == [DoubleSerde().serialize(3.0)]
    assert StringSerde().serialize_column(pa.array(["a", None]).dictionary_encode()).to_pylist() == [b"a", None]
    assert StringSerde().serialize_column(pa.chunked_array([["a"], ["b"]])).to_pylist() == [b"a", b"b"]
    assert StringSerde().deserialize_column(pa.array([b"a"], pa.large_binary())).to_pylist() == ["a"]


def test_doubles_keep_nan_and_infinities() -> None:
    column = pa.array([math.nan, None, math.inf, -0.0], pa.float64())
    read = DoubleSerde().deserialize_column(DoubleSerde().serialize_column(column))
    assert repr(read.to_pylist()) == "[nan, None, inf, -0.0]"


def test_floats_are_rounded_to_32_bits_and_keep_nan_and_infinities() -> None:
    values = [0.1, None, math.inf, -math.inf, -0.0, 3.4028235e38, math.nan]
    single = [None if value is None else FloatSerde().serialize(value) for value in values]
    assert single[0] == struct.pack(">f", 0.1)
    assert FloatSerde().serialize_column(pa.array(values, pa.float64())).to_pylist() == single
    read = FloatSerde().deserialize_column(pa.array(single, pa.binary()))
    assert read.type.equals(pa.float32())
    expected = [None if value is None else struct.unpack(">f", struct.pack(">f", value))[0] for value in values]
    assert repr(read.to_pylist()) == repr(expected)
    assert FloatSerde().serialize(np.float32(0.5)) == FloatSerde().serialize_column(pa.array([0.5])).to_pylist()[0]


def test_a_uuid_is_its_text() -> None:
    value = UUID("0F0e0d0c-0b0a-0908-0706-050403020100")
    assert UUIDSerde().arrow_type is None
    assert UUIDSerde().serialize(value) == b"0f0e0d0c-0b0a-0908-0706-050403020100"
    assert UUIDSerde().deserialize(b"0f0e0d0c-0b0a-0908-0706-050403020100") == value
    assert UUIDSerde().deserialize(b"0F0E0D0C-0B0A-0908-0706-050403020100") == value


@pytest.mark.parametrize("data", [b"", b"1-1-1-1-1", b"0f0e0d0c0b0a09080706050403020100", b"\xff" * 36])
def test_what_is_no_uuid_s_full_text_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="Remedy"):
        UUIDSerde().deserialize(data)


def test_the_text_of_a_uuid_is_not_taken_for_one() -> None:
    with pytest.raises(SerializationError, match=r"uuid\.UUID"):
        UUIDSerde().serialize("0f0e0d0c-0b0a-0908-0706-050403020100")


def test_serdes_without_an_arrow_type_have_no_columns() -> None:
    with pytest.raises(SerializationError):
        UUIDSerde().serialize_column(pa.array(["x"]))
    with pytest.raises(SerializationError):
        UUIDSerde().deserialize_column(pa.array([b"x"]))


def test_a_column_that_is_not_bytes_is_refused() -> None:
    with pytest.raises(SerializationError, match="int64"):
        LongSerde().deserialize_column(pa.array([1]))


@pytest.mark.parametrize("serde", [*NAMED_SERDES.values(), TimeWindowedSerde(StringSerde(), 10)])
def test_serdes_satisfy_the_protocol_are_hashable_and_pickle(serde: Serde) -> None:
    assert isinstance(serde, Serde)
    copy = pickle.loads(pickle.dumps(serde))
    assert copy == serde
    assert hash(copy) == hash(serde)


def test_serdes_have_names_and_a_wrong_name_gets_the_nearest() -> None:
    assert serde_by_name("long") == LongSerde()
    assert serde_by_name("json") == JsonSerde()
    with pytest.raises(ConfigurationError, match="'string'"):
        serde_by_name("strng")


def test_a_windowed_key_is_the_key_s_bytes_and_its_start() -> None:
    serde = TimeWindowedSerde(StringSerde(), 10)
    key = Windowed("k", 20, 30)
    assert serde.serialize(key) == b"k\0\0\0\0\0\0\0\x14"
    assert serde.deserialize(b"k\0\0\0\0\0\0\0\x14") == key
    assert serde.arrow_type is None


def test_a_window_beyond_the_last_millisecond_ends_there() -> None:
    serde = TimeWindowedSerde(StringSerde(), 2**63 - 1)
    key = Windowed("k", 5, 2**63 - 1)
    assert serde.deserialize(serde.serialize(key)) == key


@pytest.mark.parametrize(
    "value", ["k", ("k", 20, 30), Windowed("k", 20, 31), Windowed("k", -10, 0), Windowed(1, 20, 30)]
)
def test_windowed_keys_that_would_read_back_differently_are_refused(value: Any) -> None:
    with pytest.raises(SerializationError):
        TimeWindowedSerde(StringSerde(), 10).serialize(value)


@pytest.mark.parametrize("data", [b"1234567", b"k" + b"\xff" * 8, b"\xff" + b"\0" * 8])
def test_malformed_windowed_keys_are_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        TimeWindowedSerde(StringSerde(), 10).deserialize(data)


def test_windowed_keys_have_no_columns_and_sizes_are_positive() -> None:
    serde = TimeWindowedSerde(StringSerde(), 10)
    with pytest.raises(SerializationError):
        serde.serialize_column(pa.array([1]))
    with pytest.raises(SerializationError):
        serde.deserialize_column(pa.array([b"x"]))
    with pytest.raises(ConfigurationError):
        TimeWindowedSerde(StringSerde(), 0)


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(0, 2**62)), max_size=8))
def test_many_windowed_keys_are_written_and_read_as_single_ones_are(keys: list[tuple[str, int]]) -> None:
    serde = TimeWindowedSerde(StringSerde(), 10)
    starts = np.array([start for _, start in keys], dtype=np.int64)
    written = serialize_windowed([key.encode() for key, _ in keys], starts)
    assert written == [serde.serialize(Windowed(key, start, start + 10)) for key, start in keys]
    read_keys, read_starts = deserialize_windowed(written)
    assert read_keys == [key.encode() for key, _ in keys]
    assert read_starts.dtype == np.int64
    assert read_starts.tolist() == starts.tolist()


def test_a_short_key_among_many_is_refused() -> None:
    with pytest.raises(SerializationError):
        deserialize_windowed([b"k" * 9, b"short"])


def test_a_session_s_key_is_the_key_s_bytes_its_end_and_its_start() -> None:
    serde = SessionWindowedSerde(StringSerde())
    data = serde.serialize(Windowed("k", 1, 258))

    assert data == b"k" + (258).to_bytes(8, "big") + (1).to_bytes(8, "big")
    assert serde.deserialize(data) == Windowed("k", 1, 258)
    assert serialize_sessions([b"k", b""], np.array([1, 2]), np.array([258, 2]))[0] == data
    for refused in (Windowed("k", 2, 1), Windowed("k", -1, 1), "k"):
        with pytest.raises(SerializationError):
            serde.serialize(refused)
    for malformed in (b"short", b"k" + (1).to_bytes(8, "big") + (2).to_bytes(8, "big")):
        with pytest.raises(SerializationError):
            serde.deserialize(malformed)
