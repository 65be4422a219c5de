"""The function that a Spark task of an epoch runs: one stream thread."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import structlog
from pyspark import TaskContext

from millrace.config import ProcessingEngine
from millrace.errors import OperationError
from millrace.kafka.columns import ReaderSettings, open_reader
from millrace.processes import ProcessIdentity
from millrace.spark.plan import QueryPlan, plan_from_bytes
from millrace.spark.statistics import statistics_of
from millrace.spark.stream_threads.connection import CoordinatorConnection, CoordinatorUnreachableError
from millrace.spark.stream_threads.held_task import HeldThreadTask
from millrace.spark.stream_threads.messages import Assignment, HeldState, HeldTask, Hello
from millrace.spark.stream_threads.standby_copies import StandbyCopies
from millrace.spark.stream_threads.task_input import TASK_IDLE_DISABLED
from millrace.spark.stream_threads.thread import StreamThread
from millrace.spark.stream_threads.thread_limits import ThreadLimits
from millrace.spark.stream_threads.thread_task import OpenTask, TaskSettings
from millrace.spark.task_reports import TaskReporter
from millrace.spark.warm_tasks import WarmTasks, take_from_holder, warm_tasks
from millrace.state.position_note import read_position_note
from millrace.state.standby_copy import CopiedTask
from millrace.task.actions import from_named
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.spec import TaskSpec
from millrace.task.standby import CopyOpener, copied_task
from millrace.task.task import Task

MOST_RECORDS = 250_000
"""Most records of one partition in a batch, where ``max.batch.records`` does not say less."""

FETCH_WAIT_MS = 100
"""How long the broker keeps a request for which it has no records, milliseconds; see :class:`ReaderSettings`."""

MERGE_FETCH_WAIT_MS = 20
"""The same where tasks merge inputs: records of one wait until the position behind the marker of another is known."""

TASKS_AT_A_TIME = 4
"""How many tasks of a thread are opened, processed or committed at a time: commits and restorations mostly wait."""

_one_at_a_time = threading.Lock()

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunThread:
    """The function for ``mapInArrow``: runs a stream thread in a Spark partition until the driver ends it.

    Args:
        application: the application id.
        run: identifies the driver's run.
        address: ``host:port`` of the driver's coordinator.
        token: of the driver's run; it is in no log.
        epoch: number of the epoch.
        plans: the encoded plan of each sub-topology, by its digest.
    """

    application: str
    run: str
    address: str
    token: str = field(repr=False)
    epoch: int
    plans: Mapping[str, bytes]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the stream thread; yields nothing. The rows of the Spark partition have no meaning."""
        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None
        warm = warm_tasks()
        # Spark may hand a retry to a worker whose attempt before has not noticed its end yet.
        with _one_at_a_time:
            self._run(warm, slot=context.partitionId(), attempt=context.attemptNumber())
        yield from ()

    def _run(self, warm: WarmTasks, *, slot: int, attempt: int) -> None:
        plans = {digest: plan_from_bytes(encoded) for digest, encoded in self.plans.items()}
        connection = self._connect(warm, plans, slot=slot, attempt=attempt)
        config = next(iter(plans.values())).config
        merges = any(len(plan.topics) > 1 for plan in plans.values())
        maker = _TaskMaker(plans, warm, run=f"{self.run}-{self.epoch}-{slot}-{attempt}-{time.time_ns()}")
        standbys = StandbyCopies(maker.copied, CopyOpener(config).open, take_from_holder)
        with (
            ThreadPoolExecutor(TASKS_AT_A_TIME, thread_name_prefix="stream-thread-task") as executor,
            warm.releasing(standbys.release),
        ):
            thread = StreamThread(
                connection=connection,
                reader=open_reader(
                    ReaderSettings(
                        bootstrap_servers=config.bootstrap_servers,
                        group=config.application_id,
                        settings=config.client_settings("consumer."),
                        fetch_wait_ms=MERGE_FETCH_WAIT_MS if merges else FETCH_WAIT_MS,
                    )
                ),
                maker=maker,
                executor=executor,
                standbys=standbys,
                limits=ThreadLimits.from_config(config),
            )
            reason = thread.run()
        _log.info("stream thread ended", application=self.application, slot=slot, reason=reason)

    def _connect(
        self, warm: WarmTasks, plans: Mapping[str, QueryPlan], *, slot: int, attempt: int
    ) -> CoordinatorConnection:
        identity = ProcessIdentity.current()

        def connect() -> CoordinatorConnection:
            hello = Hello(
                application=self.application,
                run=self.run,
                epoch=self.epoch,
                slot=slot,
                attempt=attempt,
                host=socket.gethostname(),
                pid=identity.pid,
                process_start=identity.start_time,
                cores=float(os.cpu_count() or 1),
                state_dir=next(iter(plans.values())).config.state_dir,
                held=tuple(_held(warm, plans)),
            )
            return CoordinatorConnection(self.address, self.token, hello)

        return connected(connect)


