"""An installation with one application, deployed as users do, whose input keeps coming."""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from millrace import operations
from millrace.driver.status import ApplicationStatus
from millrace.driver.status_topic import read_statuses
from millrace.home import HOME_VARIABLE
from millrace.install.application import Application
from millrace.install.home import SPECS_VARIABLE, Home
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.launch.driver import StopLimits
from millrace.operations.savepoints.location import target_of
from tests import prepared
from tests.application import PREFIX_VARIABLE, SEARCH_PATH, wait_until
from tests.integration.savepoints.processing import process
from tests.integration.savepoints.topologies import INPUT_VARIABLE, OUTPUT_VARIABLE, bucket
from tests.records import Record, produce, read_topic

OUTPUTS = ("by-key", "by-window", "by-bucket")


class Installation:
    """An installation of its own on the shared broker.

    Args:
        bootstrap_servers: the broker.
        directory: where everything goes.
        partitions: of the input.
    """

    def __init__(self, bootstrap_servers: str, directory: Path, *, partitions: int = 2) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.prefix = f"s{uuid4().hex[:8]}"
        self.home = Home.at(directory / "home", specs=directory / "specs")
        self.home.specs.mkdir(parents=True)
        self.admin = KafkaAdmin(bootstrap_servers)
        self.sent: list[Record] = []
        self.input = f"{self.prefix}-in"
        self._topics = [
            f"{self.prefix}-in",
            *(f"{self.prefix}-{side}{name}" for side in ("", "clone-") for name in OUTPUTS),
        ]
        self.admin.create_missing([TopicSpec(name=name, partitions=partitions) for name in self._topics])
        self._guard = threading.Lock()

    def specify(self, name: str = "app", *, module: str = "counting", clone: bool = False, **config: Any) -> str:
        """Writes the specification of an application; returns its name."""
        application = f"{self.prefix}-{name}"
        environment = {
            PREFIX_VARIABLE: self.prefix,
            OUTPUT_VARIABLE: "clone-" if clone else "",
            "PYTHONPATH": SEARCH_PATH,
        }
        document = {
            "name": application,
            "module": f"tests.integration.savepoints.topologies:{module}",
            "config": {
                "bootstrap.servers": self.bootstrap_servers,
                "state.dir": str(self.home.root / "state"),
                "commit.interval.ms": 200,
                "repartition.purge.interval.ms": 500,
                **config,
            },
            "launcher": {"parallelism": 2, "driver_memory": "768m", "environment": environment},
            "preflight": {"least_free_disk_mb": 0},
        }
        self.home.spec_path(application).write_text(yaml.safe_dump(document))
        return application

    @staticmethod
    def clone_writes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on topologies of this process write to the outputs of clones."""
        monkeypatch.setenv(OUTPUT_VARIABLE, "clone-")

    @staticmethod
    def original_writes_again(monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on topologies of this process write to the outputs of the original."""
        monkeypatch.setenv(OUTPUT_VARIABLE, "")

    def other_input(self, monkeypatch: pytest.MonkeyPatch, *, partitions: int) -> str:
        """From now on topologies of this process read another topic, which gets what is sent; returns its name."""
        monkeypatch.setenv(INPUT_VARIABLE, "other")
        self.input = f"{self.prefix}-other"
        self.admin.create_missing([TopicSpec(name=self.input, partitions=partitions)])
        self._topics.append(self.input)
        return self.input

    def send(self, count: int, *, keys: int = 50) -> None:
        """Sends records whose values count on."""
        with self._guard:
            first = len(self.sent)
            records = [
                Record(f"key-{number % keys}".encode(), str(number).encode(), 1_000_000 + number * 10)
                for number in range(first, first + count)
            ]
            produce(self.bootstrap_servers, self.input, records)
            self.sent += records

    def status(self, application: str) -> ApplicationStatus | None:
        """What the application has published."""
        return read_statuses(self.bootstrap_servers).get(application)

    def wait_until_caught_up(self, application: str, timeout_s: float = 120.0) -> None:
        """Returns once everything that is in the input topics, internal ones included, is committed."""

        def caught_up() -> bool:
            status = self.status(application)
            topic_partitions = (
                [(name, number) for name, count in status.partitions.items() for number in range(count)]
                if status
                else []
            )
            committed = committed_offsets(self.admin, application, topic_partitions)
            ends = end_offsets(self.admin, topic_partitions, End.HIGH_WATERMARK)
            return bool(topic_partitions) and all(
                topic_partition in committed and committed[topic_partition].offset >= ends[topic_partition]
                for topic_partition in topic_partitions
            )

        wait_until(caught_up, timeout_s=timeout_s, what=f"{application}: committed = end")

    def last_counts(self, name: str) -> dict[bytes, int]:
        """The last count of each key of an output topic."""
        found = read_topic(self.bootstrap_servers, f"{self.prefix}-{name}")
        return {record.key: struct.unpack(">q", record.value)[0] for record in found if record.key and record.value}

    def expected(self, name: str) -> dict[bytes, int]:
        """What an independent count of all records that were sent gives."""
        if name == "by-key":
            return dict(Counter(record.key for record in self.sent if record.key is not None))
        if name == "by-window":
            return dict(
                Counter(
                    record.key + struct.pack(">q", record.timestamp // 1000 * 1000)
                    for record in self.sent
                    if record.key is not None
                )
            )
        return dict(Counter(bucket(record.key.decode()).encode() for record in self.sent if record.key is not None))

    def run(self, application: str, *, only: Collection[int] | None = None) -> dict[str, int]:
        """Has the application's tasks take all input, without Spark; see :func:`process`."""
        target = target_of(Application(self.home, application).desired.spec)
        return process(target.config, target.topology, only=only)

    def killed_at_every_step(self, operation: str, steps: Sequence[str], application: str, *arguments: str) -> None:
        """See :func:`tests.prepared.killed_at_every_step`."""
        variables = {HOME_VARIABLE: str(self.home.root), SPECS_VARIABLE: str(self.home.specs)}
        prepared.killed_at_every_step(
            operation,
            steps,
            application,
            (prepared.millrace, *arguments),
            environment=variables,
            directory=self.home.root / "points",
        )

    def check_outputs(self) -> None:
        """Each output's last counts are those of all records that were sent."""
        for output in OUTPUTS:
            assert self.last_counts(output) == self.expected(output), output

    def close(self) -> None:
        """Stops what runs."""
        for name in self.home.deployed():
            operations.stop(Application(self.home, name), limits=StopLimits(graceful_s=0.0, terminate_s=5.0))
        self.admin.delete_topics(self._topics)


@pytest.fixture
def make_installation(
    bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Installation]]:
    """Makes installations; what runs in them is ended after the test."""
    made: list[Installation] = []

    def make(**options: Any) -> Installation:
        installation = Installation(bootstrap_servers, tmp_path / f"installation-{len(made)}", **options)
        # The topologies are built here, too.
        monkeypatch.setenv(PREFIX_VARIABLE, installation.prefix)
        made.append(installation)
        return installation

    yield make
    for each in made:
        each.close()


@pytest.fixture
def world(make_installation: Callable[..., Installation]) -> Installation:
    """An installation of the test's own."""
    return make_installation()
