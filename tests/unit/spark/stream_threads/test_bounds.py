"""Bounds of what a stream thread buffers and merges, and the commits that they make due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.spark.stream_threads.messages import CommitNow
from millrace.spark.stream_threads.thread_limits import LEAST_SHARE_BYTES, MOST_BUFFERED_BYTES, ThreadLimits

World = Any
SELDOM_S = 30.0
RECORD_BYTES = 2
"""Of a record of the played reader, beside what an Arrow array has for each of its values: two offsets of 4 bytes."""


def test_a_task_with_a_long_interval_commits_the_first_record_at_once_and_the_next_ones_after_it(world: World) -> None:
    world.interval_s = SELDOM_S
    task = world.task("0_0")
    world.running("0_0")
    world.reader.put(("in", 0), 1)
    assert world.turn_until(lambda: task.batches == [1]) < 0.1
    world.reader.put(("in", 0), 2)
    world.turn_for(20.0)
    world.reader.put(("in", 0), 3)
    world.turn_for(9.5)
    assert task.batches == [1]
    world.turn_until(lambda: task.committed["in", 0] == 3, within_s=1.0)
    assert task.batches == [1, 2]


def test_a_commit_without_records_makes_none_wait(world: World) -> None:
    """Nor does the one behind a start, which renews the offsets."""
    world.interval_s = SELDOM_S
    task = world.task("0_0")
    world.running("0_0")
    world.turn_for(1.5)
    assert task.recommits == 1
    world.reader.put(("in", 0), marker=True)
    world.turn_until(lambda: task.committed["in", 0] == 1)
    world.reader.put(("in", 0), 1)
    assert world.turn_until(lambda: task.committed["in", 0] == 2) < 0.1


def test_a_full_batch_is_committed_without_waiting_for_the_interval(world: World) -> None:
    world.interval_s = SELDOM_S
    task = world.task("0_0")
    world.running("0_0")
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: task.batches == [1])
    world.reader.put(("in", 0), *range(999))
    world.turn_for(5.0)
    assert task.batches == [1]
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: task.batches == [1, 1_000], within_s=0.2)


def test_an_interval_of_nothing_commits_as_soon_as_the_last_commit_has_ended(world: World) -> None:
    world.interval_s = 0.0
    task = world.task("0_0")
    task.batch_s = 0.5
    world.running("0_0")
    for number in range(4):
        world.reader.put(("in", 0), number)
        world.turn_until(lambda expected=number + 1: task.committed["in", 0] == expected, within_s=0.6)
    assert task.batches == [1] * 4


def test_a_commit_that_is_asked_for_does_not_wait_for_a_long_interval(world: World) -> None:
    world.interval_s = SELDOM_S
    task = world.task("0_0")
    world.running("0_0")
    world.reader.put(("in", 0), 1)
    world.turn_until(lambda: task.batches)
    world.reader.put(("in", 0), 2)
    world.turn_for(1.0)
    world.driver.inbox.append(CommitNow(1, ("0_0",)))
    world.turn_until(lambda: task.batches == [1, 1], within_s=0.2)


@pytest.mark.parametrize("most_buffered", [1, 300, 450])
def test_reading_pauses_at_the_buffered_records_of_a_partition_and_a_commit_is_due(
    world: World, most_buffered: int
) -> None:
    world.interval_s = SELDOM_S
    world.most_buffered = most_buffered
    world.reader.most = 300
    task, other = world.task("0_0"), world.task("0_1")
    world.running("0_0", "0_1")
    world.executor.at_once = False
    world.reader.put(("in", 0), *range(1_000))
    world.turn_until(lambda: world.reader.paused)
    polls = -(-most_buffered // 300)
    assert world.reader.positions["in", 0] == polls * 300, "no poll begins once so many are there"
    world.turn_for(SELDOM_S)
    assert world.reader.positions["in", 0] == polls * 300
    world.reader.put(("in", 1), 1)
    world.executor.at_once = True
    world.executor.run_all()
    began = world.clock()
    world.turn_until(lambda: other.committed["in", 1] == 1, within_s=0.2)
    world.turn_until(lambda: task.committed["in", 0] >= 600, within_s=1.0)
    assert max(task.batches) <= polls * 300
    # What does not fill the buffer waits for the interval as ever.
    world.turn_until(lambda: task.committed["in", 0] == 1_000, within_s=SELDOM_S + 1)
    assert (world.clock() - began < 1.0) is (most_buffered == 1)
    world.turn_until(lambda: not world.reader.paused, within_s=0.2)


def test_a_partition_of_a_merge_that_is_full_waits_for_the_other_one_and_loses_nothing(world: World) -> None:
    world.most_buffered = 1
    world.reader.most = 50
    world.reader.hides_end = True
    task = world.task("0_0", "a", "b")
    world.reader.put(("a", 0), *range(0, 200, 2))
    world.running("0_0")
    world.turn_for(3.0)
    assert world.reader.paused == {("a", 0)}
    assert task.processed == []
    world.reader.hides_end = False
    world.reader.put(("b", 0), *range(1, 201, 2))
    world.turn_until(lambda: len(task.processed) == 200)
    assert [topic for topic, _ in task.processed] == ["a", "b"] * 100
    world.turn_until(lambda: not world.reader.paused, within_s=0.2)


@pytest.mark.parametrize("buffered_bytes", [1, 100, 5_000])
def test_a_bound_of_bytes_makes_commits_due_and_stops_no_reading_for_good(
    make_world: Callable[..., World], buffered_bytes: int
) -> None:
    world = make_world(ThreadLimits(buffered_bytes=buffered_bytes))
    world.interval_s = SELDOM_S
    world.reader.most = 40
    task = world.task("0_0")
    world.running("0_0")
    world.executor.at_once = False
    world.reader.put(("in", 0), *range(2_000))
    world.turn_until(lambda: world.reader.paused)
    one_poll = 40 * (RECORD_BYTES + 8) + 8
    read = world.thread._tasks["0_0"].input
    assert buffered_bytes <= read.size_bytes < buffered_bytes + one_poll
    world.executor.at_once = True
    world.executor.run_all()
    # All of it but what does not fill half of the share any more.
    world.turn_until(lambda: 2_000 - task.committed["in", 0] < max(1, buffered_bytes // (2 * RECORD_BYTES)))
    world.turn_until(lambda: task.committed["in", 0] == 2_000, within_s=SELDOM_S + 1)
    world.turn_until(lambda: not world.reader.paused, within_s=0.2)


def test_a_poll_brings_no_more_records_than_it_may(make_world: Callable[..., World]) -> None:
    world = make_world(ThreadLimits(poll_records=7))
    polled: list[int] = []
    poll = world.reader.poll

    def seen(timeout_s: float, max_records: int) -> Any:
        polled.append(max_records)
        return poll(timeout_s, max_records)

    world.reader.poll = seen
    task = world.task("0_0")
    world.running("0_0")
    world.reader.put(("in", 0), *range(20))
    world.turn_until(lambda: task.committed["in", 0] == 20)
    assert set(polled) == {7}


def test_what_a_commit_merges_fits_into_the_share_of_the_cache(make_world: Callable[..., World]) -> None:
    world = make_world(ThreadLimits(cache_bytes=40 * 1_024))
    world.interval_s, world.merges = SELDOM_S, True
    first, second = world.task("0_0"), world.task("0_1")
    first.merged_bytes_per_row = second.merged_bytes_per_row = 400
    world.running("0_0", "0_1")
    for partition in (0, 1):
        world.reader.put(("in", partition), *range(2_000))
    world.turn_until(lambda: first.committed["in", 0] > 1_900 and second.committed["in", 1] > 1_900)
    share = 20 * 1_024
    for task in (first, second):
        # A row for each KiB, then at most twice as many, then as many as fit.
        assert task.batches[:4] == [20, 40, share // 400, share // 400]
        assert max(task.batches) * 400 <= share
        assert task.processed == [("in", offset) for offset in range(len(task.processed))]
    world.driver.assign("0_1")
    world.turn_until(lambda: [each.task for each in world.driver.last_report.tasks] == ["0_1"])
    world.reader.put(("in", 1), *range(2_000))
    world.turn_until(lambda: second.batches[-1] > share // 400)
    assert second.batches[-1] * 400 <= 2 * share


def test_a_task_that_merges_nothing_takes_no_share_of_the_cache(make_world: Callable[..., World]) -> None:
    world = make_world(ThreadLimits(cache_bytes=1))
    task = world.task("0_0")
    world.running("0_0")
    world.reader.put(("in", 0), *range(500))
    world.turn_until(lambda: task.committed["in", 0] == 500)
    assert task.batches == [500]


def test_inputs_are_merged_by_time_in_batches_of_any_number_of_rows(make_world: Callable[..., World]) -> None:
    world = make_world(ThreadLimits(cache_bytes=3 * 1_024))
    world.interval_s, world.merges = SELDOM_S, True
    task = world.task("0_0", "a", "b")
    task.merged_bytes_per_row = 1_024
    world.running("0_0")
    world.reader.put(("a", 0), *range(0, 100, 2))
    world.reader.put(("b", 0), *range(1, 101, 2))
    world.turn_until(lambda: len(task.processed) == 100)
    assert [topic for topic, _ in task.processed] == ["a", "b"] * 50
    assert max(task.batches) <= 3


def test_a_bound_that_is_not_set_leaves_each_partition_a_least_share() -> None:
    unset, small = ThreadLimits(), ThreadLimits(buffered_bytes=1_000)
    assert [unset.partition_bytes(count) for count in (0, 1, 4)] == [
        MOST_BUFFERED_BYTES,
        MOST_BUFFERED_BYTES,
        MOST_BUFFERED_BYTES // 4,
    ]
    assert unset.partition_bytes(1_000) == LEAST_SHARE_BYTES
    assert [small.partition_bytes(count) for count in (1, 4, 2_000)] == [1_000, 250, 1]
