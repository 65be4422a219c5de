"""The run of one application in this process: connects the broker, Spark, the control plane and the metrics."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psutil
import structlog
from pyspark.sql import SparkSession

from millrace.config import ProcessingEngine, ProcessingGuarantee, StreamsConfig
from millrace.driver.coordinator.coordinator import CoordinatorSettings
from millrace.driver.coordinator.thread_status import shown, totals_of
from millrace.driver.driver import Driver
from millrace.driver.driver_options import DriverHooks, DriverSettings, ExitCode
from millrace.driver.preparation import Preparation, Preparer
from millrace.driver.reporter import Application, Prepared
from millrace.driver.restarts import RestartPolicy
from millrace.driver.savepoint import SAVEPOINT_OPERATION, TakeSavepoint
from millrace.driver.status import ApplicationStatus, StreamThreadStatus
from millrace.driver.status_topic import StatusPublisher
from millrace.driver.stream_threads.query import StreamThreadsQuery
from millrace.driver.stream_threads.threads import StreamThreads
from millrace.driver.task_databases import database_operations
from millrace.driver.watch import InputWatch
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.groups import fence_transactional_ids, live_members
from millrace.kafka.offsets import End, end_offsets, lag
from millrace.metrics import ApplicationMetrics, TaskStatistics
from millrace.spark.engine import engine_of
from millrace.spark.micro_batches.query import SparkQuery
from millrace.spark.plan import QueryPlan
from millrace.spark.query_hooks import QueryHooks
from millrace.spark.restore_reports import RestoreReport
from millrace.spark.session import SessionStart, driver_address, set_arrow_batches
from millrace.spark.stream_threads.epochs import Epochs
from millrace.spark.stream_threads.slots import EpochSize, epoch_size, slots_of
from millrace.spark.task_reports import LostTransaction, TaskReports
from millrace.spark.warm_up import warm_up
from millrace.state import DirectoryLock, StateDirectory
from millrace.topology.layout import start_transactional_id
from millrace.topology.picture import picture
from millrace.topology.summary import summarize
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology

_log = structlog.get_logger(__name__)


def run_application(
    config: StreamsConfig,
    topology: FrozenTopology,
    start: SessionStart,
    *,
    run_directory: Path,
    discards_state: bool = False,
    owns_process: bool = False,
) -> int:
    """Runs an application until it is stopped, fails for good, or a newer driver takes over.

    Args:
        config: its configuration.
        topology: its topology.
        start: the session that :func:`millrace.spark.session.open_session` opens; it is stopped in the end.
        run_directory: where ``control.json`` and the control token go.
        discards_state: whether a changed topology may abandon stores that it no longer has.
        owns_process: whether this process is the driver's own: once a newer driver has taken over, it is ended within
            two seconds, whatever its threads wait for.

    Returns:
        The exit code of the process: 0 after a stop, 1 after a failure, 3 when a newer driver took over.

    Raises:
        StateDirectoryLockedError: another driver on this host runs the same application in the same state directory.
    """
    state = StateDirectory(config.state_dir).application(config.application_id)
    lock = DirectoryLock(state)
    try:
        return _Run(
            config,
            topology,
            start,
            run_directory,
            discards_state=discards_state,
            end_process=_end_process if owns_process else None,
        ).run()
    finally:
        lock.release()


class _Run:
    """The parts of a running application, and the data that flows between them."""

    def __init__(
        self,
        config: StreamsConfig,
        topology: FrozenTopology,
        start: SessionStart,
        run_directory: Path,
        *,
        discards_state: bool,
        end_process: Callable[[int], None] | None,
    ) -> None:
        self._config = config
        self._end_process = end_process
        self._topology = topology
        self._metrics = ApplicationMetrics(config.application_id)
        self._publisher = StatusPublisher(
            config.bootstrap_servers,
            config.application_id,
            replication_factor=config.replication_factor,
            client_settings=config.client_settings("admin."),
        )
        self._reports: TaskReports | None = None
        self._preparer = Preparer(config, topology, discards_state=discards_state)
        self._admin = KafkaAdmin(config.bootstrap_servers, settings=config.client_settings("admin."))
        self._input_watch = InputWatch(self._admin, config)
        self._queries: tuple[SparkQuery | StreamThreadsQuery, ...] = ()
        self._threads: StreamThreads | None = None
        self._prepared: Prepared | None = None
        self._starts: Mapping[TopicPartition, int] = {}
        # The JVM and its Python workers take seconds to come up; meanwhile the broker is asked what there is.
        self._session = start.session
        self._workers = start.workers
        self._run_id = uuid4().hex
        self._driver = Driver(
            Application(
                application_id=config.application_id,
                run_id=self._run_id,
                topology_fingerprint=topology.fingerprint,
                topology_summary=summarize(topology),
                processing_guarantee=config.processing_guarantee,
                commit_interval_ms=config.commit_interval_ms_of(engine_of(config, topology)),
            ),
            DriverHooks(
                preflight=self._preparer.check_topics,
                fence=self._fence,
                prepare=self._prepare,
                warm_up=self._warm_up,
                live_members=self._live_members,
                watch=self._watch,
                end_offsets=self._end_offsets,
                high_watermarks=lambda topic_partitions: end_offsets(self._admin, topic_partitions, End.HIGH_WATERMARK),
                cancel_jobs=self._cancel_jobs,
                end_process=end_process,
                on_restart=self._metrics.count_query_restart,
                stream_threads=self._stream_thread_statuses,
                metrics=self._exposition,
                describe=topology.describe,
                picture=lambda: picture(topology).encode(),
                operations={
                    SAVEPOINT_OPERATION: TakeSavepoint(config, topology),
                    **database_operations(self._admin, config.application_id),
                },
            ),
            self._publisher,
            DriverSettings(
                control_file=run_directory / "control.json",
                server_address=config.application_server,
                token_file=Path(config.control_token_file) if config.control_token_file else None,
                heartbeat_interval_s=config.heartbeat_interval_ms / 1000,
                tick_interval_s=1.0,
                broker_timeout_s=config.default_api_timeout_ms / 1000,
                restart=RestartPolicy(
                    initial_s=config.query_restart_backoff_ms / 1000, max_attempts=config.query_restart_attempts
                ),
            ),
        )

    def run(self) -> int:
        """Runs until the application ends."""
        code = ExitCode.FAILED
        self._workers.add_done_callback(self._workers_started)
        try:
            code = self._driver.run()
            if code is ExitCode.FENCED and self._end_process is not None:
                # Clients and sessions that are taken down in order wait for what they still hold.
                self._end_process(code)
            return int(code)
        finally:
            if self._threads is not None:
                self._threads.close()
            if self._reports is not None:
                self._reports.close()
            # A session that ends in order waits for what runs; of a fenced driver nothing is waited for.
            if code is not ExitCode.FENCED and self._session.done() and self._session.exception() is None:
                self._session.result().stop()

    def _fence(self, transactional_ids: Sequence[str]) -> None:
        if self._config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            fence_transactional_ids(
                self._config.bootstrap_servers,
                [*transactional_ids, start_transactional_id(self._config.application_id)],
                settings=self._config.client_settings("producer."),
            )

    def _fence_tasks(self, tasks: Sequence[str]) -> None:
        """Fences tasks that no process runs any more, by taking over their transactional ids."""
        # A driver that slept would take its successor's ids back.
        self._driver.confirm_newest()
        specs = [query.plan.task_spec(number) for query in self._queries for number in range(query.plan.tasks)]
        ids = {spec.name: spec.transactional_id for spec in specs}
        fence_transactional_ids(
            self._config.bootstrap_servers,
            [transactional_id for task in tasks if (transactional_id := ids.get(task)) is not None],
            settings=self._config.client_settings("producer."),
        )

    def _cancel_jobs(self) -> None:
        if self._session.done() and self._session.exception() is None:
            self._session.result().sparkContext.cancelAllJobs()

    def _prepare(self, last: ApplicationStatus | None) -> Prepared:
        preparation = self._preparation(last)
        session = self._session.result()
        largest = max(plan.largest_input_bytes for plan in preparation.plans)
        set_arrow_batches(session, self._config, largest_record_bytes=largest)
        hooks = QueryHooks(
            before_batch=self._driver.before_batch,
            before_purge=self._driver.confirm_newest,
            fence=self._fence_tasks,
            on_fenced=self._driver.fail,
            on_statistics=self._statistics_reported,
            on_batch=self._metrics.observe_batch,
            replan=self._replan,
        )
        plans = [self._with_reports(plan) for plan in preparation.plans]
        if self._choose_engine() is ProcessingEngine.STREAM_THREADS:
            threads = self._threads = self._stream_threads(session)
            self._queries = tuple(StreamThreadsQuery(threads, plan, hooks) for plan in plans)
        else:
            self._queries = tuple(SparkQuery(session, plan, hooks) for plan in plans)
        self._starts = {topic_partition: start.offset for topic_partition, start in preparation.starts.items()}
        self._prepared = self._as_prepared(preparation)
        return self._prepared

    def _choose_engine(self) -> ProcessingEngine:
        engine = engine_of(self._config, self._topology)
        if engine is not self._config.processing_engine:
            _log.warning(
                "micro-batches execute the application: frame functions need Spark's own source",
                application=self._config.application_id,
                sources=self._topology.framed_sources,
            )
        return engine

    def _stream_threads(self, session: SparkSession) -> StreamThreads:
        def size() -> EpochSize:
            tasks = sum(query.plan.tasks for query in self._queries)
            return epoch_size(self._config.num_stream_threads, slots_of(session), tasks)

        bind, host = driver_address(session)
        exactly_once = self._config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
        return StreamThreads(
            CoordinatorSettings(
                application=self._config.application_id,
                fences=exactly_once,
                standby_replicas=self._config.num_standby_replicas,
            ),
            run=self._run_id,
            bind=bind,
            port=self._config.coordinator_port,
            host=host,
            make_epochs=lambda function: Epochs(session, self._config.application_id, size=size, function=function),
            fence=self._fence_tasks,
        )

    def _preparation(self, last: ApplicationStatus | None) -> Preparation:
        epoch = self._publisher.epoch
        return self._preparer.prepare(
            last, run_id=epoch, driver=(epoch, self._run_id), confirm=self._driver.confirm_newest
        )

    def _replan(self, sub_topology: int) -> QueryPlan:
        """Returns the new plan of a query whose input has new partitions; called by the query as it restarts."""
        preparation = self._preparation(self._driver.status())
        self._prepared = self._as_prepared(preparation)
        # Before any task of a new partition starts, so that the next driver knows whom to fence.
        self._driver.replanned(self._prepared)
        return self._with_reports(next(each for each in preparation.plans if each.sub_topology.number == sub_topology))

    def _with_reports(self, plan: QueryPlan) -> QueryPlan:
        """Returns the plan with the address for task reports outside of batch results."""
        if self._reports is None:
            # Only a session knows at which address workers reach its driver.
            self._reports = TaskReports(
                *driver_address(self._session.result()),
                take_restore=self._restore_reported,
                take_lost_transaction=self._transaction_lost,
            )
        return replace(plan, progress_address=self._reports.address)

    def _as_prepared(self, preparation: Preparation) -> Prepared:
        inputs = {name for plan in preparation.plans for name in plan.topics}
        return Prepared(
            queries=self._queries,
            transactional_ids=tuple(
                transactional_id
                for plan in preparation.plans
                for partition in range(plan.tasks)
                if (transactional_id := plan.task_spec(partition).transactional_id) is not None
            ),
            offsets={
                plan.sub_topology.number: {
                    topic_partition: start.offset
                    for topic_partition, start in preparation.starts.items()
                    if topic_partition[0] in plan.topics
                }
                for plan in preparation.plans
            },
            topic_ids={name: preparation.topics[name].topic_id for name in inputs},
            partitions={name: preparation.topics[name].partitions for name in inputs},
            changelog_ids={
                name: topic_id for plan in preparation.plans for name, topic_id in plan.changelog_ids.items()
            },
            global_topic_ids={name: preparation.topics[name].topic_id for name in sorted(self._topology.global_topics)},
        )

    def _warm_up(self) -> None:
        if self._threads is None or not self._config.master.startswith("local"):
            # How many slots a cluster has is known once its executors have come.
            self._workers.result()
        # Stream threads read by themselves: of Spark's source there is nothing to warm up.
        if plans := [query.plan for query in self._queries if isinstance(query, SparkQuery)]:
            warm_up(self._session.result(), plans, self._starts, end_offsets(self._admin, self._starts))

    def _workers_started(self, workers: Future[None]) -> None:
        if (error := workers.exception()) is not None:
            self._driver.fail(error)

    def _live_members(self) -> Sequence[str]:
        membership = live_members(self._admin, self._config.application_id)
        return (str(membership),) if membership.is_live else ()

    def _watch(self) -> None:
        if self._prepared is not None:
            self._input_watch.check(
                topic_ids=self._prepared.topic_ids,
                partitions=self._prepared.partitions,
                changelog_ids=self._prepared.changelog_ids,
                global_topic_ids=self._prepared.global_topic_ids,
            )

    def _end_offsets(self, topic_partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        ends = end_offsets(self._admin, topic_partitions)
        for query in self._queries:
            positions = query.progress.positions
            self._metrics.set_lag(
                query.sub_topology,
                {
                    topic_partition: lag(offset, ends.get(topic_partition))
                    for topic_partition, offset in positions.items()
                    if topic_partition in ends
                },
            )
        return ends

    def _stream_thread_statuses(self) -> tuple[tuple[StreamThreadStatus, ...], str]:
        threads = self._threads
        return ((), "") if threads is None else (tuple(map(shown, threads.threads)), threads.shortage)

    def _statistics_reported(self, statistics: TaskStatistics) -> None:
        self._metrics.record(statistics)

    def _restore_reported(self, report: RestoreReport) -> None:
        for query in self._queries:
            if report.task.startswith(f"{query.sub_topology}_"):
                remaining, rate = query.on_restore_progress(report)
                self._metrics.set_restore_progress(report.task, remaining=remaining, records_per_second=rate)

    def _transaction_lost(self, lost: LostTransaction) -> None:
        self._metrics.count_transaction(lost.task, lost.outcome)

    def _exposition(self) -> bytes:
        status = self._driver.status()
        self._metrics.set_application(state=status.state, driver_epoch=status.driver_epoch, paused=status.paused)
        self._show_progress(status, now=time.time())
        if self._threads is not None:
            self._metrics.set_stream_threads(
                {str(each.slot): totals_of(each) for each in self._threads.threads}, wanted=self._threads.wanted
            )
        return self._metrics.exposition()

    def _show_progress(self, status: ApplicationStatus, *, now: float) -> None:
        """Sets the metrics of times and input ends that readers of the status see too."""
        self._metrics.set_heard(
            broker_answered_at=status.broker_answered_at,
            last_commits={
                number: each.last_commit_at
                for number, each in status.progress.items()
                if each.last_commit_at is not None
            },
        )
        for query in self._queries:
            self._metrics.set_input_ends(
                query.sub_topology,
                {
                    (topic, partition): (
                        end.last_stable,
                        end.high_watermark,
                        0.0 if end.held_back_since is None else max(0.0, now - end.held_back_since),
                    )
                    for topic in query.plan.topics
                    for partition, end in status.input_ends.get(topic, {}).items()
                },
            )


def _end_process(code: int) -> None:
    """Ends this process and its Python workers; Spark's virtual machine ends with it.

    Workers first: one that has just been handed a batch goes on with it until its machine notices that it is alone.
    """
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "python" in child.name():
                child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
