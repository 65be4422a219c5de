"""Parts of what a poll brought."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millrace.kafka.columns import PartitionColumns


def columns(*offsets: int, position: int, **other: Any) -> PartitionColumns:
    return PartitionColumns(
        topic="in",
        partition=0,
        offsets=np.array(offsets, dtype=np.int64),
        timestamps=np.array(offsets, dtype=np.int64) * 10,
        keys=pa.array([b"%d" % offset for offset in offsets], pa.binary()),
        values=pa.array([b"v"] * len(offsets), pa.binary()),
        position=position,
        **other,
    )


@pytest.mark.parametrize(
    ("end", "offsets", "position"),
    [(0, [], 0), (3, [], 3), (4, [3], 4), (6, [3], 6), (7, [3, 6], 7), (9, [3, 6], 9), (20, [3, 6], 10)],
)
def test_what_is_before_an_offset_leads_there_at_most(end: int, offsets: list[int], position: int) -> None:
    part = columns(3, 6, position=10).before(end)
    assert part.offsets.tolist() == offsets
    assert part.timestamps.tolist() == [offset * 10 for offset in offsets]
    assert part.keys.to_pylist() == [b"%d" % offset for offset in offsets]
    assert part.position == position


def test_a_part_and_what_is_since_it_are_the_whole() -> None:
    headers = [[("a", b"1")], None, [("b", None)]]
    whole = columns(3, 6, 8, position=10, headers=headers, end=10)
    first, second = whole.before(6), whole.since(6)
    assert [*first.offsets.tolist(), *second.offsets.tolist()] == [3, 6, 8]
    assert first.headers == headers[:1]
    assert second.headers == headers[1:]
    assert (first.end, second.end) == (None, 10)
    assert (first.position, second.position) == (6, 10)


def test_records_that_are_not_wanted_leave_the_position() -> None:
    whole = columns(3, 6, 8, position=10, headers=[[("a", b"1")], None, None])
    part = whole.where(np.array([False, True, True]))
    assert part.offsets.tolist() == [6, 8]
    assert part.keys.to_pylist() == [b"6", b"8"]
    assert part.headers == [None, None]
    assert part.position == 10
    assert whole.where(np.array([True, True, True])) is whole
