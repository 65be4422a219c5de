"""An application whose tasks have run and ended: real tasks, transactions and changelogs, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from millrace.config import StreamsConfig
from millrace.driver.preparation import Preparer
from millrace.dsl import (
    BufferConfig,
    Consumed,
    JoinWindows,
    Materialized,
    Produced,
    SessionWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from millrace.dsl.loading import load_topology
from millrace.install.home import Home
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.serdes import LongSerde, StringSerde
from millrace.state import StateDirectory
from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from tests.application import PREFIX_VARIABLE, SEARCH_PATH, topic
from tests.records import Record, produce

TEXT = Consumed.with_(StringSerde(), StringSerde())
MINUTE = timedelta(minutes=1)


def every_kind(builder: StreamsBuilder) -> None:
    """A store of each kind: key-value, window, session, versioned, a join's buffers, a suppression buffer."""
    stream = builder.stream(topic("in"), TEXT)
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("counts"))
    windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(MINUTE))
    final = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")
    windowed.count(Materialized.as_("windows")).suppress(final)
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(MINUTE)).count(Materialized.as_("sessions"))
    builder.table(
        topic("table"), TEXT, Materialized.as_(Stores.persistent_versioned_key_value_store("prices", 600_000))
    )
    text = StringSerde()
    stream.join(
        builder.stream(topic("other"), TEXT),
        lambda left, right: f"{left}{right}",
        JoinWindows.of_time_difference_with_no_grace(MINUTE),
        StreamJoined.with_(text, text, text).with_store_name("joining"),
    ).to(topic("joined"), Produced.with_(text, text))


def counting(builder: StreamsBuilder) -> None:
    """Counts by key and in windows."""
    grouped = builder.stream(topic("in"), TEXT).group_by_key()
    grouped.count(Materialized.as_("counts"))
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(MINUTE)).count(Materialized.as_("windows"))


def telling(builder: StreamsBuilder) -> None:
    """Counts by key and tells each count."""
    counts = builder.stream(topic("in"), TEXT).group_by_key().count(Materialized.as_("counts"))
    counts.to_stream().to(topic("out"), Produced.with_(StringSerde(), LongSerde()))


class Worked:
    """An application without a driver.

    Args:
        bootstrap_servers: the broker.
        prefix: of its topics, as in the variable of :func:`tests.application.topic`.
        directory: where its installation goes.
        function: its topology, of this module.
        topics: its external topics, one partition each.
        config: settings of it.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        prefix: str,
        directory: Path,
        function: str,
        topics: Collection[str],
        *,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.home = Home(root=directory / "home", specs=directory / "apps")
        self.name = f"{prefix}-app"
        self.admin = KafkaAdmin(bootstrap_servers)
        module = f"tests.integration.operations.worked:{function}"
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(self.home.root / "state"),
            **(config or {}),
        }
        self.home.specs.mkdir(parents=True)
        environment = {PREFIX_VARIABLE: prefix, "PYTHONPATH": SEARCH_PATH}
        document = {
            "name": self.name,
            "module": module,
            "config": settings,
            "launcher": {"parallelism": 2, "driver_memory": "768m", "environment": environment},
            "preflight": {"least_free_disk_mb": 0},
        }
        self.home.spec_path(self.name).write_text(yaml.safe_dump(document))
        self.config = StreamsConfig.from_mapping({"application.id": self.name, **settings})
        self.prefix = prefix
        self.admin.create_missing(
            [TopicSpec(name=f"{prefix}-{name}", partitions=1, settings={"retention.ms": "-1"}) for name in topics]
        )
        self.topology = load_topology(module, self.config)
        self._run_id = 0

    def send(self, name: str, records: list[Record]) -> None:
        """Writes to one of its inputs."""
        produce(self.config.bootstrap_servers, f"{self.prefix}-{name}", records)

    def work(self, then: Callable[[Task], object] = lambda _: None) -> None:
        """Processes what is there, in one batch of each task.

        Args:
            then: what is done with each task before it is closed.
        """
        self._run_id += 1
        prepared = Preparer(self.config, self.topology).prepare(None, run_id=self._run_id)
        for plan in prepared.plans:
            task = Task(plan.task_spec(0))
            topic_partitions = plan.inputs_of(0)
            ends = end_offsets(self.admin, topic_partitions)
            committed = committed_offsets(self.admin, self.name, topic_partitions)
            starts = {topic_partition: committed[topic_partition].offset for topic_partition in topic_partitions}
            ranges = {
                topic_partition: OffsetRange(starts[topic_partition], ends[topic_partition], ends[topic_partition])
                for topic_partition in topic_partitions
            }
            rows = [
                read_gap(
                    self.config, plan.topics, topic_partition, start=starts[topic_partition], end=ends[topic_partition]
                )[0]
                for topic_partition in topic_partitions
                if ends[topic_partition] > starts[topic_partition]
            ]
            task.run_batch(TaskBatch(rows, ranges))
            then(task)
            task.close()

    def database(self, task: str = "0_0") -> Path:
        """The database of a task."""
        return StateDirectory(self.config.state_dir).application(self.name) / task / "rocksdb"

    def changelog(self, store: str) -> str:
        """Name of the changelog topic of a store."""
        return f"{self.name}-{store}-changelog"

    def changelogs(self) -> list[str]:
        """Names of all changelog topics."""
        return [
            name
            for part in self.topology.sub_topologies
            for store in part.stores
            if (name := store.changelog_topic(self.name)) is not None
        ]
