"""Small real applications, and the broker that they read from, for the tests of the DAGs that operate them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import yaml

from millrace import supervise
from millrace.install.application import Application
from millrace.install.home import Home
from millrace.install.record import read_record
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from tests.airflow.topologies import DEAD_LETTERS, ORDERS, TOTALS
from tests.application import SEARCH_PATH, wait_until
from tests.records import Record, produce, read_topic

NAME, UNREADY = "orders", "unready"
SECRET_VARIABLE, SECRET = "MILLRACE_TEST_STORE_KEY", "a-marker-of-a-secret"


def specification(home: Home, bootstrap_servers: str, name: str, function: str) -> dict[str, Any]:
    """The specification of an application whose topology is a function of :mod:`tests.airflow.topologies`."""
    return {
        "name": name,
        "module": f"tests.airflow.topologies:{function}",
        "production": False,
        "config": {
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(home.root / "state"),
            "commit.interval.ms": 250,
            "heartbeat.interval.ms": 1000,
            "deserialization.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": DEAD_LETTERS,
            "spark.hadoop.fs.s3a.secret.key": f"${{env:{SECRET_VARIABLE}}}",
        },
        "launcher": {
            "kind": "local",
            "parallelism": 1,
            "driver_memory": "512m",
            "environment": {"PYTHONPATH": SEARCH_PATH},
        },
        "preflight": {"least_free_disk_mb": 1},
    }


@dataclass(frozen=True)
class Orders:
    """An application that counts orders.

    Args:
        home: the installation.
        bootstrap_servers: the broker.
        name: the application.
        function: its topology, of :mod:`tests.airflow.topologies`.
        topic: what it reads.
        output: what it writes.
    """

    home: Home
    bootstrap_servers: str
    name: str = NAME
    function: str = "totals"
    topic: str = ORDERS
    output: str = TOTALS

    @property
    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.bootstrap_servers)

    def specify(self, **changes: Any) -> None:
        """Writes its specification, with other keys where they are given."""
        document = specification(self.home, self.bootstrap_servers, self.name, self.function)
        self.home.spec_path(self.name).write_text(yaml.safe_dump({**document, **changes}))

    def create_topics(self) -> None:
        """Makes its topics."""
        self.admin.create_missing(
            [TopicSpec(name=name, partitions=1) for name in (self.topic, self.output, DEAD_LETTERS)]
        )

    def start(self) -> None:
        """Makes its topics and starts it; returns once it runs."""
        self.create_topics()
        self.send(20)
        supervise.deploy(Application(self.home, self.name))
        supervise.wait_until_ready(Application(self.home, self.name))
        self.wait_until_caught_up()

    def send(self, count: int) -> None:
        """So many orders of five customers."""
        records = [Record(f"customer-{number % 5}".encode(), struct.pack(">q", number)) for number in range(count)]
        produce(self.bootstrap_servers, self.topic, records)

    def send_unreadable(self) -> None:
        """One order that cannot be read; returns once its dead-letter record is there."""
        before = len(read_topic(self.bootstrap_servers, DEAD_LETTERS))
        produce(self.bootstrap_servers, self.topic, [Record(b"customer-0", b"x")])
        self.wait_for_dead_letter_records(before + 1)

    def wait_for_dead_letter_records(self, count: int) -> None:
        wait_until(
            lambda: len(read_topic(self.bootstrap_servers, DEAD_LETTERS)) >= count,
            timeout_s=60,
            what=f"{count} dead-letter records",
        )

    def wait_until_caught_up(self) -> None:
        topic_partition = (self.topic, 0)

        def caught_up() -> bool:
            committed = committed_offsets(self.admin, self.name)
            return (
                topic_partition in committed
                and committed[topic_partition].offset
                >= end_offsets(self.admin, [topic_partition], End.HIGH_WATERMARK)[topic_partition]
            )

        wait_until(caught_up, timeout_s=120, what=f"{self.name} caught up")

    def is_alive(self) -> bool:
        directory = self.home.application(self.name)
        record = read_record(directory)
        return record is not None and record.is_driver_alive(directory)
