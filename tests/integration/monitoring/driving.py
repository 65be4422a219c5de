"""A driver without Spark: real tasks, their statistics in the registry and the control plane that a driver has."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from millrace.config import StreamsConfig
from millrace.driver.control_file import ControlFile, new_token
from millrace.driver.health import HealthLimits, assess
from millrace.driver.lifecycle import ApplicationState
from millrace.driver.preparation import Preparer
from millrace.driver.server import ControlServer, ControlSurface
from millrace.driver.status import ApplicationStatus, DriverIdentity, SubTopologyStatus
from millrace.dsl.loading import load_topology
from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.launchers.local_process import LocalProcess
from millrace.install.record import DesiredState, JobRecord, write_record
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets, end_offsets, lag
from millrace.kafka.topics import TopicSpec
from millrace.launch.observe import observe, remember
from millrace.metrics import ApplicationMetrics
from millrace.processes import ProcessIdentity
from millrace.spark.statistics import statistics_of
from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from tests.records import Record, produce

TOPICS = ("in", "small", "out", "dead-letters", "elsewhere")
LARGEST_SMALL_BYTES = 2_000


class DrivenApplication:
    """One application with one task for each sub-topology, driven by the test's own process.

    Args:
        bootstrap_servers: the broker.
        prefix: of its topics, as in the variable of :func:`tests.application.topic`.
        directory: where its installation goes.
    """

    def __init__(self, bootstrap_servers: str, prefix: str, directory: Path) -> None:
        self.home = Home(root=directory / "home", specs=directory / "apps")
        self.home.specs.mkdir(parents=True)
        self.name, self.prefix = f"{prefix}-app", prefix
        self.admin = KafkaAdmin(bootstrap_servers, timeout_s=30.0)
        module = "tests.integration.monitoring.topologies"
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(self.home.root / "state"),
            "transaction.timeout.ms": 10_000,
            "production.exception.handler": f"{module}:fail_or_go_on",
            "errors.dead.letter.queue.topic.name": f"{prefix}-dead-letters",
        }
        document = {
            "name": self.name,
            "module": f"{module}:counting",
            "config": settings,
            # A restoration takes longer than that to begin, and the savepoint of the test is older before it ends.
            "health": {"recovery_objective_s": 0.1},
            "savepoints": {"interval_s": 5},
        }
        self.home.spec_path(self.name).write_text(yaml.safe_dump(document))
        shutil.copy(self.home.spec_path(self.name), self._made(self.home.application(self.name).spec))
        self.config = StreamsConfig.from_mapping({"application.id": self.name, **settings})
        self.topology = load_topology(f"{module}:counting", self.config)
        self.admin.create_missing(
            [
                TopicSpec(
                    name=f"{prefix}-{name}",
                    partitions=1,
                    settings={"max.message.bytes": str(LARGEST_SMALL_BYTES)} if name == "small" else {},
                )
                for name in TOPICS
            ]
        )
        self.state = ApplicationState.RUNNING
        self.run_id = 0
        self._tasks: list[tuple[Any, Task]] = []
        self._batch = 0
        self._server: ControlServer | None = None
        self._driver: subprocess.Popen[bytes] | None = None
        self.metrics = ApplicationMetrics(self.name)

    @staticmethod
    def _made(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def send(self, *records: Record) -> None:
        produce(self.config.bootstrap_servers, f"{self.prefix}-in", records)

    def begin(self) -> None:
        """A new run, as after a restart: other counters, and another epoch."""
        self.run_id += 1
        self.metrics = ApplicationMetrics(self.name)
        prepared = Preparer(self.config, self.topology).prepare(None, run_id=self.run_id)
        self._tasks = [(plan, self._task(plan)) for plan in prepared.plans]

    def _task(self, plan: Any) -> Task:
        def restoring(progress: Any) -> None:
            self.metrics.set_restore_progress(
                f"{plan.sub_topology.number}_0", remaining=progress.remaining, records_per_second=progress.records_per_s
            )

        return Task(
            plan.task_spec(0),
            restoring,
            on_lost_transaction=lambda outcome: self.metrics.count_transaction(
                f"{plan.sub_topology.number}_0", outcome
            ),
        )

    def work(self) -> bool:
        """One batch of each task with what there is; whether all succeeded."""
        succeeded = True
        for index, (plan, task) in enumerate(self._tasks):
            began = time.monotonic()
            inputs = plan.inputs_of(0)
            committed = committed_offsets(self.admin, self.name, inputs, stable=False)
            starts = {each: committed[each].offset for each in inputs}
            ends = end_offsets(self.admin, inputs)
            rows = [
                read_gap(self.config, plan.topics, each, start=starts[each], end=ends[each])[0]
                for each in inputs
                if ends[each] > starts[each]
            ]
            try:
                outcome = task.run_batch(
                    TaskBatch(rows, {each: OffsetRange(starts[each], ends[each], ends[each]) for each in inputs})
                )
            except MillraceError:
                task.close()
                self._tasks[index] = (plan, self._task(plan))
                succeeded = False
                continue
            self._batch += 1
            self.metrics.record(statistics_of(outcome, batch_id=self._batch, run_id=str(self.run_id)))
            self.metrics.observe_batch(plan.sub_topology.number, time.monotonic() - began)
            after = {each: lag(outcome.positions.get(each), ends[each]) for each in inputs}
            self.metrics.set_lag(plan.sub_topology.number, after)
            number = plan.sub_topology.number
            # As behind a transaction that was open for a moment.
            self.metrics.set_input_ends(number, {each: (end, end + 1, 1.0) for each, end in ends.items()})
        return succeeded

    def end(self) -> None:
        """Closes the tasks, and ends the control plane and the driver's process."""
        for _, task in self._tasks:
            task.close()
        self._tasks = []
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._driver is not None:
            self._driver.kill()
            self._driver.wait(10)
            self._driver = None

    def serve(self, *, restarts: int = 0) -> None:
        """Serves the control plane, and writes down what a deploy and a driver write.

        The process that is looked at as the driver leads a session, as one does that was launched; it only lives.
        """
        directory = self.home.application(self.name)
        surface = ControlSurface(
            status=self.status,
            health=lambda: assess(self.status(), now=time.time(), limits=HealthLimits()),
            metrics=self._exposition,
            describe=lambda: "",
            stop=lambda: None,
            pause=lambda: None,
            resume=lambda: None,
        )
        token = directory.path / "token"
        self._server = ControlServer("127.0.0.1:0", new_token(token), surface)
        self._server.start()
        self._driver = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
        driver = ProcessIdentity.of(self._driver.pid)
        assert driver is not None
        ControlFile(
            pid=driver.pid, start_time=driver.start_time, address=self._server.address, token_file=token.name
        ).write(directory.control)
        record = JobRecord(
            application=self.name,
            desired=DesiredState.RUNNING,
            driver=LocalProcess(driver),
            launched_at=time.time(),
            restarts=restarts,
        )
        write_record(directory, record)
        self.supervise()

    def supervise(self) -> None:
        """A look, as a supervising task takes it."""
        remember(
            self.home.application(self.name),
            observe(Application(self.home, self.name)),
            decision="nothing",
            watcher="manual/1",
        )

    def status(self) -> ApplicationStatus:
        return ApplicationStatus(
            application_id=self.name,
            state=self.state,
            driver=DriverIdentity.of_this_process(),
            driver_epoch=self.run_id,
            progress={0: SubTopologyStatus(batches=1, active=True)},
        )

    def _exposition(self) -> bytes:
        status = self.status()
        self.metrics.set_application(state=status.state, driver_epoch=status.driver_epoch, paused=status.paused)
        now = time.time()
        self.metrics.set_heard(broker_answered_at=now, last_commits={0: now})
        return self.metrics.exposition()
