"""A task that this process holds, as used by a stream thread; it stays open after the thread's end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from millrace.errors import MillraceError, TaskMigratedError
from millrace.kafka.admin import KafkaAdmin
from millrace.spark.global_ends import GlobalEnds
from millrace.spark.task_reports import TaskReporter
from millrace.spark.warm_tasks import HeldTask, WarmTasks
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.input import InputBatch, OffsetRange
from millrace.task.spec import TaskSpec
from millrace.task.task import Task
from millrace.topology.topic_partition import TopicPartition

T = TypeVar("T")


class HeldThreadTask:
    """A task that a stream thread opens, or takes as it is if it is open in this process.

    Args:
        spec: the task.
        warm: the open tasks of this process.
        reporter: tells the driver of restorations and lost transactions.
        act: does a named action with a task.
        is_stale: whether what this process holds open of it is out of date, so that it is closed first.
    """

    def __init__(
        self,
        spec: TaskSpec,
        warm: WarmTasks,
        reporter: TaskReporter,
        act: Callable[[Task, str, Mapping[str, object]], object],
        *,
        is_stale: bool = False,
    ) -> None:
        self._spec = spec
        self._warm = warm
        self._reporter = reporter
        self._act = act
        self._is_stale = is_stale
        self._held: HeldTask | None = None
        self._global_ends = GlobalEnds(
            KafkaAdmin(spec.config.bootstrap_servers, settings=spec.config.client_settings("admin.")),
            spec.part.global_stores,
        )

    @property
    def name(self) -> str:
        """The task's name."""
        return self._spec.name

    @property
    def inputs(self) -> tuple[TopicPartition, ...]:
        """The task's input partitions."""
        return self._spec.inputs

    def open(self) -> BatchOutcome:
        """Opens the task, or takes it over as the thread before left it."""
        held = self._held = self._warm.hold(self._spec, self._reporter)
        if self._is_stale:
            held.task.close()
            self._is_stale = False
        return self._used(held, lambda task: task.run_batch(TaskBatch([], {}, global_ends=self._global_ends.now())))

    def run(
        self, rows: list[InputBatch], ranges: Mapping[TopicPartition, OffsetRange], *, recommit: bool
    ) -> BatchOutcome:
        """Processes and commits a batch."""
        batch = TaskBatch(rows, ranges, recommit=recommit, global_ends=self._global_ends.now())
        return self._used(self._in_use(), lambda task: task.run_batch(batch))

    def act(self, action: str, arguments: Mapping[str, object]) -> object:
        """Executes a named action; if it fails, the task stays open."""
        held = self._in_use()
        try:
            return self._act(held.task, action, arguments)
        finally:
            self._warm.release(held)

    def explain(self, error: MillraceError) -> None:
        """Closes the task, and raises the reason why its input cannot be read."""
        held = self._in_use()
        self._used(held, lambda task: task.explain(error))

    def close(self) -> None:
        """Closes the task, unless another process has taken it over."""
        held, self._held = self._held, None
        if held is not None and self._warm.use(held):
            self._warm.discard(held)

    def _in_use(self) -> HeldTask:
        held = self._held
        if held is None or not self._warm.use(held):
            self._held = None
            raise TaskMigratedError(
                f"Another process has asked for task {self._spec.name}.",
                remedy="none needed: the task is opened again where the driver wants it",
            )
        return held

    def _used(self, held: HeldTask, call: Callable[[Task], T]) -> T:
        try:
            result = call(held.task)
        except BaseException:
            self._held = None
            self._warm.discard(held)
            raise
        self._warm.release(held)
        return result
