from __future__ import annotations

from typing import Any

from millrace.driver.progress import input_ends, lag_by_partition, observe
from millrace.driver.query import QueryProgress
from millrace.driver.status import InputEnd, SubTopologyStatus

P = ("in", 0)


def look(
    before: SubTopologyStatus | None, *, now: float, end: int, moved: bool = False, **progress: Any
) -> SubTopologyStatus:
    fields = {"positions": {P: 10}, **progress}
    return observe(
        before, QueryProgress(sub_topology=0, **fields), {P: end}, moved=moved, active=True, restarts=0, now=now
    )


def test_lag_is_never_negative() -> None:
    """Case M01."""
    assert lag_by_partition({P: 130}, {P: 100}) == {P: 0}
    assert lag_by_partition({P: 130}, {P: 140}) == {P: 10}


def test_a_partition_without_position_or_end_has_no_lag() -> None:
    """Case M02."""
    assert lag_by_partition({P: -1001, ("in", 1): 3, ("in", 2): 4}, {P: 29, ("in", 2): -1}) == {}


def test_lag_counts_from_when_it_began() -> None:
    first = look(None, now=1, end=10)
    assert (first.lag, first.lag_since) == (0, None)
    second = look(first, now=2, end=15)
    assert (second.lag, second.lag_since) == (5, 2)
    assert look(second, now=3, end=20).lag_since == 2
    assert look(second, now=3, end=10).lag_since is None


def test_offsets_batches_and_restores_are_progress_and_time_is_not() -> None:
    first = look(None, now=1, end=20)
    assert first.last_progress_at == 1
    assert look(first, now=5, end=20).last_progress_at == 1
    assert look(first, now=5, end=20, moved=True).last_progress_at == 5
    assert look(first, now=5, end=20, batches=1).last_progress_at == 5
    restoring = look(first, now=5, end=20, restore_remaining={"0_0": 9})
    assert restoring.last_progress_at == 5
    assert look(restoring, now=6, end=20, restore_remaining={"0_0": 9}).last_progress_at == 5


def test_a_restore_counts_as_work_to_do_without_lag() -> None:
    assert look(None, now=1, end=10, restore_remaining={"0_0": 9}).lag_since == 1


def test_lag_is_unknown_while_nothing_is_known() -> None:
    assert look(None, now=1, end=10, positions={}).lag is None


def test_a_reader_is_held_back_from_when_it_stands_before_an_open_transaction_until_that_ends() -> None:
    topic_partition = ("in", 0)

    def look(before: dict[Any, InputEnd], position: int, stable: int, high: int, now: float) -> dict[Any, InputEnd]:
        return input_ends(
            before, {topic_partition: position}, {topic_partition: stable}, {topic_partition: high}, now=now
        )

    def since(ends: dict[Any, InputEnd]) -> float | None:
        return ends[topic_partition].held_back_since

    reading = look({}, 30, 40, 100, 1.0)
    assert since(reading) is None, "it has still something to read"
    begun = look(reading, 40, 40, 100, 2.0)
    assert begun[topic_partition] == InputEnd(last_stable=40, high_watermark=100, held_back_since=2.0)
    assert since(look(begun, 40, 40, 120, 5.0)) == 2.0
    moved = look(begun, 60, 60, 120, 6.0)
    assert since(moved) == 6.0, "another transaction"
    assert since(look(moved, 120, 120, 120, 7.0)) is None
    assert since(look(moved, 60, 60, 60, 7.0)) is None
