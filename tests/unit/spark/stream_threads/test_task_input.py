"""What is buffered of a task's input, and what a batch takes of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from millrace.kafka.columns import PartitionColumns
from millrace.spark.stream_threads import task_input
from millrace.spark.stream_threads.task_input import TASK_IDLE_DISABLED, TaskInput
from millrace.task.input import OffsetRange

A, B = ("a", 0), ("b", 0)


def read(
    topic_partition: tuple[str, int],
    *offsets: int,
    position: int | None = None,
    end: int | None = None,
    log_end: int | None = None,
    size: int = 1,
) -> PartitionColumns:
    """What a poll brought."""
    return PartitionColumns(
        topic=topic_partition[0],
        partition=topic_partition[1],
        offsets=np.array(offsets, dtype=np.int64),
        timestamps=np.array(offsets, dtype=np.int64),
        keys=pa.array([b""] * len(offsets), type=pa.binary()),
        values=pa.array([b"x" * size] * len(offsets), type=pa.binary()),
        position=offsets[-1] + 1 if position is None else position,
        end=end,
        log_end=log_end,
    )


def offsets_of(given: TaskInput) -> list[int]:
    rows, _ = given.batch(0.0)
    return [offset for batch in rows for offset in batch.offset.tolist()]


def test_a_range_reaches_from_the_commit_to_behind_the_markers_that_were_passed() -> None:
    given = TaskInput([A], {A: 5}, most_records=10)
    given.add(read(A, 6, 7, position=8))
    assert given.batch(0.0)[1] == {A: OffsetRange(5, 8, 9)}
    given.add(read(A, position=9, end=9))
    assert given.batch(0.0)[1] == {A: OffsetRange(5, 9, 9)}
    assert offsets_of(given) == [6, 7]


def test_what_a_batch_leaves_is_more_to_come() -> None:
    given = TaskInput([A], {A: 0}, most_records=3)
    given.add(read(A, 0, 1))
    given.add(read(A, 2, 5, position=7, end=7))
    assert given.batch(0.0)[1] == {A: OffsetRange(0, 2, 3)}
    given.commit_to({A: 2})
    assert given.batch(0.0)[1] == {A: OffsetRange(2, 7, 7)}


def test_one_part_that_is_larger_than_a_batch_is_taken_whole() -> None:
    given = TaskInput([A], {A: 0}, most_records=3)
    given.add(read(A, *range(8)))
    assert offsets_of(given) == list(range(8))


def test_a_batch_takes_no_more_bytes_than_an_array_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_input, "MOST_BATCH_BYTES", 100)
    given = TaskInput([A], {A: 0}, most_records=100)
    given.add(read(A, 0, size=50))
    given.add(read(A, 1, size=60))
    assert given.is_full
    assert offsets_of(given) == [0]


def test_a_partition_that_has_its_share_of_the_memory_is_read_no_further() -> None:
    given = TaskInput([A, B], {A: 0, B: 0}, most_records=1_000)
    given.most_bytes = 100
    given.add(read(A, 0, size=60))
    assert given.is_full
    assert not given.overflowing()
    given.add(read(A, 1, size=60))
    assert given.overflowing() == [A]
    given.commit_to({A: 1, B: 0})
    assert not given.overflowing()


def test_rows_behind_a_commit_in_the_middle_of_what_was_read_stay() -> None:
    given = TaskInput([A], {A: 0}, most_records=100)
    given.add(read(A, 0, 1, 4, 5))
    given.commit_to({A: 4})
    assert offsets_of(given) == [4, 5]
    assert given.records == 2
    given.commit_to({A: 6})
    assert given.records == given.size_bytes == 0


@pytest.mark.parametrize("position", [1, 7])
def test_a_commit_that_is_no_position_of_what_was_read_is_an_error(position: int) -> None:
    given = TaskInput([A], {A: 2}, most_records=100)
    given.add(read(A, 2, 3))
    with pytest.raises(AssertionError, match="a-0 was committed"):
        given.commit_to({A: position})


def test_nothing_is_certain_while_one_input_has_more_and_nothing_buffered() -> None:
    given = TaskInput([A, B], {A: 0, B: 0}, most_records=100)
    given.add(read(A, 0))
    assert given.decidable_in(0.0) == float("inf")
    given.add(read(B, position=0, end=0))
    assert given.decidable_in(0.0) == 0


def test_the_answer_that_brings_the_last_record_of_a_log_says_that_it_is_the_last() -> None:
    given = TaskInput([A, B], {A: 0, B: 0}, most_records=100)
    given.add(read(A, 0, log_end=1))
    given.add(read(B, position=0, end=0))
    assert given.batch(0.0)[1] == {A: OffsetRange(0, 1, 1), B: OffsetRange(0, 0, 0)}


@pytest.mark.parametrize(
    ("log_end", "expected"), [(None, False), (1, False), (2, False), (1_000, False), (1_001, True)]
)
def test_a_marker_or_what_has_just_come_is_no_backlog(log_end: int | None, *, expected: bool) -> None:
    given = TaskInput([A], {A: 0}, most_records=250_000)
    given.add(read(A, 0, log_end=log_end))
    assert given.has_backlog is expected


def test_markers_only_are_seen_as_such() -> None:
    given = TaskInput([A], {A: 3}, most_records=10)
    assert not given.has_passed_markers
    given.add(read(A, position=4, end=4))
    assert given.has_passed_markers
    given.commit_to({A: 4})
    assert not given.has_passed_markers


def test_producers_of_an_empty_input_are_waited_for_from_the_moment_on_that_it_is_missed() -> None:
    given = TaskInput([A, B], {A: 0, B: 0}, most_records=100, idle_s=5.0)
    given.add(read(A, 0, end=1))
    given.add(read(B, position=0, end=0))
    assert given.decidable_in(10.0) == 5.0
    assert given.decidable_in(14.0) == 1.0
    assert given.decidable_in(15.0) == 0
    assert given.batch(15.0)[1] == {A: OffsetRange(0, 1, 2), B: OffsetRange(0, 0, 0)}
    given.add(read(B, 0, end=1))
    assert given.decidable_in(16.0) == 0
    # Behind the last record of each its producers would be waited for: only what is older than both is certain.
    assert given.batch(16.0)[1] == {A: OffsetRange(0, 1, 2), B: OffsetRange(0, 1, 2)}
    given.commit_to({A: 0, B: 1})
    assert given.decidable_in(17.0) == 5.0, "it was there, and is missed again"


def test_what_the_broker_has_is_waited_for_however_long_it_takes() -> None:
    given = TaskInput([A, B], {A: 0, B: 0}, most_records=100, idle_s=5.0)
    given.add(read(A, 0, end=1))
    assert given.decidable_in(1_000.0) == float("inf")


def test_without_any_idling_what_is_buffered_is_processed_whatever_the_broker_has() -> None:
    given = TaskInput([A, B], {A: 0, B: 0}, most_records=100, idle_s=TASK_IDLE_DISABLED)
    assert given.decidable_in(0.0) == float("inf")
    given.add(read(A, 0, 1))
    assert given.decidable_in(0.0) == 0
    assert given.batch(0.0)[1] == {A: OffsetRange(0, 2, 2), B: OffsetRange(0, 0, 0)}
    # Those that a batch has no room for are buffered: they are in their turn, and nothing is waited for.
    small = TaskInput([A, B], {A: 0, B: 0}, most_records=1, idle_s=TASK_IDLE_DISABLED)
    small.add(read(A, 0))
    small.add(read(A, 1))
    small.add(read(B, 7))
    assert small.batch(0.0)[1] == {A: OffsetRange(0, 1, 2), B: OffsetRange(0, 8, 8)}


def limited(most_rows: int, **parts: tuple[int, ...]) -> TaskInput:
    """An input of partitions of which so many records are buffered in parts, with a limit of rows."""
    topic_partitions = [(name, 0) for name in parts]
    given = TaskInput(topic_partitions, dict.fromkeys(topic_partitions, 0), most_records=1_000)
    for name, sizes in parts.items():
        at = 0
        for size in sizes:
            given.add(read((name, 0), *range(at, at + size), position=at + size + 1))
            at += size + 1
    given.most_rows = most_rows
    return given


def test_a_limit_of_rows_divides_what_a_poll_brought_and_what_is_left_comes_next() -> None:
    given = limited(3, a=(5, 2))
    taken = []
    while given.records:
        offsets = offsets_of(given)
        taken.append(offsets)
        assert len(offsets) <= 3
        given.commit_to({A: given.batch(0.0)[1][A].end})
    # Behind the last record of each part was a marker.
    assert taken == [[0, 1, 2], [3, 4, 6], [7]]
    assert given.committed == {A: 9}
    assert given.size_bytes == 0


def test_a_batch_that_ends_within_a_part_is_not_the_end_of_the_partition() -> None:
    given = limited(2, a=(3,))
    assert given.batch(0.0)[1] == {A: OffsetRange(0, 2, 3)}
    given.most_rows = 3
    assert given.batch(0.0)[1] == {A: OffsetRange(0, 4, 5)}


@pytest.mark.parametrize(
    ("most_rows", "taken"), [(1, (1, 1)), (2, (1, 1)), (3, (1, 2)), (8, (4, 4)), (12, (4, 8)), (100, (4, 20))]
)
def test_partitions_share_the_rows_and_each_that_has_some_gives_one(most_rows: int, taken: tuple[int, int]) -> None:
    rows, _ = limited(most_rows, a=(4,), b=(20,)).batch(0.0)
    assert tuple(len(batch) for batch in rows) == taken


def test_rows_of_all_partitions_make_a_batch_full_where_their_number_is_limited() -> None:
    assert limited(24, a=(4,), b=(20,)).is_full
    assert not limited(25, a=(4,), b=(20,)).is_full


def test_a_partition_is_full_and_read_no_further_at_its_buffered_records() -> None:
    given = TaskInput([A, B], {A: 0, B: 0}, most_records=10, most_buffered=3)
    given.add(read(A, 0, 1))
    assert not given.is_full
    assert not given.overflowing()
    given.add(read(A, 2))
    assert given.is_full
    assert given.overflowing() == [A]
    given.commit_to({A: 1, B: 0})
    assert not given.is_full
    assert not given.overflowing()
    many = TaskInput([A], {A: 0}, most_records=2, most_buffered=100)
    many.add(read(A, 0, 1, 2, 3))
    assert many.is_full
    assert many.overflowing() == [A], "two batches are enough"


def test_nothing_is_full_that_has_no_record_however_small_its_share() -> None:
    given = TaskInput([A], {A: 0}, most_records=10)
    given.most_bytes = 1
    assert not given.is_full
    assert not given.overflowing()
    given.add(read(A, 0, size=50))
    assert given.is_full
    assert given.overflowing() == [A]
    assert offsets_of(given) == [0]
