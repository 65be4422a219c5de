"""Objects that are written alike: what the kernel reads is what single values give, all else is left whole."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.errors import SerializationError
from millrace.machine_code import MachineCodeUnavailableError
from millrace.serdes import JsonSerde, json_shapes
from millrace.serdes.json_shapes import MOST_SHAPES, read_alike

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("h", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("o", pa.struct([("x", pa.int64()), ("p", pa.struct([("t", pa.string())]))])),
    ]
)
SERDE = JsonSerde(SCHEMA)
FLAT = JsonSerde(pa.schema([("i", pa.int64()), ("d", pa.float64()), ("s", pa.string()), ("b", pa.bool_())]))


def read(serde: JsonSerde, values: Sequence[bytes]) -> list[Any] | None:
    rows = read_alike(pa.array(values, pa.binary()), pa.struct(list(serde.schema or ())))
    if rows is None:
        return None
    rows.validate(full=True)
    assert rows.type.equals(serde.arrow_type)
    return list(rows.to_pylist())


def one_by_one(serde: JsonSerde, values: Sequence[bytes]) -> list[Any] | None:
    try:
        return [serde.deserialize(value) for value in values]
    except SerializationError:
        return None


def exact(value: Any) -> Any:
    """A value whose doubles are compared bit by bit."""
    if isinstance(value, float):
        return struct.pack("d", value)
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    return [exact(inner) for inner in value] if isinstance(value, list) else value


_plain_text = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs", "Cc"]), max_size=9)
_short_doubles = st.builds(
    lambda digits, places: digits / 10**places, st.integers(1, 10**15 - 1), st.integers(0, 6)
).filter(lambda number: len(repr(number).replace(".", "")) <= 15 and "e" not in repr(number))


def _in_order(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose keys stand in one order, as one producer writes them."""
    return {name: _in_order(row[name]) if isinstance(row[name], dict) else row[name] for name in sorted(row)}


_rows = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(10**18) + 1, 10**18 - 1),
        "z": st.none() | st.booleans() | st.integers(-9, 9) | _plain_text,
        "h": st.none() | st.integers(-(2**31), 2**31 - 1),
        "d": st.none() | _short_doubles | st.integers(-(10**15) + 1, 10**15 - 1),
        "o": st.fixed_dictionaries(
            {
                "x": st.none() | st.integers(-9, 9),
                "p": st.fixed_dictionaries({"t": st.none() | _plain_text}),
                "q": st.fixed_dictionaries({"u": st.none() | st.booleans()}),
            }
        ),
        "s": st.none() | _plain_text,
        "b": st.none() | st.booleans(),
    }
).map(_in_order)
_writers = st.sampled_from(
    [
        {"separators": (",", ":")},
        {},
        {"separators": (" , ", " : ")},
        {"indent": 2},
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_rows, min_size=1, max_size=20), _writers)
def test_objects_of_one_writer_are_read_by_their_shape_as_single_values_are(
    rows: list[dict[str, Any]], how: dict[str, Any]
) -> None:
    values = [json.dumps(row, ensure_ascii=False, **how).encode() for row in rows]
    assert exact(read(SERDE, values)) == exact(one_by_one(SERDE, values))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_rows, st.integers(0, MOST_SHAPES - 1)), min_size=1, max_size=40))
def test_a_column_may_have_a_few_shapes_in_any_order(rows: list[tuple[dict[str, Any], int]]) -> None:
    optional = ["i", "s", "d"]

    def written(row: dict[str, Any], which: int) -> bytes:
        kept = {name: value for name, value in row.items() if name not in optional or which >> optional.index(name) & 1}
        return json.dumps(kept, ensure_ascii=False).encode()

    values = [written(row, which) for row, which in rows]
    assert exact(read(SERDE, values)) == exact(one_by_one(SERDE, values))


def test_a_column_of_more_shapes_is_left() -> None:
    values = [b"{" + b" " * spaces + b'"i":1}' for spaces in range(MOST_SHAPES + 1)]
    assert read(FLAT, values[:-1]) is not None
    assert read(FLAT, values) is None


_bytes = st.sampled_from(
    [bytes([byte]) for byte in b'{}[],:"\\ \n\t-+.eE019ntf'] + [b"\xff", b"\xc3", b"\x00", b"null"]
)


@settings(max_examples=600, deadline=None)
@given(
    st.lists(_rows, min_size=1, max_size=3),
    st.integers(0, 2),
    st.floats(0, 1),
    _bytes | st.binary(max_size=2),
    st.integers(0, 3),
)
def test_a_byte_more_less_or_other_is_never_read_as_something_else(
    rows: list[dict[str, Any]], which: int, at: float, snippet: bytes, dropped: int
) -> None:
    values = [json.dumps(row, ensure_ascii=False).encode() for row in rows]
    text = values[which % len(values)]
    cut = int(at * len(text))
    values[which % len(values)] = text[:cut] + snippet + text[cut + dropped :]
    found = read(SERDE, values)
    if found is not None:
        assert exact(found) == exact(one_by_one(SERDE, values))


@settings(max_examples=300, deadline=None)
@given(st.from_regex(rb"\A-?[0-9]{0,17}(\.[0-9]{0,17})?([eE][+-]?[0-9]{1,3})?\Z"))
@example(b"0.1")
@example(b"-0")
@example(b"-0.0")
@example(b"00")
@example(b"1.")
@example(b".5")
@example(b"999999999999999")
@example(b"0.00000000000001")
def test_a_number_is_read_to_the_last_bit_or_left(number: bytes) -> None:
    for serde, field in ((FLAT, b"d"), (FLAT, b"i"), (FLAT, b"z")):
        values = [b'{"%b":1}' % field, b'{"%b":%b}' % (field, number)]
        found = read(serde, values)
        if found is not None:
            assert exact(found) == exact(one_by_one(serde, values))


