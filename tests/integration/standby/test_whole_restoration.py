"""Whole restorations through tasks: several at once, and a death in the middle of the loads."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from millrace.state import RestoreProgress
from millrace.state.replay import BATCH_RECORDS
from millrace.task.batch import TaskBatch
from millrace.task.input import OffsetRange
from millrace.task.spec import TaskSpec
from millrace.task.task import Task
from tests.integration.standby.counting import MINUTE, PARTITIONS, Counting

KEYS = 3 * BATCH_RECORDS
STORES = 2


def restored_at_once(specs: Sequence[TaskSpec], on_progress: Callable[[RestoreProgress], None]) -> None:
    def restored(spec: TaskSpec) -> None:
        task = Task(spec, on_progress)
        try:
            task.run_batch(TaskBatch([], {topic_partition: OffsetRange(0, 0, 0) for topic_partition in spec.inputs}))
        finally:
            task.close()

    with ThreadPoolExecutor(len(specs)) as threads:
        list(threads.map(restored, specs))


def restored_until_killed(specs: Sequence[TaskSpec]) -> None:
    """Dies once a part of a store is written, which is before any of them is whole."""

    def look(progress: RestoreProgress) -> None:
        if progress.records and progress.remaining:
            os.kill(os.getpid(), signal.SIGKILL)

    restored_at_once(specs, look)


@pytest.mark.kills
def test_tasks_that_restore_at_once_and_die_in_the_middle_have_exact_stores_at_the_next_start(
    make_counting: Callable[..., Counting],
) -> None:
    counting = make_counting(settings={"restore.threads": PARTITIONS})
    counting.send([(f"k{number}", "v", MINUTE) for number in range(KEYS)])
    counting.process("first")
    plan = counting.plan("restored")
    specs = [plan.task_spec(partition) for partition in range(PARTITIONS)]

    child = multiprocessing.get_context("spawn").Process(target=restored_until_killed, args=(specs,))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL

    seen: list[RestoreProgress] = []
    restored_at_once(specs, seen.append)
    whole = {(each.partition, each.store): each for each in seen}
    assert len(whole) == PARTITIONS * STORES
    assert sum(each.records for each in whole.values()) == KEYS * STORES, "nothing of the first attempt counts"
    assert {each.remaining for each in whole.values()} == {0}
    assert counting.contents("restored") == counting.contents("first")
