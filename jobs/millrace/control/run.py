"""Runs one application in this process: the broker, Spark, the control plane and the metrics put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

from millrace.config import ProcessingGuarantee, StreamsConfig
from millrace.control.driver import Driver
from millrace.control.driver_options import DriverHooks, DriverSettings
from millrace.control.preparation import Preparation, Preparer, start_transactional_id
from millrace.control.query import TopicPartition
from millrace.control.reporter import Application, Prepared
from millrace.control.restarts import RestartPolicy
from millrace.control.savepoint import SAVEPOINT_OPERATION, TakeSavepoint
from millrace.control.status import ApplicationStatus
from millrace.control.status_topic import StatusPublisher
from millrace.control.task_databases import database_operations
from millrace.control.watch import InputWatch
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.groups import fence_transactional_ids, live_members
from millrace.kafka.offsets import end_offsets, lag
from millrace.metrics import ApplicationMetrics, TaskStatistics
from millrace.spark.plan import QueryPlan
from millrace.spark.query import QueryHooks, SparkQuery
from millrace.spark.restore_reports import RestoreReport
from millrace.spark.session import driver_address, set_arrow_batches
from millrace.spark.task_reports import LostTransaction, TaskReports
from millrace.spark.warm_up import warm_up
from millrace.state import DirectoryLock, StateDirectory
from millrace.topology.picture import picture
from millrace.topology.summary import summarize
from millrace.topology.topology import Topology


def run_application(
    config: StreamsConfig,
    topology: Topology,
    session: Future[SparkSession],
    *,
    run_directory: Path,
    gives_up_state: bool = False,
    tell_failure: Callable[[str, str], None] = lambda reason, remedy: None,  # noqa: ARG005
) -> int:
    """Runs an application until it is stopped, fails for good, or a newer driver takes over.

    Args:
        config: its configuration.
        topology: its topology.
        session: the session that :func:`millrace.spark.session.open_session` opens; it is stopped in the end.
        run_directory: where ``control.json`` and the control token go.
        gives_up_state: whether a changed topology may leave stores behind that the one before it had.
        tell_failure: takes reason and remedy where it does not end because it was stopped.

    Returns:
        The exit code of the process: 0 after a stop, 1 after a failure, 3 when a newer driver took over.

    Raises:
        StateDirectoryLockedError: another driver on this host runs the same application in the same state directory.
    """
    state = StateDirectory(config.state_dir).application(config.application_id)
    lock = DirectoryLock(state)
    try:
        running = _Run(config, topology, session, run_directory, gives_up_state=gives_up_state)
        code = running.run()
        if code:
            tell_failure(*running.last_words)
        return code
    finally:
        lock.release()


class _Run:
    """The parts of a running application and what flows between them."""

    def __init__(
        self,
        config: StreamsConfig,
        topology: Topology,
        session: Future[SparkSession],
        run_directory: Path,
        *,
        gives_up_state: bool,
    ) -> None:
        self._config = config
        self._topology = topology
        self._metrics = ApplicationMetrics(config.application_id)
        self._publisher = StatusPublisher(
            config.bootstrap_servers,
            config.application_id,
            replication_factor=config.replication_factor,
            client_settings=config.client_settings("admin."),
        )
        self._reports: TaskReports | None = None
        self._preparer = Preparer(config, topology, gives_up_state=gives_up_state)
        self._admin = KafkaAdmin(config.bootstrap_servers, settings=config.client_settings("admin."))
        self._input_watch = InputWatch(self._admin, config)
        self._queries: tuple[SparkQuery, ...] = ()
        self._prepared: Prepared | None = None
        self._starts: Mapping[TopicPartition, int] = {}
        # The JVM takes seconds to come up; meanwhile the broker is asked what there is.
        self._session = session
        self._driver = Driver(
            Application(
                application_id=config.application_id,
                run_id=uuid4().hex,
                topology_fingerprint=topology.fingerprint,
                topology_summary=summarize(topology),
                processing_guarantee=config.processing_guarantee,
            ),
            DriverHooks(
                preflight=self._preparer.check_topics,
                fence=self._fence,
                prepare=self._prepare,
                warm_up=self._warm_up,
                live_members=self._live_members,
                watch=self._watch,
                end_offsets=self._end_offsets,
                on_restart=self._metrics.count_query_restart,
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

    @property
    def last_words(self) -> tuple[str, str]:
        """Reason and remedy of its last state."""
        status = self._driver.status()
        return status.reason, status.remedy

    def run(self) -> int:
        """Runs until the application ends."""
        try:
            return int(self._driver.run())
        finally:
            if self._reports is not None:
                self._reports.close()
            if self._session.done() and self._session.exception() is None:
                self._session.result().stop()

    def _fence(self, transactional_ids: Sequence[str]) -> None:
        if self._config.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
            fence_transactional_ids(
                self._config.bootstrap_servers,
                [*transactional_ids, start_transactional_id(self._config.application_id)],
                settings=self._config.client_settings("producer."),
            )

    def _prepare(self, last: ApplicationStatus | None) -> Prepared:
        preparation = self._preparer.prepare(last, run_id=self._publisher.epoch)
        session = self._session.result()
        largest = max(plan.largest_input_bytes for plan in preparation.plans)
        set_arrow_batches(session, self._config, largest_record_bytes=largest)
        hooks = QueryHooks(
            before_batch=self._driver.before_batch,
            on_statistics=self._statistics_reported,
            on_batch=self._metrics.observe_batch,
            replan=self._replan,
        )
        self._queries = tuple(SparkQuery(session, self._with_reports(plan), hooks) for plan in preparation.plans)
        self._starts = {place: start.offset for place, start in preparation.starts.items()}
        self._prepared = self._as_prepared(preparation)
        return self._prepared

    def _replan(self, sub_topology: int) -> QueryPlan:
        """The plan of a query whose input has new partitions; called by the query that starts again."""
        preparation = self._preparer.prepare(self._driver.status(), run_id=self._publisher.epoch)
        self._prepared = self._as_prepared(preparation)
        # Before any task of a new partition starts, so that the next driver knows whom to fence.
        self._driver.replanned(self._prepared)
        return self._with_reports(next(each for each in preparation.plans if each.sub_topology.number == sub_topology))

    def _with_reports(self, plan: QueryPlan) -> QueryPlan:
        """The plan, with the address for what tasks report outside their results."""
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
                    place: start.offset for place, start in preparation.starts.items() if place[0] in plan.topics
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
        starts = self._starts
        warm_up(
            self._session.result(), [query.plan for query in self._queries], starts, end_offsets(self._admin, starts)
        )

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

    def _end_offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        ends = end_offsets(self._admin, places)
        for query in self._queries:
            positions = query.progress.positions
            self._metrics.set_lag(
                query.sub_topology,
                {place: lag(offset, ends.get(place)) for place, offset in positions.items() if place in ends},
            )
        return ends

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
        return self._metrics.exposition()
