from __future__ import annotations

import threading
from typing import Any

import pytest

from millrace.driver.driver_operations import TaskGate
from millrace.errors import OperationError
from tests.unit.driver.conftest import FakeQuery


def running(*numbers: int) -> list[FakeQuery]:
    queries = [FakeQuery(number) for number in numbers]
    for query in queries:
        query.is_active = True
    return queries


def look(task: Any) -> object:
    return task


def test_an_action_runs_on_every_task_while_no_query_is_inside_a_batch() -> None:
    queries = running(1, 0)
    with TaskGate(lambda: queries, timeout_s=5.0).hold() as tasks:
        free = []
        for query in queries:
            other = threading.Thread(target=lambda held=query: free.append(held.lock.acquire(blocking=False)))
            other.start()
            other.join()
        assert free == [False, False]
        assert tasks.run(look) == {"0_0": look, "1_0": look}
    assert all(query.lock.acquire(blocking=False) for query in queries)


def test_it_is_refused_before_there_are_tasks_and_while_a_query_is_down() -> None:
    with (
        pytest.raises(OperationError, match="no tasks yet"),
        TaskGate(lambda: (), timeout_s=5.0).hold(),
    ):
        pass
    queries = running(0, 1)
    queries[1].die(OperationError("gone"))
    with (
        pytest.raises(OperationError, match="app-1 does not run"),
        TaskGate(lambda: queries, timeout_s=5.0).hold(),
    ):
        pass


def test_nothing_is_purged_while_an_operation_still_reads_it() -> None:
    queries = running(0, 1)
    gate = TaskGate(lambda: queries, timeout_s=5.0)

    def fail() -> None:
        with gate.without_purge():
            assert [query.purges for query in queries] == [False, False]
            raise OperationError("disk")

    with pytest.raises(OperationError, match="disk"):
        fail()
    assert [query.purges for query in queries] == [True, True]
