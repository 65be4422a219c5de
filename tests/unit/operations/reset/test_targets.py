"""Where partitions go, computed without a broker."""

from __future__ import annotations

from datetime import timedelta

import pytest

from millrace.errors import OperationError
from millrace.operations.reset import (
    ShiftBy,
    Target,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
    parse_duration,
    parse_offsets,
    parse_time,
)
from millrace.operations.reset.targets import PartitionLog, moves

IN = ("in", 0)


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (ToEarliest(), 10),
        (ToLatest(), 100),
        (ToOffset(42), 42),
        (ToOffset(7), 10),
        (ToOffset(1_000), 100),
        (ShiftBy(-20), 30),
        (ShiftBy(-45), 10),
        (ShiftBy(70), 100),
        (ToOffsets({IN: 33}), 33),
        (ToOffsets({}), 50),
        (ToTime(5), 61),
    ],
)
def test_every_target_gives_an_offset_inside_the_log(target: Target, after: int) -> None:
    (move,) = moves(target, {IN: PartitionLog(begin=10, end=100, committed=50, at_time=61)}).values()
    assert move.after == after
    assert move.before == 50


def test_what_the_log_does_not_have_is_told() -> None:
    (move,) = moves(ToOffset(7), {IN: PartitionLog(begin=10, end=100)}).values()
    assert str(move) == "from none to 10 (asked for 7, which the log does not have)"


def test_a_time_after_the_last_record_is_the_end() -> None:
    """Case R03."""
    logs = {
        ("in", 0): PartitionLog(begin=0, end=3, at_time=1),
        ("in", 1): PartitionLog(begin=0, end=0),
        ("in", 2): PartitionLog(begin=0, end=1),
    }
    assert {topic_partition: move.after for topic_partition, move in moves(ToTime(150), logs).items()} == {
        ("in", 0): 1,
        ("in", 1): 0,
        ("in", 2): 1,
    }


@pytest.mark.parametrize("target", [ShiftBy(1), ToOffsets({IN: 3})])
def test_nothing_is_shifted_or_kept_where_nothing_is_committed(target: Target) -> None:
    logs = {IN: PartitionLog(begin=0, end=9, committed=4), ("in", 1): PartitionLog(begin=0, end=9)}
    with pytest.raises(OperationError, match="not committed an offset of in-1"):
        moves(target, logs)


def test_an_offset_of_a_partition_that_is_not_reset_is_refused() -> None:
    with pytest.raises(OperationError, match="not among those to reset: other-3"):
        moves(ToOffsets({("other", 3): 1}), {IN: PartitionLog(begin=0, end=9, committed=1)})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01.500", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02T00:00:00", 86_400_000),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_times_are_utc_unless_they_name_a_zone(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


def test_durations_are_those_of_iso_8601() -> None:
    assert parse_duration("P1DT2H3M4.5S") == timedelta(days=1, hours=2, minutes=3, seconds=4.5)
    assert parse_duration("PT10M") == timedelta(minutes=10)
    for text in ("P", "PT", "10M", "P1H", ""):
        with pytest.raises(OperationError, match="no duration"):
            parse_duration(text)


def test_offsets_are_read_from_lines_as_kafka_s_tools_write_them() -> None:
    assert parse_offsets('in,0,5\n\n"in",1,7\n') == ToOffsets({("in", 0): 5, ("in", 1): 7})
    with pytest.raises(OperationError, match="Line 2 of the offsets is 'in,x,1'"):
        parse_offsets("in,0,5\nin,x,1")
    with pytest.raises(OperationError, match="Line 2 gives in-0 once more"):
        parse_offsets("in,0,5\nin,0,6")
    with pytest.raises(OperationError, match="'tomorrow' is no time"):
        parse_time("tomorrow")
