"""The lock that is held with the tasks standing at a commit."""

from __future__ import annotations

import threading

from millrace.driver.stream_threads.pause_lock import PauseLock


class Tasks:
    """What the lock pauses; whether they stop in time is up to the test."""

    def __init__(self) -> None:
        self.stand = True
        self.journal: list[str] = []
        self.limits: list[float] = []

    def pause(self, timeout_s: float) -> bool:
        self.journal.append("pause")
        self.limits.append(timeout_s)
        return self.stand

    def resume(self) -> None:
        self.journal.append("resume")


def taken_elsewhere(lock: PauseLock) -> bool:
    """Whether another thread cannot take the lock now."""
    found: list[bool] = []

    def take() -> None:
        found.append(lock.acquire(blocking=False))
        if found[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return not found[0]


def test_it_is_held_with_the_tasks_paused_and_given_back_with_them_resumed() -> None:
    tasks = Tasks()
    lock = PauseLock(tasks.pause, tasks.resume)
    assert lock.acquire(timeout=3.0)
    assert tasks.journal == ["pause"]
    assert 2.9 < tasks.limits[0] <= 3.0
    assert taken_elsewhere(lock)
    lock.release()
    assert tasks.journal == ["pause", "resume"]
    assert not taken_elsewhere(lock)


def test_tasks_that_do_not_stop_in_time_go_on_and_the_lock_is_free() -> None:
    tasks = Tasks()
    tasks.stand = False
    lock = PauseLock(tasks.pause, tasks.resume)
    assert not lock.acquire(timeout=0.01)
    assert tasks.journal == ["pause", "resume"]
    assert not taken_elsewhere(lock)


def test_who_holds_it_may_take_it_again_and_the_tasks_stand_until_the_last_is_given_back() -> None:
    tasks = Tasks()
    lock = PauseLock(tasks.pause, tasks.resume)
    with lock:
        assert lock.acquire(timeout=1.0)
        lock.release()
        assert tasks.journal == ["pause"]
    assert tasks.journal == ["pause", "resume"]


def test_who_does_not_wait_pauses_nothing_but_keeps_others_out() -> None:
    tasks = Tasks()
    lock = PauseLock(tasks.pause, tasks.resume)
    assert lock.acquire(blocking=False)
    assert taken_elsewhere(lock)
    lock.release()
    assert tasks.journal == []


def test_who_did_not_wait_may_still_take_it_with_the_tasks_paused() -> None:
    tasks = Tasks()
    lock = PauseLock(tasks.pause, tasks.resume)
    assert lock.acquire(blocking=False)
    assert lock.acquire(timeout=1.0)
    assert tasks.journal == ["pause"]
    lock.release()
    lock.release()
    assert tasks.journal == ["pause", "resume"]
