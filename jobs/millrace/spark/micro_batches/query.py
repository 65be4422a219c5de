"""One sub-topology as one Structured Streaming query."""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog
from pyspark.sql import DataFrame, SparkSession

from millrace.config import ProcessingEngine
from millrace.errors import DriverFencedError, OpenTransactionError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import end_offsets
from millrace.spark.global_ends import GlobalEnds
from millrace.spark.micro_batches.due_punctuations import DuePunctuations
from millrace.spark.micro_batches.offset_log import batch_ends
from millrace.spark.micro_batches.own_source import unreadable_timestamp
from millrace.spark.micro_batches.source import own_frame, streaming_frame
from millrace.spark.micro_batches.worker import RunTasks, TaskResult
from millrace.spark.plan import QueryPlan, SubTopologyQuery
from millrace.spark.progress import QueryProgress
from millrace.spark.query_hooks import QueryHooks
from millrace.spark.query_topics import RepartitionPurge, check_new_partitions, read_committed
from millrace.spark.restore_reports import RestoreReport, RestoreTotals
from millrace.spark.results import RESULT_SCHEMA
from millrace.spark.streaming_run import StreamingRun
from millrace.task.batch import TaskBatch
from millrace.task.crash_points import CrashPoint, crash_here
from millrace.task.input import OffsetRange, readable
from millrace.task.task import TaskAction
from millrace.topology.layout import task_name
from millrace.topology.topic_partition import TopicPartition

IDLE_COMMIT_S = 1.0
"""How long input without records (markers, aborted transactions) may stay uncommitted."""

KEEP_WARM_S = 20.0
"""How long a query is idle before its tasks run without rows: Spark ends workers that are idle for a minute."""

_REMEMBERED_BATCHES = 20
OWN_READING_S = 60.0
"""How long workers read the input after a record that Spark's source could not carry: there may be more of them, and
each costs a failed job. Spark reads faster, so it is tried again then; each time it fails, after twice as long."""

LONGEST_OWN_READING_S = 3_600.0
"""Longest such time."""

_log = structlog.get_logger(__name__)


