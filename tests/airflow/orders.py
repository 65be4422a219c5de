"""A small real application, and the broker that it reads from, for the tests of the DAGs that operate it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import yaml

from millrace import ops
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.ops import Home
from tests.airflow.topologies import LETTERS, ORDERS, TOTALS
from tests.application import SEARCH_PATH, wait_until
from tests.records import Record, produce, read_topic

NAME, UNREADY = "orders", "unready"


@dataclass(frozen=True)
class Orders:
    """The application ``orders``."""

    home: Home
    bootstrap_servers: str

    @property
    def admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.bootstrap_servers)

    def specify(self) -> None:
        """Writes its specification, and that of an application whose input nobody makes."""
        for name, function in ((NAME, "totals"), (UNREADY, "totals_of_nothing")):
            document: dict[str, Any] = {
                "name": name,
                "module": f"tests.airflow.topologies:{function}",
                "config": {
                    "bootstrap.servers": self.bootstrap_servers,
                    "state.dir": str(self.home.root / "state"),
                    "commit.interval.ms": 250,
                    "heartbeat.interval.ms": 1000,
                    "deserialization.exception.handler": "continue",
                    "errors.dead.letter.queue.topic.name": LETTERS,
                    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                },
                "launcher": {
                    "kind": "local",
                    "parallelism": 1,
                    "driver_memory": "512m",
                    "environment": {"PYTHONPATH": SEARCH_PATH},
                },
                "preflight": {"least_free_disk_mb": 1},
                "health": {"readiness_timeout_s": 300},
            }
            self.home.spec_path(name).write_text(yaml.safe_dump(document))

    def start(self) -> None:
        """Makes its topics and starts it; returns once it runs."""
        self.admin.create_missing([TopicSpec(name=name, partitions=1) for name in (ORDERS, TOTALS, LETTERS)])
        self.send(20)
        ops.deploy(self.home, NAME)
        ops.wait_until_ready(self.home, NAME)
        self.wait_until_caught_up()

    def send(self, count: int) -> None:
        """So many orders of five customers."""
        records = [Record(f"customer-{number % 5}".encode(), struct.pack(">q", number)) for number in range(count)]
        produce(self.bootstrap_servers, ORDERS, records)

    def send_unreadable(self) -> None:
        """One order that cannot be read; returns once its dead letter is there."""
        before = len(read_topic(self.bootstrap_servers, LETTERS))
        produce(self.bootstrap_servers, ORDERS, [Record(b"customer-0", b"x")])
        self.wait_for_letters(before + 1)

    def wait_for_letters(self, count: int) -> None:
        wait_until(
            lambda: len(read_topic(self.bootstrap_servers, LETTERS)) >= count, timeout_s=60, what=f"{count} letters"
        )

    def wait_until_caught_up(self) -> None:
        place = (ORDERS, 0)

        def caught_up() -> bool:
            committed = committed_offsets(self.admin, NAME)
            return (
                place in committed
                and committed[place].offset >= end_offsets(self.admin, [place], End.HIGH_WATERMARK)[place]
            )

        wait_until(caught_up, timeout_s=120, what="orders caught up")

    def is_alive(self) -> bool:
        directory = self.home.application(NAME)
        record = ops.read_record(directory)
        return record is not None and record.is_driver_alive(directory)
