from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import StateError
from millrace.kafka.commit_metadata import CommitMetadata

LONGS = st.integers(-(2**63), 2**63 - 1)

# Written by org.apache.kafka.streams.processor.internals.TopicPartitionMetadata of Kafka Streams 4.4.0.
WRITTEN_BY_KAFKA_STREAMS = [
    ("Av//////////", CommitMetadata(-1, {})),
    ("AgAAAYvP5Wh7", CommitMetadata(1_700_000_000_123, {})),
    ("AgAAAYvP5Wh7AAAAAQAAAAxtaWxscmFjZS5ydW4AAAAAAAAABw==", CommitMetadata(1_700_000_000_123, {"millrace.run": 7})),
    (
        (
            "AgAAAAAAAAAAAAAAAwAAABFjaGFuZ2Vsb2cuWsOkaGxlcn//////////AAAADG1pbGxyYWNlLnJ1bv/////////9"
            "AAAAJ3N0cmVhbXRpbWUuS1NUUkVBTS1BR0dSRUdBVEUtMDAwMDAwMDAwMwAAAYvP5Wf/"
        ),
        CommitMetadata(
            0,
            {
                "changelog.Zähler": 2**63 - 1,
                "millrace.run": -3,
                "streamtime.KSTREAM-AGGREGATE-0000000003": 1_699_999_999_999,
            },
        ),
    ),
]


@pytest.mark.parametrize(("text", "metadata"), WRITTEN_BY_KAFKA_STREAMS)
def test_the_text_is_that_of_kafka_streams(text: str, metadata: CommitMetadata) -> None:
    assert metadata.encode() == text
    assert CommitMetadata.decode(text) == metadata


@given(LONGS, st.dictionaries(st.text(max_size=20), LONGS, max_size=10))
def test_what_is_encoded_is_decoded_again(partition_time: int, values: dict[str, int]) -> None:
    metadata = CommitMetadata(partition_time, values)
    assert CommitMetadata.decode(metadata.encode()) == metadata


def test_version_1_has_a_partition_time_only() -> None:
    text = base64.b64encode(b"\x01" + (55).to_bytes(8, "big")).decode()
    assert CommitMetadata.decode(text) == CommitMetadata(55)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "reset by hand",
        "ünicode",
        base64.b64encode(b"\x02\x00").decode(),
        base64.b64encode(b"\x03" + bytes(8)).decode(),
        "AgAAAYvP5W",
    ],
)
def test_a_foreign_text_is_no_metadata(text: str | None) -> None:
    assert CommitMetadata.decode(text) is None


@pytest.mark.parametrize(("text", "metadata"), WRITTEN_BY_KAFKA_STREAMS)
@pytest.mark.parametrize("after", ["\0", "!", "\x03W\u00f6", "=", " AgAA", "\n"])
def test_what_follows_the_text_in_memory_is_left_aside(text: str, metadata: CommitMetadata, after: str) -> None:
    assert CommitMetadata.decode(text + after) == metadata


@pytest.mark.parametrize("after", ["A", "AgAA", "x8Zp0Q==", "f////w==", "AAAAAf////8=", "AAAAAGxlZnQgb3Zlcg=="])
def test_letters_that_follow_a_partition_time_are_no_values(after: str) -> None:
    assert CommitMetadata.decode("AgAAAYvP5Wh7" + after) == CommitMetadata(1_700_000_000_123)


@given(LONGS, st.dictionaries(st.text(max_size=20), LONGS, min_size=1, max_size=5), st.binary(max_size=30))
def test_whatever_follows_values_they_are_these(partition_time: int, values: dict[str, int], after: bytes) -> None:
    metadata = CommitMetadata(partition_time, values)
    assert CommitMetadata.decode(metadata.encode() + base64.b64encode(after).decode()) == metadata


@given(st.binary(max_size=60))
def test_no_bytes_make_decoding_fail(data: bytes) -> None:
    decoded = CommitMetadata.decode(base64.b64encode(data).decode())
    assert decoded is None or isinstance(decoded, CommitMetadata)


def test_a_text_that_no_broker_takes_is_refused_with_its_size() -> None:
    assert len(CommitMetadata(0, {"x" * 3_044: 1}).encode()) == 4_092
    with pytest.raises(StateError, match="4096 bytes for 1 values; a broker takes 4095"):
        CommitMetadata(0, {"x" * 3_045: 1}).encode()
