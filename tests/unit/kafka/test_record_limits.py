from __future__ import annotations

import pytest

from millrace.errors import RecordTooLargeError
from millrace.kafka.record_limits import DEFAULT_MAX_MESSAGE_BYTES, RecordLimits, TopicLimits


def of_bytes(largest: int) -> TopicLimits:
    return TopicLimits(max_message_bytes=largest)


def test_a_list_that_grows_past_the_limit_is_refused_at_its_eleventh_value() -> None:
    """Case P03."""
    limits = RecordLimits({"changelog": of_bytes(1_048_576)})
    for count in range(1, 11):
        limits.check("changelog", [b"k"], [b"x" * (count * 102_400)], None)
    with pytest.raises(RecordTooLargeError, match=r"topic changelog has 11264\d\d bytes \(key b'k'\).* takes 1048576"):
        limits.check("changelog", [b"k"], [b"x" * (11 * 102_400)], None)


def test_headers_count() -> None:
    limits = RecordLimits({"t": of_bytes(1_000)})
    limits.check("t", [b"k"], [b"x" * 500], [None])
    with pytest.raises(RecordTooLargeError):
        limits.check("t", [b"k"], [b"x" * 500], [[("name", b"y" * 500)]])


def test_the_largest_key_and_the_largest_value_may_belong_to_different_records() -> None:
    limits = RecordLimits({"t": of_bytes(1_000)})
    limits.check("t", [b"k" * 600, None], [None, b"v" * 600], None)


def test_a_topic_without_a_known_limit_has_the_brokers_default() -> None:
    limits = RecordLimits({"small": of_bytes(2_000), "large": of_bytes(5_000_000)})
    assert (limits.of("other").max_message_bytes, limits.smallest, limits.largest) == (
        DEFAULT_MAX_MESSAGE_BYTES,
        2_000,
        5_000_000,
    )
    assert RecordLimits().smallest == RecordLimits().largest == DEFAULT_MAX_MESSAGE_BYTES
