from __future__ import annotations

import math
from typing import Any
from uuid import UUID

import pytest

from millrace.json_numbers import dumps, loads
from millrace.queries.refusals import QueryRefusedError
from millrace.queries.values import json_value, key_bytes, prefix_bytes
from millrace.serdes import (
    AvroSerde,
    BytesSerde,
    DoubleSerde,
    IntegerSerde,
    JsonSerde,
    LongSerde,
    Serde,
    StringSerde,
    UUIDSerde,
    Windowed,
    serde_from,
)

ID = "00000000-0000-0000-0000-000000000007"


@pytest.mark.parametrize(
    ("text", "serde", "value"),
    [
        ("7", StringSerde(), "7"),
        ("7", LongSerde(), 7),
        ("-7", IntegerSerde(), -7),
        ("7.5", DoubleSerde(), 7.5),
        (ID, UUIDSerde(), UUID(ID)),
        ('{"a":1}', JsonSerde(), {"a": 1}),
    ],
)
def test_keys_are_written_as_their_serde_reads_them(text: str, serde: Serde, value: Any) -> None:
    assert key_bytes(text, serde) == serde.serialize(value)


def test_the_bytes_of_a_key_may_be_given_for_every_serde() -> None:
    assert key_bytes("base64:AAE=", None) == key_bytes("base64:AAE=", LongSerde()) == b"\0\1"


@pytest.mark.parametrize(
    ("text", "serde"),
    [("x", LongSerde()), ("x", None), ("x", BytesSerde()), ("{", JsonSerde()), ("base64:?", None), ("x", UUIDSerde())],
)
def test_what_is_no_key_is_refused(text: str, serde: Serde | None) -> None:
    with pytest.raises(QueryRefusedError, match="is no key of this store"):
        key_bytes(text, serde)


def test_a_prefix_is_text_or_bytes() -> None:
    assert prefix_bytes("ab", StringSerde()) == b"ab"
    assert prefix_bytes("base64:AAE=", LongSerde()) == b"\0\1"
    with pytest.raises(QueryRefusedError, match="one of bytes"):
        prefix_bytes("1", LongSerde())


def test_values_of_all_kinds_have_a_form_in_json() -> None:
    def shown(value: Any) -> Any:
        return json_value(b"x", serde_from(lambda _: b"", lambda _: value))

    assert shown({"a": [1, "x", None, True, 1.5]}) == {"a": [1, "x", None, True, 1.5]}
    assert shown(math.inf) == "inf"
    assert shown([b"\0\1"]) == [{"base64": "AAE="}]
    assert shown(UUID(ID)) == ID
    assert shown(Windowed("k", 1, 2)) == {"key": "k", "start": 1, "end": 2}
    assert sorted(shown({1, 2})) == [1, 2]


def test_what_has_no_serde_or_cannot_be_read_is_told_in_bytes() -> None:
    assert json_value(b"\0\1", None) == {"base64": "AAE="}
    unreadable = json_value(b"\0\1", LongSerde())
    assert unreadable["base64"] == "AAE="
    assert "problem" in unreadable


@pytest.mark.parametrize("text", ["327267367867168100001", "12345678901234567.89", "0.10000000000000001"])
def test_a_number_of_json_is_the_same_in_keys_and_answers(text: str) -> None:
    """Case P13."""
    assert key_bytes(text, JsonSerde()) == text.encode()
    answer = dumps({"entries": [json_value(f'{{"n":[{text}]}}'.encode(), JsonSerde())]})
    assert answer == f'{{"entries":[{{"n":[{text}]}}]}}'.encode()
    assert dumps(loads(answer), indented=True).decode().split() == [
        "{",
        '"entries":',
        "[",
        "{",
        '"n":',
        "[",
        text,
        *"]}]}",
    ]


def test_values_of_avro_have_the_form_of_what_they_hold() -> None:
    """Cases P07 and P09."""
    times = [{"type": kind, "logicalType": each} for kind, each in (("int", "time-millis"), ("long", "time-micros"))]
    assert json_value(b"\0\0", AvroSerde(times)) == "00:00:00"
    far = AvroSerde({"type": "long", "logicalType": "timestamp-millis"})
    assert json_value(far.serialize(2**60), far) == 2**60
    money = AvroSerde({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})
    assert json_value(b"\4\1\0", money) == "2.56"