class SparkQuery(SubTopologyQuery):
    """A query that runs the tasks of one sub-topology, batch by batch, in one Spark session.

    Args:
        spark: the session.
        plan: what the workers must know.
        hooks: what the driver wants to know.
    """

    def __init__(self, spark: SparkSession, plan: QueryPlan, hooks: QueryHooks) -> None:
        self._spark = spark
        self._plan = plan
        self._encoded_plan = plan.to_bytes()
        self._hooks = hooks
        self._admin = KafkaAdmin(plan.config.bootstrap_servers, settings=plan.config.client_settings("admin."))
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._paused = threading.Event()
        self._fenced: DriverFencedError | None = None
        self._run = StreamingRun(self.name)
        self._failure: BaseException | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._undecided_partitions: frozenset[TopicPartition] = frozenset()
        self._known_ends: Mapping[TopicPartition, int] = {}
        self._uncommitted_since: float | None = None
        self._committed_at: dict[int, float] = {}
        self._repartition_purge = RepartitionPurge(self._admin, plan, hooks.before_purge)
        self.purges = True
        self._global_ends = GlobalEnds(self._admin, plan.global_stores)
        self._has_new_partitions = False
        self._last_run_at = time.monotonic()
        self._tickets = itertools.count()
        self._reads_itself_until = float("-inf")
        self._own_reading_s = OWN_READING_S
        self._run_name = ""
        self._punctuations = DuePunctuations()
        self._restoring = RestoreTotals()
        self._durations: deque[float] = deque(maxlen=_REMEMBERED_BATCHES)
        self._progress = QueryProgress(sub_topology=plan.sub_topology.number)
        self._log = _log.bind(application=plan.config.application_id, query=self.name)

    @property
    def lock(self) -> threading.RLock:
        """The lock that is held during a batch."""
        return self._lock

    @property
    def is_active(self) -> bool:
        """Whether the streaming query runs."""
        return self._run.is_active

    @property
    def exception(self) -> BaseException | None:
        """The error of the query; ``None`` while it runs or after it was stopped."""
        if self._failure is not None or self._stopping.is_set():
            return self._failure
        return self._run.exception

    @property
    def progress(self) -> QueryProgress:
        """The progress of the query; it survives restarts of the query."""
        return self._progress

    def start(self) -> None:
        """Opens the tasks and restores their stores, then starts at the group's committed offsets.

        Raises:
            MillraceError: a task cannot be opened; see :meth:`millrace.task.task.Task.run_batch`.
        """
        self._refuse_if_fenced()
        self._stopping.clear()
        self._failure = None
        if self._has_new_partitions and self._hooks.replan is not None:
            self._plan = self._hooks.replan(self.sub_topology)
            self._encoded_plan = self._plan.to_bytes()
            self._global_ends = GlobalEnds(self._admin, self._plan.global_stores)
            self._has_new_partitions = False
        self._committed_at = {}
        self._punctuations.clear()
        self._run_name = f"{self._plan.run_id}-{time.time_ns()}"
        self._committed = self._read_committed()
        self._ends = dict(self._committed)
        self._know_ends()
        self._restoring.clear()
        self._set_progress(positions=self._committed, task_states=dict.fromkeys(self._task_names(), "RESTORING"))
        with self._lock:
            self._run_without_rows(range(self._plan.tasks))
        self._set_progress(
            task_states=dict.fromkeys(self._task_names(), "RUNNING"), restore_remaining={}, restore_rates={}
        )
        frame = streaming_frame(self._spark, self._plan.sub_topology, self._plan.config, self._committed)
        self._refuse_if_fenced()
        interval = f"{self._plan.config.commit_interval_ms_of(ProcessingEngine.MICRO_BATCHES)} milliseconds"
        self._run.start(frame.writeStream.trigger(processingTime=interval).foreachBatch(self._on_batch))
        self._log.info("query started", offsets=readable(self._committed))

    def _read_committed(self) -> dict[TopicPartition, int]:
        try:
            return read_committed(self._admin, self._plan)
        except OpenTransactionError as error:
            # A task could not end it while brokers were away, and is opened again only after this.
            self._log.warning("open transactions are ended", problem=error.message)
            self._hooks.fence(self._task_names())
            return read_committed(self._admin, self._plan)

    def request_stop(self) -> None:
        """Makes all further callbacks return at once."""
        self._stopping.set()

    def abandon(self, error: DriverFencedError) -> None:
        """Makes the query launch, purge and start nothing more, since a newer driver took over. Takes no lock.

        It does not wait for running jobs: the caller cancels them.
        """
        self._fenced = error
        self._stopping.set()

    def stop(self, timeout_s: float) -> None:
        """Stops the query; must not be called inside a callback, which Spark would wait for.

        Raises:
            OperationError: it did not stop in time.
        """
        self._stopping.set()
        self._run.stop(timeout_s, failure=f"Query {self.name} did not stop")

    def pause(self) -> None:
        """Makes callbacks wait until :meth:`resume`."""
        self._paused.set()

    def resume(self) -> None:
        """Ends :meth:`pause`."""
        self._paused.clear()

    @property
    def next_tick_s(self) -> float | None:
        """Seconds until the next wall-clock punctuation is due; ``None`` if none is scheduled."""
        return self._punctuations.next_s()

    def tick(self) -> None:
        """Runs the tasks without rows if that is due, and does what is due between batches.

        These are wall-clock punctuations, commits of input without records and of old offsets, purges of repartition
        topics, and batches that keep idle workers warm.
        """
        now = time.monotonic()
        punctuates = self.next_tick_s == 0
        commit_due = self._uncommitted_since is not None and now - self._uncommitted_since >= IDLE_COMMIT_S
        keep_warm = now - self._last_run_at >= KEEP_WARM_S
        if not (punctuates or commit_due or keep_warm or self._old_commits(now) or self._purge_is_due(now)):
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            if not self._stopping.is_set() and not self._paused.is_set() and self.is_active:
                self._hooks.before_batch()
                if punctuates:
                    self._run_without_rows(self._punctuations.take())
                    self._last_run_at = now
                if commit_due or keep_warm:
                    self._commit_empty_ranges(all_tasks=not commit_due)
                self._house_keeping()
        finally:
            self._lock.release()

    def run_on_tasks(self, action: TaskAction) -> dict[str, object]:
        """Makes every task execute an action between two batches, in the worker that holds it; needs the lock.

        Input without rows is committed first, so that each task stands for its committed offsets.

        Args:
            action: a picklable callable that takes the task; it must not write to stores.

        Returns:
            What it returned, by the name of the task.

        Raises:
            MillraceError: it failed in a task, or the task could not be opened.
        """
        self._hooks.before_batch()
        return self._run_without_rows(range(self._plan.tasks), action=action)

    def on_restore_progress(self, report: RestoreReport) -> tuple[int, float]:
        """Adds a report of a task's restoration to the progress.

        Returns:
            the records that the task has still to apply, and its rate, over all stores.
        """
        remaining, rate = self._restoring.add(report)
        self._set_progress(
            restore_remaining={**self._progress.restore_remaining, report.task: remaining},
            restore_rates={**self._progress.restore_rates, report.task: rate},
        )
        return remaining, rate

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        if self._stopping.is_set():
            return
        try:
            with self._lock:
                self._wait_while_paused()
                if self._stopping.is_set():
                    return
                self._run_batch(frame, batch_id)
        except BaseException as error:
            self._failure = error
            raise

    def _wait_while_paused(self) -> None:
        # The barrier that paused us needs the lock, which a condition would not give back.
        while self._paused.is_set() and not self._stopping.is_set():
            self._lock.release()
            time.sleep(0.05)
            self._lock.acquire()

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        started = time.time()
        crash_here(CrashPoint.DRIVER_BEFORE_BATCH)
        self._hooks.before_batch()
        ends = batch_ends(self._run.checkpoint, batch_id)
        self._check_partitions(ends)
        ranges = self._ranges(ends)
        self._set_progress(batch_id=batch_id, last_batch_started_at=started, end_offsets=ends)
        # Asked after Spark planned the batch: what was in the topic before a record of the batch is seen by it.
        global_ends = self._global_ends.now()
        results = self._run_with_rows(frame, ranges, ends, global_ends)
        self._ends = ends
        self._take(results)
        self._know_ends()
        self._commit_empty_ranges_if_due(any_rows=bool(results))
        self._house_keeping()
        self._last_run_at = time.monotonic()
        finished = time.time()
        self._durations.append(finished - started)
        self._set_progress(
            last_batch_finished_at=finished,
            batches=self._progress.batches + 1,
            longest_batch_s=max(self._durations),
        )
        self._hooks.on_batch(self.sub_topology, finished - started)
        crash_here(CrashPoint.DRIVER_AFTER_BATCH)

    def _run_with_rows(
        self,
        frame: DataFrame,
        ranges: Mapping[TopicPartition, OffsetRange],
        ends: Mapping[TopicPartition, int],
        global_ends: Mapping[TopicPartition, int],
    ) -> list[TaskResult]:
        """Runs the tasks over the rows that Spark reads, or that workers read if Spark cannot represent them."""
        by_number = len(self._plan.topics) > 1

        def run(rows: DataFrame) -> list[TaskResult]:
            function = RunTasks(
                plan=self._encoded_plan,
                batch=TaskBatch((), ranges, global_ends=global_ends),
                partitions=tuple(range(self._plan.tasks)) if by_number else None,
                batch_id=next(self._tickets),
                run_id=self._run_name,
                with_rows=True,
            )
            if by_number:
                rows = rows.repartitionById(self._plan.tasks, rows["partition"])
            return self._launch(rows, function)

        if time.monotonic() >= self._reads_itself_until:
            try:
                results = run(frame)
            except Exception as error:
                problem = unreadable_timestamp(error)
                if not problem:
                    raise
            else:
                self._own_reading_s = OWN_READING_S
                return results
            self._reads_itself_until = time.monotonic() + self._own_reading_s
            self._log.warning(
                "a timestamp is beyond Spark's range: workers read the input for a while",
                problem=problem,
                seconds=self._own_reading_s,
            )
            self._own_reading_s = min(2 * self._own_reading_s, LONGEST_OWN_READING_S)
        return run(own_frame(self._spark, self._plan.sub_topology, self._plan.config, self._ends, ends))

    def _know_ends(self) -> None:
        """Reads the ends of the input before Spark plans the next batch: what that leaves out is due to its limit.

        Only tasks with several inputs have to know, since what remains of one may be older than the others' records.
        """
        if len(self._plan.topics) > 1:
            self._known_ends = end_offsets(self._admin, list(self._ends))

    def _ranges(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetRange]:
        """Returns the range of each partition in the batch, from the committed offset, even if no row of it came."""
        return {
            topic_partition: OffsetRange(
                start=self._ends[topic_partition]
                if topic_partition in self._undecided_partitions
                else self._committed[topic_partition],
                end=end,
                log_end=max(end, self._known_ends.get(topic_partition, end)),
            )
            for topic_partition, end in ends.items()
        }

    def _check_partitions(self, ends: Mapping[TopicPartition, int]) -> None:
        new = sorted(topic_partition for topic_partition in ends if topic_partition not in self._committed)
        # A failed query is planned again only where that helps.
        self._has_new_partitions = bool(new) and not self._plan.sub_topology.stores
        check_new_partitions(self.name, self._plan, new)

    def _commit_empty_ranges_if_due(self, *, any_rows: bool) -> None:
        """Commits input without records: at once if no task has rows, otherwise after a while."""
        now = time.monotonic()
        if all(self._committed[topic_partition] >= end for topic_partition, end in self._ends.items()):
            self._uncommitted_since = None
            return
        self._uncommitted_since = self._uncommitted_since or now
        if not any_rows or now - self._uncommitted_since >= IDLE_COMMIT_S:
            self._commit_empty_ranges(all_tasks=False)

    def _commit_empty_ranges(self, *, all_tasks: bool) -> None:
        behind = {
            partition for (topic, partition), end in self._ends.items() if self._committed[(topic, partition)] < end
        }
        partitions = range(self._plan.tasks) if all_tasks else sorted(behind)
        self._run_without_rows(partitions)
        self._uncommitted_since = None
        self._last_run_at = time.monotonic()

    def _house_keeping(self) -> None:
        """Commits old offsets again and purges repartition topics, when these are due."""
        now = time.monotonic()
        if old := self._old_commits(now):
            self._run_without_rows(old, recommit=True)
            self._committed_at.update(dict.fromkeys(old, now))
        if self._purge_is_due(now):
            self._purge()

    def _old_commits(self, now: float) -> list[int]:
        """Returns the tasks whose committed offsets are old, or of unknown age, and would expire at the broker."""
        oldest = now - self._plan.offsets_retention_s / 4
        return [task for task in range(self._plan.tasks) if self._committed_at.get(task, float("-inf")) < oldest]

    def _purge_is_due(self, now: float) -> bool:
        return self.purges and self._repartition_purge.is_due(now)

    def _purge(self) -> None:
        self._refuse_if_fenced()
        self._repartition_purge.run(self._committed, time.monotonic())

    def _run_without_rows(
        self, partitions: range | list[int], *, recommit: bool = False, action: TaskAction | None = None
    ) -> dict[str, object]:
        self._refuse_if_fenced()
        if not len(partitions):
            return {}
        frame = self._spark.range(0, len(partitions), 1, len(partitions))
        function = RunTasks(
            plan=self._encoded_plan,
            batch=TaskBatch((), self._ranges(self._ends), recommit=recommit, global_ends=self._global_ends.now()),
            partitions=tuple(partitions),
            batch_id=next(self._tickets),
            run_id=self._run_name,
            with_rows=False,
            action=action,
        )
        results = self._launch(frame, function)
        self._take(results)
        return {result.task: result.answer for result in results}

    def _take(self, results: list[TaskResult]) -> None:
        """Records what the tasks committed, then raises the first error, if any."""
        positions: dict[TopicPartition, int] = {}
        hosts: dict[str, str] = {}
        records = 0
        for result in results:
            positions.update(result.positions)
            if any(self._committed[topic_partition] != offset for topic_partition, offset in result.positions.items()):
                self._committed_at[_number(result.task)] = time.monotonic()
            self._punctuations.set(_number(result.task), result.next_punctuation_ms)
            hosts[result.task] = result.worker
            if result.statistics is not None:
                records += result.statistics.records_in
                self._hooks.on_statistics(result.statistics)
        moved = any(self._committed[topic_partition] != offset for topic_partition, offset in positions.items())
        self._committed.update(positions)
        undecided = {topic_partition for result in results if result.undecided for topic_partition in result.positions}
        self._undecided_partitions = (self._undecided_partitions - positions.keys()) | undecided
        self._set_progress(
            positions=dict(self._committed),
            last_commit_at=time.time() if moved else self._progress.last_commit_at,
            task_hosts={**self._progress.task_hosts, **hosts},
            records=self._progress.records + records,
        )
        errors = [result.error for result in results if result.error is not None]
        for error in errors:
            if isinstance(error, DriverFencedError):
                # At once, not only when the supervisor looks: the other queries must not go on.
                self._hooks.on_fenced(error)
                raise error
        for error in errors:
            raise error

    def _launch(self, frame: DataFrame, function: RunTasks) -> list[TaskResult]:
        """Runs a job, unless a newer driver took over; raises the fence if the job was cancelled because of it."""
        self._refuse_if_fenced()
        try:
            rows = frame.mapInArrow(function, RESULT_SCHEMA).collect()
        except Exception as error:
            if self._fenced is not None:
                raise self._fenced from error
            raise
        self._refuse_if_fenced()
        return [pickle.loads(row.result) for row in rows]

    def _refuse_if_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    def _task_names(self) -> list[str]:
        return [task_name(self.sub_topology, partition) for partition in range(self._plan.tasks)]

    def _set_progress(self, **changes: Any) -> None:
        self._progress = replace(self._progress, **changes)


def _number(task: str) -> int:
    return int(task.rpartition("_")[2])
