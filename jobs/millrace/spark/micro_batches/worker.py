"""The function that runs a task in a Spark task: takes rows, returns one row of results; the task writes to Kafka."""

from __future__ import annotations

import base64
import os
import pickle
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import orjson
import pyarrow as pa
from pyspark import TaskContext

from millrace.errors import (
    BrokerUnavailableError,
    MillraceError,
    StateDirectoryLockedError,
    TaskMigratedError,
    TransactionAbortedError,
)
from millrace.metrics import TaskStatistics
from millrace.spark.plan import QueryPlan, plan_from_bytes
from millrace.spark.statistics import statistics_of
from millrace.spark.task_reports import TaskReporter
from millrace.spark.warm_tasks import BatchRequest, warm_tasks
from millrace.task.batch import TaskBatch
from millrace.task.columns import IntArray
from millrace.task.input import InputBatch
from millrace.task.records import Headers, object_array
from millrace.task.task import TaskAction
from millrace.topology.topic_partition import TopicPartition

_RETRIED = (BrokerUnavailableError, StateDirectoryLockedError, TaskMigratedError, TransactionAbortedError)
"""Errors after which Spark's own second attempt may succeed; every other one of ours would only come again."""


@dataclass(frozen=True)
class TaskResult:
    """The result of a Spark task.

    Args:
        task: name of the task, for example ``1_3``.
        worker: ``host/pid`` of the process that ran it.
        positions: committed offset of each of the task's input partitions; empty where it failed.
        undecided: rows that wait for older records of another input.
        statistics: what it counted and measured; ``None`` where it failed.
        error: why it failed for good.
        next_punctuation_ms: when a punctuation is due by the wall clock, milliseconds since the epoch.
        answer: what the action that came with the batch returned.
    """

    task: str
    worker: str
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    undecided: int = 0
    statistics: TaskStatistics | None = None
    error: MillraceError | None = None
    next_punctuation_ms: int | None = None
    answer: object = None


@dataclass(frozen=True)
class RunTasks:
    """The function for ``mapInArrow``: runs the task of each Spark partition.

    Args:
        plan: the encoded query plan.
        batch: of all tasks, without rows.
        partitions: the tasks of the Spark partitions, where those are known by their number; ``None`` where a task is
            known by the partition of its rows.
        batch_id: number of the batch; unique within ``run_id``.
        run_id: names the start of the query.
        with_rows: whether the Spark partitions carry rows of the batch.
        action: what is done with each task afterwards.
    """

    plan: bytes
    batch: TaskBatch
    partitions: tuple[int, ...] | None
    batch_id: int
    run_id: str
    with_rows: bool
    action: TaskAction | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the task of one Spark partition over its rows, and yields the pickled result."""
        plan = plan_from_bytes(self.plan)
        # The iterator is read to its end in any case: Spark waits for that.
        rows = [_input_batch(batch, plan.topics) for batch in batches if self.with_rows and batch.num_rows]
        partition = self._partition(rows)
        if partition is None:
            return
        result = self._run(plan, partition, rows)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], type=pa.binary())], names=["result"])

    def _partition(self, rows: list[InputBatch]) -> int | None:
        if self.partitions is not None:
            context = TaskContext.get()
            assert context is not None
            number: int = context.partitionId()
            return self.partitions[number]
        return int(rows[0].partition[0]) if rows else None

    def _run(self, plan: QueryPlan, partition: int, rows: list[InputBatch]) -> TaskResult:
        spec = plan.task_spec(partition)
        worker = f"{socket.gethostname()}/{os.getpid()}"
        for batch in rows:
            if batch.partition.min() != partition or batch.partition.max() != partition:
                found = sorted(set(batch.partition.tolist()))
                raise AssertionError(f"Task {spec.name} was given rows of the partitions {found}.")
        try:
            request = BatchRequest(self.plan, partition, self.batch.of(spec.inputs, rows), self.action)
            outcome = warm_tasks().run(request, TaskReporter(plan.progress_address, spec.name))
        except _RETRIED:
            raise
        except MillraceError as error:
            return TaskResult(spec.name, worker, error=error)
        context = TaskContext.get()
        assert context is not None
        statistics = statistics_of(
            outcome,
            batch_id=self.batch_id,
            run_id=self.run_id,
            failed_attempts=context.attemptNumber(),
        )
        return TaskResult(
            spec.name,
            worker,
            positions=outcome.positions,
            undecided=outcome.undecided,
            statistics=statistics,
            next_punctuation_ms=outcome.next_punctuation_ms,
            answer=outcome.answer,
        )


def _input_batch(batch: pa.RecordBatch, topics: tuple[str, ...]) -> InputBatch:
    headers = batch.column("headers")
    several = len(topics) > 1
    return InputBatch(
        topics=topics,
        topic=_integers(batch.column("topic")) if several else np.zeros(batch.num_rows, dtype=np.int64),
        partition=_integers(batch.column("partition")),
        offset=_integers(batch.column("offset")),
        timestamp=_integers(batch.column("timestamp")),
        keys=batch.column("key"),
        values=batch.column("value"),
        headers=None if headers.null_count == len(headers) else object_array(_headers(headers)),
    )


def _headers(column: pa.Array) -> list[Headers | None]:
    return [None if text is None else _parsed(text) for text in column.to_pylist()]


def _parsed(text: str) -> Headers:
    return [
        (header["key"], base64.b64decode(header["value"]) if "value" in header else None)
        for header in orjson.loads(text)
    ]


def _integers(column: pa.Array) -> IntArray:
    integers: IntArray = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return integers
