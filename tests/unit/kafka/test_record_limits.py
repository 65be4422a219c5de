from __future__ import annotations

import numpy as np
import pytest

from millrace.errors import InvalidTimestampError, RecordTooLargeError
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


NOW = 1_700_000_000_000
HOUR = 3_600_000
BROKER_DEFAULTS = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(HOUR),
    "segment.bytes": "1073741824",
}


def rows_of(settings: dict[str, str], keys: list[bytes | None], timestamps: list[int]) -> list[tuple[int, str]]:
    limits = RecordLimits({"t": TopicLimits.of(settings)}, clock=lambda: NOW)
    found = limits.refused("t", keys, [b"v"] * len(keys), None, np.array(timestamps, dtype=np.int64))
    return [(row, type(error).__name__) for row, error in found]


def test_timestamps_that_the_topic_does_not_take_are_found() -> None:
    """Case E16: the limit itself is taken, and so is a record without a timestamp."""
    times = [NOW + HOUR, NOW + HOUR + 1, 0, -1, 2**63 - 1]
    assert rows_of(BROKER_DEFAULTS, [b"k"] * 5, times) == [(1, "InvalidTimestampError"), (4, "InvalidTimestampError")]
    behind = {**BROKER_DEFAULTS, "message.timestamp.before.max.ms": str(HOUR)}
    assert rows_of(behind, [b"k"] * 3, [NOW - HOUR, NOW - HOUR - 1, -1]) == [(1, "InvalidTimestampError")]
    assert rows_of({**BROKER_DEFAULTS, "message.timestamp.type": "LogAppendTime"}, [b"k"], [2**63 - 1]) == []
    older_broker = {"message.timestamp.difference.max.ms": str(HOUR)}
    assert [row for row, _ in rows_of(older_broker, [b"k"] * 3, [NOW, 0, NOW + 2 * HOUR])] == [1, 2]


def test_the_error_names_topic_timestamp_setting_and_remedy() -> None:
    """Case E16."""
    limits = RecordLimits({"t": TopicLimits.of(BROKER_DEFAULTS)}, clock=lambda: NOW)
    with pytest.raises(InvalidTimestampError) as refused:
        limits.check("t", [b"k"], [b"v"], None, np.array([NOW + 2 * HOUR]))
    assert f"topic t (key b'k') has the timestamp {NOW + 2 * HOUR}" in refused.value.message
    assert "message.timestamp.after.max.ms of the topic is 3600000" in refused.value.message
    assert "raise message.timestamp.after.max.ms of t" in refused.value.remedy


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    compacted = {**BROKER_DEFAULTS, "cleanup.policy": "compact,delete"}
    assert rows_of(compacted, [b"k", None, b"", None], [NOW] * 4) == [
        (1, "RecordRefusedError"),
        (3, "RecordRefusedError"),
    ]


def test_a_record_that_is_refused_for_several_reasons_is_found_once() -> None:
    settings = {**BROKER_DEFAULTS, "cleanup.policy": "compact", "max.message.bytes": "90", "segment.bytes": "80"}
    assert TopicLimits.of(settings).max_message_bytes == 80
    assert rows_of(settings, [None], [NOW + 2 * HOUR]) == [(0, "RecordTooLargeError")]
