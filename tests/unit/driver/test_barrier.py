from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from millrace.driver.barrier import between_batches
from millrace.errors import OperationError


def is_free(lock: Any) -> bool:
    free: list[bool] = []

    def look() -> None:
        free.append(lock.acquire(blocking=False))
        if free[0]:
            lock.release()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return free[0]


def test_all_queries_are_held_inside_and_free_after(make_query: Callable[..., Any]) -> None:
    queries = [make_query(1), make_query(0)]
    with between_batches(queries, timeout_s=1):
        assert not any(is_free(query.lock) for query in queries)
    assert all(is_free(query.lock) for query in queries)


def test_a_batch_that_does_not_end_is_named_and_every_lock_given_back(make_query: Callable[..., Any]) -> None:
    idle, busy = make_query(0), make_query(1)
    inside, leave = threading.Event(), threading.Event()

    def batch() -> None:
        with busy.lock:
            inside.set()
            leave.wait(5)

    thread = threading.Thread(target=batch)
    thread.start()
    inside.wait(5)
    with (
        pytest.raises(OperationError, match=r"app-1 was still inside a batch after 0\.05 s"),
        between_batches([busy, idle], timeout_s=0.05),
    ):
        pytest.fail("the barrier was passed during a batch")
    assert is_free(idle.lock)
    leave.set()
    thread.join()
    assert is_free(busy.lock)


def test_locks_are_given_back_when_the_body_raises(make_query: Callable[..., Any]) -> None:
    query = make_query()
    with pytest.raises(ValueError, match="body"), between_batches([query], timeout_s=1):
        raise ValueError("body")
    assert is_free(query.lock)