def connected(connect: Callable[[], CoordinatorConnection]) -> CoordinatorConnection:
    """Connects to the driver, however long that takes.

    An error would make Spark start the thread again, and end the whole epoch after some attempts,
    although other threads may be well. The driver sees that Spark runs the thread and that it has not connected, says
    so, and cancels it with its epoch.

    Args:
        connect: tries for a while.

    Raises:
        OperationError: what started this process is gone; or the driver does not know the thread.
    """
    parent = os.getppid()
    while True:
        try:
            return connect()
        except CoordinatorUnreachableError as error:
            _log.error("stream thread cannot reach its driver, and tries on", reason=error.message, remedy=error.remedy)
            if os.getppid() != parent:
                raise


class _TaskMaker:
    """The maker of tasks, from the plans that Spark brought."""

    def __init__(self, plans: Mapping[str, QueryPlan], warm: WarmTasks, *, run: str) -> None:
        self._plans = plans
        self._warm = warm
        self._run = run
        self._batches = 0

    def make(self, assignment: Assignment) -> tuple[OpenTask, TaskSettings]:
        """Returns a task that is not open yet, see :class:`millrace.spark.stream_threads.surroundings.TaskMaker`."""
        plan, spec = self._spec(assignment)
        return (
            HeldThreadTask(
                spec,
                self._warm,
                TaskReporter(plan.progress_address, spec.name),
                _act,
                is_stale=assignment.is_stale,
            ),
            task_settings(plan),
        )

    def copied(self, assignment: Assignment) -> CopiedTask | None:
        """Returns what is copied of a task, or ``None``; see :class:`StandbyCopies`."""
        return copied_task(self._spec(assignment)[1])

    def _spec(self, assignment: Assignment) -> tuple[QueryPlan, TaskSpec]:
        plan = self._plans.get(assignment.plan)
        if plan is None:
            raise OperationError(
                f"Task {assignment.task} has a plan that this epoch does not have.",
                remedy="none needed: the next epoch has it",
            )
        return plan, plan.task_spec(int(assignment.task.rpartition("_")[2]))

    def statistics(self, outcome: BatchOutcome, *, failed_attempts: int) -> str:
        """Returns the row of statistics of a batch, for the driver."""
        self._batches += 1
        row = statistics_of(outcome, batch_id=self._batches, run_id=self._run, failed_attempts=failed_attempts)
        return row.to_bytes().decode()


def task_settings(plan: QueryPlan) -> TaskSettings:
    """Returns the settings of each task of a sub-topology.

    Args:
        plan: of the sub-topology.
    """
    config = plan.config
    most, idle_ms = config.max_batch_records, config.max_task_idle_ms
    return TaskSettings(
        commit_interval_s=config.commit_interval_ms_of(ProcessingEngine.STREAM_THREADS) / 1000,
        recommit_s=plan.offsets_retention_s / 4,
        most_records=MOST_RECORDS if most is None else max(1, most // plan.tasks),
        wall_clock_ms=lambda: time.time() * 1000,
        idle_s=TASK_IDLE_DISABLED if idle_ms < 0 else idle_ms / 1000,
        most_buffered=config.buffered_records_per_partition,
        merges=any(store.is_in_record_cache for store in plan.sub_topology.stores),
    )


def _act(task: Task, action: str, arguments: Mapping[str, object]) -> object:
    return from_named(action, arguments)(task)


def _held(warm: WarmTasks, plans: Mapping[str, QueryPlan]) -> Iterator[HeldTask]:
    """Returns the tasks that are open in this process, or whose state is on its host's disk."""
    is_open = {spec.name for spec in warm.held()}
    for plan in plans.values():
        for number in range(plan.tasks):
            spec = plan.task_spec(number)
            if spec.name in is_open:
                yield HeldTask(spec.name, HeldState.OPEN)
            elif (note := read_position_note(spec.state_directory)) is not None:
                yield HeldTask(spec.name, HeldState.STANDBY if note.standby else HeldState.DISK, note.position)
            elif spec.sub_topology.stores and spec.state_directory.exists():
                yield HeldTask(spec.name, HeldState.DISK)