@pytest.mark.parametrize(
    "value",
    [
        b'{"s":"a\\nb"}',  # an escape
        b'{"s":"\xff"}',  # not UTF-8
        b'{"z":"\xff"}',  # not UTF-8 where nothing looks at it
        b'{"s":"\xed\xa0\x80"}',  # a surrogate
        b'{"s":"a\nb"}',  # a raw control character
        b'{"i":1,"i":2}',  # twice: the last one counts
        b'{"\\u0069":1}',  # a key with an escape
        b'{"i":1e2}',
        b'{"d":-0}',  # 0 and -0.0
        b'{"d":1e2}',
        b'{"d":0.1000000000000000055}',
        b'{"i":1234567890123456789}',  # fits, but has more digits than are looked at
        b'{"i":true}',
        b'{"b":1}',
        b'{"s":1}',
        b'{"i":"1"}',
        b'{"i":[1]}',
        b'{"z":[1]}',
        b'{"i":{"x":1}}',
        b"{}",
        b"null",
        b'[{"i":1}]',
        b'{"i":1}{"i":1}',
        b'{"i":1}x',
        b'{"i":01}',
        b'{"i":1,}',
        b"",
    ],
)
def test_what_it_does_not_read_is_left_alone_and_behind_plain_ones(value: bytes) -> None:
    assert read(FLAT, [value]) is None
    assert read(FLAT, [b'{"i":1}', b'{"z":1}', value]) is None


@pytest.mark.parametrize("value", [b'{"i":1}', b'{"i":1,"o":null}', b'{"i":1,"o":{"x":1}}', b'{"o":{"x":1,"p":3}}'])
def test_an_object_that_a_struct_is_missing_from_is_left(value: bytes) -> None:
    assert read(SERDE, [b'{"i":1,"o":{"x":1,"p":{"t":"a"}}}']) is not None
    assert read(SERDE, [value]) is None


def test_integers_of_32_bits_that_are_too_large_are_left_and_refused() -> None:
    values = [b'{"h":1}', b'{"h":2147483648}']
    narrow = JsonSerde(pa.schema([("h", pa.int32())]))
    assert read(narrow, values[:1]) == [{"h": 1}]
    assert read(narrow, values) is None
    with pytest.raises(SerializationError, match="2147483648, not an int32"):
        narrow.deserialize_column(pa.array(values, pa.binary()))


def test_lists_are_not_read_by_shapes() -> None:
    assert read(JsonSerde(pa.schema([("i", pa.int64()), ("l", pa.list_(pa.int64()))])), [b'{"i":1}']) is None


def test_no_byte_behind_a_value_is_looked_at() -> None:
    whole = b'{"i":12,"d":3.5,"s":"abc","b":true}'
    # Each prefix is followed in memory by the bytes that would complete it.
    for size in range(len(whole)):
        pieces = pa.array([whole[:size], whole[size:]], pa.binary())
        assert read_alike(pieces.slice(0, 1), FLAT.arrow_type) is None
        assert read(FLAT, [whole, whole[:size], whole[size:]]) is None


def test_slices_are_read_from_their_own_rows() -> None:
    values = pa.array([b'{"s":"first"}', b'{"s":"second"}', b'{"s":"third"}'], pa.binary())
    rows = read_alike(values.slice(1, 1), FLAT.arrow_type)
    assert rows is not None
    assert [row["s"] for row in rows.to_pylist()] == ["second"]


def test_columns_do_not_keep_the_bytes_they_were_read_from() -> None:
    values = pa.array([b'{"s":"x","z":"' + b"y" * 1000 + b'"}'] * 1000, pa.binary())
    before = pa.total_allocated_bytes()
    rows = read_alike(values, FLAT.arrow_type)
    assert rows is not None
    assert rows.field("s").buffers()[2].size == 1000
    assert pa.total_allocated_bytes() - before < 100_000


def test_without_machine_code_arrow_reads_and_it_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> None:
        raise MachineCodeUnavailableError("memory may not be made executable")

    monkeypatch.setattr(json_shapes, "json_kernel", unavailable)
    json_shapes._kernel.cache_clear()
    try:
        values = pa.array([b'{"i":1,"d":2.5,"s":"x","b":true}'], pa.binary())
        with structlog.testing.capture_logs() as logs:
            for _ in range(2):
                assert FLAT.deserialize_column(values).to_pylist() == [{"i": 1, "d": 2.5, "s": "x", "b": True}]
    finally:
        json_shapes._kernel.cache_clear()
    (line,) = logs
    assert line["log_level"] == "warning"
    assert "0.4 microseconds more a record" in line["event"]
    assert line["reason"] == "memory may not be made executable"


def test_a_double_is_the_nearest_to_what_is_written() -> None:
    numbers = [b"0.1", b"0.3", b"123456789.012345", b"0.00000000000001", b"999999999999999", b"-2.5"]
    found = read(FLAT, [b'{"d":%b}' % number for number in numbers])
    assert found is not None
    assert [row["d"] for row in found] == [float(number) for number in numbers]
    assert not any(math.isnan(row["d"]) for row in found)
