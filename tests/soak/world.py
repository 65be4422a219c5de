"""What a soak runs: a broker, an installation, and applications that are deployed and supervised as users have it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from millrace.driver.status import ApplicationStatus
from millrace.embedded.broker import EmbeddedBroker
from millrace.errors import MillraceError
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import read_record
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.launch import Verdict, observe
from millrace.launch.control_client import ask
from millrace.launch.driver import UNRESPONSIVE
from millrace.operations import stop
from millrace.supervise import deploy, reconcile
from millrace.topology.topic_partition import TopicPartition
from tests.application import PREFIX_VARIABLE, SEARCH_PATH, START_LIMIT_S, wait_until

PARTITIONS = 2
OUTPUTS = ("copy", "running", "folds", "buckets")
RECOVERY_LIMIT_S = 240.0


class SoakWorld:
    """A broker and an installation with the application ``<prefix>-app`` and, where asked for, a clone of it.

    Args:
        directory: where everything goes.
        prefix: of all names.
    """

    def __init__(self, directory: Path, prefix: str) -> None:
        self.directory = directory
        self.prefix = prefix
        self.application = f"{prefix}-app"
        self.clone = f"{prefix}-clone"
        self.home = Home.at(directory / "home", specs=directory / "specs")
        self.home.specs.mkdir(parents=True)
        self.broker = EmbeddedBroker(directory / "broker", properties={"log.retention.ms": "-1"})

    @property
    def bootstrap_servers(self) -> str:
        """Address of the broker."""
        return self.broker.bootstrap_servers

    @property
    def admin(self) -> KafkaAdmin:
        """A client of it."""
        return KafkaAdmin(self.bootstrap_servers)

    def start(self) -> None:
        """Starts the broker, makes the topics, deploys the application and waits until it is ready."""
        self.broker.start()
        names = ["in", *OUTPUTS, *(f"clone-{name}" for name in OUTPUTS)]
        self.admin.create_missing([TopicSpec(name=f"{self.prefix}-{name}", partitions=PARTITIONS) for name in names])
        self.write_spec(self.application, "build")
        self.write_spec(self.clone, "build_clone")
        self.deploy(self.application)

    def close(self) -> None:
        """Ends everything that it started."""
        for application in self.home.deployed():
            stop(Application(self.home, application), limits=UNRESPONSIVE)
        self.broker.kill()

    def write_spec(self, application: str, function: str) -> None:
        """Writes a specification with a topology of :mod:`tests.chaos.topologies`."""
        document = {
            "name": application,
            "module": f"tests.chaos.topologies:{function}",
            "config": {
                "bootstrap.servers": self.bootstrap_servers,
                "state.dir": str(self.directory / "state"),
                "commit.interval.ms": 250,
                "heartbeat.interval.ms": 1000,
            },
            "launcher": {
                "parallelism": 2,
                "driver_memory": "768m",
                "environment": {
                    PREFIX_VARIABLE: self.prefix,
                    "PYTHONPATH": SEARCH_PATH,
                },
            },
            "restart": {"initial_backoff_s": 0.5, "max_attempts": 1000},
            "health": {"no_answer_timeout_s": 20.0, "no_progress_timeout_s": 90.0},
            "preflight": {"least_free_disk_mb": 64},
        }
        self.home.spec_path(application).write_text(yaml.safe_dump(document))

    def deploy(self, application: str) -> None:
        """Deploys and waits until it is ready."""
        deploy(Application(self.home, application))
        self.wait_until_healthy(application)

    def wait_until_healthy(self, application: str) -> None:
        """Returns once it processes what arrives."""
        wait_until(
            lambda: observe(Application(self.home, application)).verdict is Verdict.HEALTHY,
            timeout_s=START_LIMIT_S,
            what=f"{application} healthy",
        )

    def driver(self, application: str) -> psutil.Process | None:
        """The live driver of an application."""
        record = read_record(self.home.application(application))
        if record is None or record.process is None or not record.process.is_alive():
            return None
        return psutil.Process(record.process.pid)

    def status(self, application: str) -> ApplicationStatus | None:
        """What its driver says."""
        directory = self.home.application(application)
        record = read_record(directory)
        answer = None if record is None or record.driver is None else ask(record.driver.probe(directory))
        return None if answer is None else answer.status

    def kill_session(self, application: str) -> None:
        """Ends the driver, its JVM and its workers at once, as a power cut would."""
        driver = self.driver(application)
        if driver is None:
            return
        members = [pid for pid in psutil.pids() if _session_of(pid) == driver.pid]
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # ended by itself, as its parent did

    def inputs(self, application: str) -> list[TopicPartition]:
        """The partitions that it reads, internal topics included."""
        status = wait_until(lambda: self.status(application), timeout_s=60, what=f"status of {application}")
        return [(name, number) for name, count in status.partitions.items() for number in range(count)]

    def committed(self, application: str, topic_partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Its committed offsets."""
        found = committed_offsets(self.admin, application, topic_partitions, stable=False)
        return {topic_partition: commit.offset for topic_partition, commit in found.items()}

    def ends_of_outputs(self, prefix: str) -> dict[TopicPartition, int]:
        """Where the next record of each partition of the output topics comes, whose names begin with a prefix."""
        topic_partitions = [
            (f"{self.prefix}-{prefix}{name}", number) for name in OUTPUTS for number in range(PARTITIONS)
        ]
        return end_offsets(self.admin, topic_partitions, End.HIGH_WATERMARK)

    def wait_until_committed(self, application: str, topic_partitions: list[TopicPartition]) -> None:
        """Returns once all that is in its input topics now is committed."""
        ends = wait_until(lambda: end_offsets(self.admin, topic_partitions), timeout_s=60, what="end offsets")

        def is_committed() -> bool:
            committed = self.committed(application, topic_partitions)
            return all(committed.get(topic_partition, -1) >= end for topic_partition, end in ends.items())

        wait_until(
            is_committed, timeout_s=RECOVERY_LIMIT_S, is_claim=True, what=f"{application} at the ends of its input"
        )

    def wait_until_caught_up(self, application: str, topic_partitions: list[TopicPartition]) -> None:
        """Returns once nothing is left to do, markers of transactions included; nobody must be sending."""

        def is_caught_up() -> bool:
            committed = self.committed(application, topic_partitions)
            ends = end_offsets(self.admin, topic_partitions, End.HIGH_WATERMARK)
            return all(committed.get(topic_partition, -1) >= end for topic_partition, end in ends.items())

        wait_until(is_caught_up, timeout_s=RECOVERY_LIMIT_S, is_claim=True, what=f"{application}: committed = end")


class Supervision:
    """Reconciles an application every second, as supervision by Airflow does.

    Args:
        world: where it is.
        application: its name.
    """

    def __init__(self, world: SoakWorld, application: str) -> None:
        self._world = world
        self._application = application
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"supervise-{application}", daemon=True)
        self.actions: list[str] = []

    def __enter__(self) -> Supervision:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._ended.wait(1.0):
            try:
                outcome = reconcile(Application(self._world.home, self._application))
            except MillraceError as error:
                self.actions.append(f"failed: {error.message}")
                continue
            if outcome.action not in {"nothing", "wait"}:
                self.actions.append(f"{outcome.action}: {outcome.text}")


def measured(action: Callable[[], Mapping[str, Any] | None]) -> float:
    """How long something takes, seconds."""
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None
