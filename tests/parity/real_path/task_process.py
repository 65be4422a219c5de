"""The process that runs a scenario's tasks, which its owner kills, or which dies at an armed crash point."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from millrace.spark.plan import QueryPlan, plan_from_bytes
from millrace.task.batch import TaskBatch
from millrace.task.crash_points import DIRECTORY_VARIABLE
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from millrace.topology.topic_partition import TopicPartition
from tests.prepared import CONTEXT

Positions = Mapping[TopicPartition, int]

_ANSWER_LIMIT_S = 60


class KilledError(Exception):
    """The process died before it could answer."""


@dataclass(frozen=True)
class _Batch:
    """A batch for the task of a plan, by the plan's number."""

    plan: int
    ranges: Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True)
class _Close:
    """Closes the task of a plan, if it is open."""

    plan: int


class TaskProcess:
    """A process with the tasks of one application, each opened with its first batch.

    Args:
        plans: one for each sub-topology; only their first partitions are run.
        crash_points: directory of armed crash points.
    """

    def __init__(self, plans: list[QueryPlan], crash_points: Path) -> None:
        self._connection, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(
            target=_serve, args=(theirs, [plan.to_bytes() for plan in plans], str(crash_points)), daemon=True
        )
        self._process.start()
        theirs.close()

    def run_batch(self, plan: int, ranges: Mapping[TopicPartition, OffsetRange]) -> Positions:
        """Runs a batch and gives the positions after it.

        Raises:
            KilledError: the process died meanwhile.
            AssertionError: the task failed, or gave no answer.
        """
        return self._ask(_Batch(plan, ranges))

    def close_task(self, plan: int) -> None:
        """Closes a task in an orderly way; its next batch opens it again."""
        self._ask(_Close(plan))

    def kill(self) -> None:
        """Ends the process at once, if it still runs."""
        self._process.kill()
        self._process.join(10)
        self._connection.close()

    def _ask(self, request: _Batch | _Close) -> Positions:
        try:
            self._connection.send(request)
            assert self._connection.poll(_ANSWER_LIMIT_S), f"no answer to {request}"
            answer: Positions | str = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise KilledError from error
        assert not isinstance(answer, str), answer
        return answer


def _serve(connection: Connection, encoded: list[bytes], crash_points: str) -> None:
    os.environ[DIRECTORY_VARIABLE] = crash_points
    plans = [plan_from_bytes(each) for each in encoded]
    tasks: dict[int, Task] = {}
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            answer: Positions | str = _answer(request, plans, tasks)
        except Exception:
            answer = traceback.format_exc()
        connection.send(answer)


def _answer(request: _Batch | _Close, plans: list[QueryPlan], tasks: dict[int, Task]) -> Positions:
    plan = plans[request.plan]
    if isinstance(request, _Close):
        task = tasks.pop(request.plan, None)
        if task is not None:
            task.close()
        return {}
    if request.plan not in tasks:
        tasks[request.plan] = Task(plan.task_spec(0))
    rows = [
        read_gap(plan.config, plan.topics, topic_partition, start=offsets.start, end=offsets.end)[0]
        for topic_partition, offsets in request.ranges.items()
        if offsets.end > offsets.start
    ]
    return dict(tasks[request.plan].run_batch(TaskBatch(rows, request.ranges)).positions)
