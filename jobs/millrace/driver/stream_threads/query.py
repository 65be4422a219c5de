"""The driver's query of one sub-topology that the application's stream threads execute."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import replace
from typing import Any

import structlog

from millrace.driver.stream_threads.pause_lock import PauseLock
from millrace.driver.stream_threads.threads import StreamThreads, statistics_of_report
from millrace.errors import BrokerUnavailableError, DriverFencedError, MillraceError
from millrace.kafka.admin import KafkaAdmin
from millrace.metrics import Phase
from millrace.spark.plan import QueryPlan, SubTopologyQuery
from millrace.spark.progress import QueryProgress
from millrace.spark.query_hooks import QueryHooks
from millrace.spark.query_topics import RepartitionPurge, check_new_partitions, read_committed
from millrace.spark.restore_reports import RestoreReport, RestoreTotals
from millrace.spark.stream_threads.messages import TaskReport, TaskState, plan_digest, positions_of
from millrace.state.standby_copy import copied_stores
from millrace.task.crash_points import CrashPoint, crash_here
from millrace.task.input import readable
from millrace.task.task import TaskAction
from millrace.topology.layout import task_name

ACTION_LIMIT_S = 60.0
"""How long tasks may take for what they are asked to do between two commits, seconds."""

NEW_PARTITIONS_S = 5.0
"""How long partitions that are added to an input topic may stay unnoticed, seconds."""

_REMEMBERED_COMMITS = 20

_log = structlog.get_logger(__name__)


class StreamThreadsQuery(SubTopologyQuery):
    """The tasks of one sub-topology on the application's stream threads. A :class:`millrace.driver.query.Query`.

    Args:
        threads: the application's stream threads.
        plan: what the workers must know.
        hooks: what the driver wants to know.
    """

    def __init__(self, threads: StreamThreads, plan: QueryPlan, hooks: QueryHooks) -> None:
        self._threads = threads
        self._plan = plan
        self._encoded_plan = plan.to_bytes()
        self._hooks = hooks
        self._admin = KafkaAdmin(plan.config.bootstrap_servers, settings=plan.config.client_settings("admin."))
        self._lock = PauseLock(self._pause_tasks, self._resume_tasks)
        self._guard = threading.RLock()
        self._stopping = threading.Event()
        self._paused = False
        self._fenced: DriverFencedError | None = None
        self._failure: BaseException | None = None
        self._started = False
        self._has_new_partitions = False
        self._partitions_known_at = time.monotonic()
        self._commits: dict[str, int] = {}
        self._records: dict[str, int] = {}
        self._suspects: set[str] = set()
        self._repartition_purge = RepartitionPurge(self._admin, plan, hooks.before_purge)
        self.purges = True
        self._restoring = RestoreTotals()
        self._durations: deque[float] = deque(maxlen=_REMEMBERED_COMMITS)
        self._progress = QueryProgress(sub_topology=plan.sub_topology.number)
        self._log = _log.bind(application=plan.config.application_id, query=self.name)
        threads.add(self.sub_topology, self, plan_digest(self._encoded_plan), self._encoded_plan)

    @property
    def lock(self) -> PauseLock:
        """The lock that pauses all tasks after a commit while it is held."""
        return self._lock

    @property
    def is_active(self) -> bool:
        """Whether its tasks should run, none of them has failed, and the Spark query runs."""
        return self._started and self._failure is None and self._threads.is_active

    @property
    def exception(self) -> BaseException | None:
        """The error of the query; ``None`` while it runs or after it was stopped."""
        if self._failure is not None or not self._started:
            return self._failure
        return self._threads.exception

    @property
    def progress(self) -> QueryProgress:
        """The progress of the query; it survives restarts."""
        waits_for = self._threads.reason if self._started else ""
        return replace(self._progress, waits_for=waits_for) if waits_for else self._progress

    def start(self) -> None:
        """Opens the tasks and restores their stores; returns once all are open.

        Raises:
            MillraceError: a task cannot be opened; see :meth:`millrace.task.task.Task.run_batch`.
        """
        self._refuse_if_fenced()
        self._stopping.clear()
        if self._has_new_partitions and self._hooks.replan is not None:
            self._plan = self._hooks.replan(self.sub_topology)
            self._encoded_plan = self._plan.to_bytes()
            self._has_new_partitions = False
        # A task that could not end its transaction while brokers were away ends it as soon as it is opened, not before.
        positions = read_committed(self._admin, self._plan, stable=False)
        with self._guard:
            self._failure = None
            self._started = True
            self._restoring.clear()
            self._set_progress(positions={**positions}, task_states=dict.fromkeys(self._tasks, "RESTORING"))
            paused = self._paused
        self._hooks.before_batch()
        digest = plan_digest(self._encoded_plan)
        has_copies = bool(copied_stores(self._plan.sub_topology.stores, self._plan.config.application_id))
        self._threads.start(
            self.sub_topology, digest, self._encoded_plan, self._tasks, paused=paused, has_copies=has_copies
        )
        self._threads.wait_until_open(self._tasks, lambda: self._failure is not None or self._stopping.is_set())
        if self._stopping.is_set():
            return
        failure = self._failure or (None if self._threads.is_active else self._threads.exception)
        if failure is not None:
            raise failure
        with self._guard:
            states = dict.fromkeys(self._tasks, "RUNNING")
            self._set_progress(task_states=states, restore_remaining={}, restore_rates={})
        self._log.info("query started", offsets=readable(self._progress.positions))

    def request_stop(self) -> None:
        """Ends all waits of :meth:`start`."""
        self._stopping.set()

    def abandon(self, error: DriverFencedError) -> None:
        """Abandons the query, since a newer driver took over. Takes no lock and returns at once."""
        self._fenced = error
        self._stopping.set()
        self._threads.abandon(error)

    def stop(self, timeout_s: float) -> None:
        """Closes the tasks, and stops the Spark query with the last sub-topology's.

        Raises:
            OperationError: that took too long.
        """
        self._stopping.set()
        started, self._started = self._started, False
        if started:
            self._threads.stop(self.sub_topology, timeout_s)

    def pause(self) -> None:
        """Pauses the tasks after their next commits. Returns at once."""
        with self._guard:
            self._paused = True
        self._threads.pause(self._tasks)

    def resume(self) -> None:
        """Ends :meth:`pause`."""
        with self._guard:
            self._paused = False
        self._threads.resume(self._tasks)

    def run_on_tasks(self, action: TaskAction) -> dict[str, object]:
        """Makes every task execute an action between two commits, in the worker that holds it; needs the lock.

        Args:
            action: a named action, see :mod:`millrace.task.actions`.

        Returns:
            What it returned, by the name of the task.

        Raises:
            MillraceError: it failed in a task, or the task does not run.
        """
        self._hooks.before_batch()
        return dict(self._threads.act(action, self._tasks, ACTION_LIMIT_S))

    @property
    def next_tick_s(self) -> float | None:
        """``None``: threads call wall-clock punctuations by themselves."""
        return None

    def tick(self) -> None:
        """Purges repartition topics and checks for new partitions of the input, when these are due."""
        if self._stopping.is_set() or self._paused or not self.is_active:
            return
        self._threads.tick()
        now = time.monotonic()
        if now - self._partitions_known_at >= NEW_PARTITIONS_S:
            self._partitions_known_at = now
            self._check_partitions()
        if self.purges and self._repartition_purge.is_due(now):
            self._refuse_if_fenced()
            self._repartition_purge.run(self._progress.positions, now)

    def on_restore_progress(self, report: RestoreReport) -> tuple[int, float]:
        """Adds a report of a task's restoration to the progress.

        Returns:
            the records that the task has still to apply, and its rate, over all stores.
        """
        with self._guard:
            remaining, rate = self._restoring.add(report)
            self._set_progress(
                restore_remaining={**self._progress.restore_remaining, report.task: remaining},
                restore_rates={**self._progress.restore_rates, report.task: rate},
            )
            return remaining, rate

    # What threads say

    def reported(self, worker: str, report: TaskReport) -> None:
        """Updates the progress from a report, see :class:`millrace.driver.stream_threads.threads.TaskListener`."""
        rows = statistics_of_report(report)
        if rows:
            crash_here(CrashPoint.DRIVER_BEFORE_BATCH)
        # Before the positions: whoever sees those finds what was counted on the way to them.
        for row in rows:
            self._hooks.on_statistics(row)
            if Phase.COMMIT in row.phases:
                self._hooks.on_batch(self.sub_topology, sum(row.phases.values()))
        with self._guard:
            positions, ends = positions_of(report.positions), positions_of(report.ends)
            is_up = report.state in (TaskState.RUNNING, TaskState.PAUSED)
            commits = _grown(self._commits, report.task, report.commits)
            records = _grown(self._records, report.task, report.records)
            if commits:
                self._suspects.discard(report.task)
            before = self._progress
            moved = any(
                before.positions.get(topic_partition) != offset for topic_partition, offset in positions.items()
            )
            remaining = dict(before.restore_remaining)
            if is_up:
                remaining.pop(report.task, None)
            now = time.time()
            self._durations.extend(sum(row.phases.values()) for row in rows if Phase.COMMIT in row.phases)
            self._set_progress(
                batch_id=before.batch_id + commits,
                # While a task has failed, what the others do is no progress of the sub-topology.
                batches=before.batches + (0 if self._suspects else commits),
                last_batch_started_at=now if commits else before.last_batch_started_at,
                last_batch_finished_at=now if commits else before.last_batch_finished_at,
                longest_batch_s=max(self._durations, default=0.0),
                records=before.records + records,
                positions={**before.positions, **positions},
                end_offsets={**before.end_offsets, **ends},
                last_commit_at=report.committed_at if moved and report.committed_at else before.last_commit_at,
                task_hosts={**before.task_hosts, report.task: worker},
                task_states={**before.task_states, report.task: "RUNNING" if is_up else "RESTORING"},
                restore_remaining=remaining,
            )
        if rows:
            crash_here(CrashPoint.DRIVER_AFTER_BATCH)

    def failed(self, task: str, error: MillraceError) -> None:
        """Records the failure of a task, see :class:`millrace.driver.stream_threads.threads.TaskListener`."""
        with self._guard:
            self._suspects.add(task)
            self._failure = self._failure or error
            self._commits.pop(task, None)
            self._records.pop(task, None)
            self._set_progress(task_states={**self._progress.task_states, task: "RESTORING"})
        if isinstance(error, DriverFencedError):
            # At once, not only when the supervisor looks: the other sub-topologies must not go on.
            self._hooks.on_fenced(error)

    # Pausing

    def _pause_tasks(self, timeout_s: float) -> bool:
        if not self._started:
            return True
        self._threads.pause(self._tasks)
        # One that is not open is in no batch, and will be in none before it is resumed.
        is_open = [task for task, state in self._progress.task_states.items() if state == "RUNNING"]
        return self._threads.wait_until_paused(is_open, timeout_s)

    def _resume_tasks(self) -> None:
        with self._guard:
            stays = self._paused or self._stopping.is_set()
        if not stays:
            self._threads.resume(self._tasks)

    # Topics

    def _check_partitions(self) -> None:
        try:
            found = self._admin.describe_topics(self._plan.topics)
        except BrokerUnavailableError as error:
            # Tasks that have no broker say so themselves, and go on where the loss of one does not concern them.
            self._log.warning("new partitions not looked for", problem=error.message)
            return
        new = [
            (name, number)
            for name, topic in sorted(found.items())
            for number in range(self._plan.input_partitions[name], topic.partitions)
        ]
        self._has_new_partitions = bool(new) and not self._plan.sub_topology.stores
        check_new_partitions(self.name, self._plan, new)

    def _refuse_if_fenced(self) -> None:
        if self._fenced is not None:
            raise self._fenced

    @property
    def _tasks(self) -> list[str]:
        return [task_name(self.sub_topology, partition) for partition in range(self._plan.tasks)]

    def _set_progress(self, **changes: Any) -> None:
        self._progress = replace(self._progress, **changes)


def _grown(counts: dict[str, int], task: str, count: int) -> int:
    """Returns the growth of a task's count, which begins at 0 with each thread that gets the task."""
    before = counts.get(task, 0)
    counts[task] = count
    return count - before if count >= before else count
