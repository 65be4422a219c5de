from __future__ import annotations

from millrace.spark.micro_batches.due_punctuations import DuePunctuations


class Clock:
    now_ms = 1_000.0

    def __call__(self) -> float:
        return self.now_ms


def test_nothing_is_due_where_nothing_is_scheduled() -> None:
    due = DuePunctuations(Clock())
    assert due.take() == []
    assert due.next_s() is None
    due.set(0, 500)
    due.set(0, None)
    assert due.take() == []
    assert due.next_s() is None


def test_tasks_are_due_from_their_time_on() -> None:
    clock = Clock()
    due = DuePunctuations(clock)
    due.set(1, 1_001)
    due.set(0, 1_000)
    due.set(2, 900)
    assert due.next_s() == 0
    assert due.take() == [0, 2]
    for task in (0, 2):
        due.set(task, 5_000)
    clock.now_ms = 1_099
    assert due.take() == []
    assert due.next_s() == 0.001
    clock.now_ms = 1_100
    assert due.take() == [1]


def test_a_restart_forgets_what_was_scheduled() -> None:
    due = DuePunctuations(Clock())
    due.set(1, 900)
    due.clear()
    assert due.take() == []
