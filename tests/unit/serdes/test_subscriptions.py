"""The bytes between the two sides of a foreign-key join. That of current versions is also compared in tests/parity."""

from __future__ import annotations

import pytest

from millrace.errors import SerializationError
from millrace.serdes import LongSerde, StringSerde
from millrace.serdes.subscriptions import (
    CombinedKey,
    CombinedKeySerde,
    Instruction,
    Response,
    ResponseSerde,
    Subscription,
    SubscriptionSerde,
    combined_key_prefix,
    split_combined_key,
)

HASH = bytes(range(16))
SUBSCRIPTIONS = SubscriptionSerde(StringSerde())
RESPONSES = ResponseSerde(StringSerde())
KEYS = CombinedKeySerde(LongSerde(), StringSerde())
PLAIN = Subscription(HASH, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, "pk", 7)


@pytest.mark.parametrize(
    ("subscription", "data"),
    [
        (PLAIN, b"\x01\x03" + HASH + b"pk" + b"\0\0\0\x07"),
        (PLAIN._replace(hash=None, instruction=Instruction.DELETE_KEY_AND_PROPAGATE), b"\x81\x01pk\0\0\0\x07"),
        (PLAIN._replace(primary_key="", primary_partition=0), b"\x01\x03" + HASH + b"\0\0\0\0"),
        (PLAIN._replace(version=0, primary_partition=None), b"\x00\x03" + HASH + b"pk"),
        (PLAIN._replace(version=0, primary_partition=None, hash=None), b"\x80\x03pk"),
    ],
)
def test_a_subscription_has_the_bytes_of_its_version(subscription: Subscription, data: bytes) -> None:
    assert SUBSCRIPTIONS.serialize(subscription) == data
    assert SUBSCRIPTIONS.deserialize(data) == subscription


@pytest.mark.parametrize(
    ("response", "data"),
    [
        (Response(HASH, "row"), b"\x00" + HASH + b"row"),
        (Response(HASH, None), b"\x00" + HASH),
        (Response(None, None), b"\x80"),
        (Response(None, "row"), b"\x80row"),
    ],
)
def test_a_response_has_hash_and_foreign_row_if_there_are_any(response: Response, data: bytes) -> None:
    assert RESPONSES.serialize(response) == data
    assert RESPONSES.deserialize(data) == response


def test_where_a_response_goes_is_not_among_its_bytes() -> None:
    assert RESPONSES.serialize(Response(HASH, "row", 3)) == RESPONSES.serialize(Response(HASH, "row"))


def test_a_foreign_row_without_bytes_is_read_as_none_as_in_kafka_streams() -> None:
    assert RESPONSES.deserialize(RESPONSES.serialize(Response(HASH, ""))) == Response(HASH, None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut short"),
        (b"\x01", "cut short"),
        (b"\x01\x03" + HASH[:-1], "cut short"),
        (b"\x81\x03\0\0\0", "cut short"),
        (b"\x81\x04pk\0\0\0\0", "no instruction 4"),
        (b"\x82\x03pk\0\0\0\0", "version 2"),
    ],
)
def test_what_is_no_subscription_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        SUBSCRIPTIONS.deserialize(data)


@pytest.mark.parametrize(
    ("data", "message"), [(b"", "cut short"), (b"\x00" + HASH[:-1], "cut short"), (b"\x81", "version 1")]
)
def test_what_is_no_response_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        RESPONSES.deserialize(data)


def test_a_combined_key_begins_with_the_length_of_the_foreign_key() -> None:
    data = KEYS.serialize(CombinedKey(258, "pk"))
    assert data == b"\0\0\0\x08" + b"\0\0\0\0\0\0\x01\x02" + b"pk"
    assert KEYS.deserialize(data) == CombinedKey(258, "pk")
    assert split_combined_key(data) == (b"\0\0\0\0\0\0\x01\x02", b"pk")


def test_no_foreign_key_is_the_prefix_of_another_one() -> None:
    keys = [b"", b"a", b"ab", b"\0", b"\0\0\0\x01"]
    combined = {key: combined_key_prefix(key) + b"pk" for key in keys}
    for key in keys:
        own = combined_key_prefix(key)
        assert [other for other, data in combined.items() if data.startswith(own)] == [key]


@pytest.mark.parametrize("data", [b"", b"\0\0\0", b"\0\0\0\x02a"])
def test_what_is_no_combined_key_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError, match="cut short"):
        KEYS.deserialize(data)


def test_only_the_deleting_instructions_delete() -> None:
    assert [instruction.name for instruction in Instruction if instruction.deletes] == [
        "DELETE_KEY_NO_PROPAGATE",
        "DELETE_KEY_AND_PROPAGATE",
    ]
