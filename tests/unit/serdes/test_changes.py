from __future__ import annotations

import pytest

from millrace.errors import SerializationError
from millrace.serdes import LongSerde
from millrace.serdes.changes import Change, ChangeSerde, join_change, split_change


@pytest.mark.parametrize(
    ("new", "old", "data"),
    [
        (b"n", None, b"n\x01"),
        (None, b"o", b"o\x00"),
        (b"new", b"old", b"\x06newold\x02"),
        (b"", b"", b"\x00\x02"),
        (b"", None, b"\x01"),
        (b"x" * 64, b"o", b"\x80\x01" + b"x" * 64 + b"o\x02"),
    ],
)
def test_a_change_has_the_bytes_of_kafka_streams(new: bytes | None, old: bytes | None, data: bytes) -> None:
    assert join_change(new, old) == data
    assert split_change(data) == (new, old)


@pytest.mark.parametrize(
    ("data", "change"),
    [(b"o\x01\x03", (None, b"o")), (b"n\x00\x04", (b"n", None)), (b"\x02no\x01\x05", (b"n", b"o"))],
)
def test_changes_that_say_whether_they_are_the_latest_can_be_read(
    data: bytes, change: tuple[bytes | None, bytes | None]
) -> None:
    assert split_change(data) == change


@pytest.mark.parametrize(
    "data", [b"", b"x\x06", b"\x02", b"\x08new\x02", b"\x01n\x02", b"\xff\xff\xff\xff\xff\xff\x02"]
)
def test_what_is_no_change_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationError):
        split_change(data)


def test_a_change_of_nothing_cannot_be_written() -> None:
    with pytest.raises(SerializationError, match="without a new and an old value"):
        join_change(None, None)


def test_the_serde_reads_what_it_writes() -> None:
    serde = ChangeSerde(LongSerde())
    for change in (Change(1, 2), Change(None, 2), Change(1, None)):
        assert serde.deserialize(serde.serialize(change)) == change
