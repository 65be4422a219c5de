"""A world for each test module: topics by short names, and applications over them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import TopicSpec
from tests.application import Application
from tests.records import ReadRecord, Record, produce, produce_transaction, read_topic


class World:
    """Topics and applications of one test module; everything is prefixed, so that modules share a broker.

    Args:
        bootstrap_servers: the broker.
        prefix: of all names.
        directory: where applications keep their files.
    """

    def __init__(self, bootstrap_servers: str, prefix: str, directory: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = KafkaAdmin(bootstrap_servers)
        self._prefix = prefix
        self._directory = directory
        self._topics: set[str] = set()
        self._applications: list[Application] = []

    def name(self, topic: str) -> str:
        """The full name of a topic."""
        return f"{self._prefix}-{topic}"

    def create(self, *topics: str, partitions: int = 1, **settings: str) -> None:
        """Creates topics; dots of setting names are written as underscores."""
        named = {key.replace("_", "."): value for key, value in settings.items()}
        names = [self.name(topic) for topic in topics]
        self.admin.create_missing([TopicSpec(name=name, partitions=partitions, settings=named) for name in names])
        self._topics.update(names)

    def send(self, topic: str, *records: Record) -> None:
        """Sends records in order."""
        produce(self.bootstrap_servers, self.name(topic), records)

    def send_transaction(self, topic: str, *records: Record, commit: bool) -> None:
        """Sends records in a transaction that is committed or aborted."""
        produce_transaction(
            self.bootstrap_servers,
            self.name(topic),
            records,
            transactional_id=f"{self._prefix}-{topic}-input",
            commit=commit,
        )

    def read(self, topic: str, **options: Any) -> list[ReadRecord]:
        """Every committed record of a topic."""
        return read_topic(self.bootstrap_servers, self.name(topic), **options)

    def read_any(self, full_name: str, **options: Any) -> list[ReadRecord]:
        """Every committed record of a topic that is not the module's own."""
        return read_topic(self.bootstrap_servers, full_name, **options)

    def application(self, function: str, name: str = "app", **options: Any) -> Application:
        """An application of :mod:`topologies`, not started."""
        directory = self._directory / name
        directory.mkdir(exist_ok=True)
        application = Application(
            options.pop("bootstrap_servers", self.bootstrap_servers),
            f"{self._prefix}-{name}",
            f"tests.integration.spark.topologies:{function}",
            directory,
            prefix=self._prefix,
            **options,
        )
        self._applications.append(application)
        return application

    def close(self) -> None:
        """Kills what still runs and deletes the topics."""
        for application in self._applications:
            application.kill()
        self.admin.delete_topics(self._topics)


@pytest.fixture(scope="module")
def world(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The module's topics and applications on the shared broker."""
    made = World(bootstrap_servers, f"w{uuid4().hex[:8]}", tmp_path_factory.mktemp("applications"))
    yield made
    made.close()
