"""An application whose tasks run in the test itself, without Spark: counts, counts by window, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from millrace.config import StreamsConfig
from millrace.driver.preparation import Preparer
from millrace.dsl import Consumed, Materialized, StreamsBuilder, TimeWindows
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, end_offsets
from millrace.kafka.topics import TopicSpec
from millrace.serdes import StringSerde
from millrace.spark.plan import QueryPlan
from millrace.state import RestoreProgress
from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.task import Task
from millrace.topology.topology import FrozenTopology
from tests.application import topic
from tests.records import Record, produce

PARTITIONS = 2
MINUTE = 60_000
TEXT = Consumed.with_(StringSerde(), StringSerde())


def build(builder: StreamsBuilder) -> None:
    """Counts by key, at all and in windows of a minute, and the latest value of each key as a table."""
    grouped = builder.stream(topic("in"), TEXT).group_by_key()
    grouped.count(materialized=Materialized.as_("counts"))
    windows = TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(minutes=1))
    grouped.windowed_by(windows).count(materialized=Materialized.as_("windows").with_retention(timedelta(minutes=5)))


def build_table(builder: StreamsBuilder) -> None:
    """A table whose input topic is its changelog."""
    builder.table(topic("in"), TEXT, materialized=Materialized.as_("table"))


class Counting:
    """The application, with as many state directories as a test wants.

    Args:
        bootstrap_servers: the broker.
        name: the application's, and the prefix of its topics.
        directory: state directories are made in it.
        table: run :func:`build_table`.
        settings: more of the configuration.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        name: str,
        directory: Path,
        *,
        table: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = name
        self.topic = f"{name}-in"
        self.directory = directory
        self.admin = KafkaAdmin(bootstrap_servers)
        self._settings = settings or {}
        builder = StreamsBuilder()
        (build_table if table else build)(builder)
        self.topology: FrozenTopology = builder.build(rewrites=["reuse-source-topic"]) if table else builder.build()
        self.admin.create_missing([TopicSpec(name=self.topic, partitions=PARTITIONS, settings={"retention.ms": "-1"})])
        self._runs = 0

    def config(self, state: str) -> StreamsConfig:
        """The configuration with a state directory."""
        return StreamsConfig.from_mapping(
            {
                "application.id": self.name,
                "bootstrap.servers": self.bootstrap_servers,
                "state.dir": str(self.directory / state),
                "replication.factor": 1,
                **self._settings,
            }
        )

    def send(self, records: Iterable[tuple[str, str | None, int]]) -> None:
        """Sends (key, value, timestamp)."""
        produce(
            self.bootstrap_servers,
            self.topic,
            [Record(key.encode(), None if value is None else value.encode(), time) for key, value, time in records],
        )

    def plan(self, state: str) -> QueryPlan:
        """The plan of a new run."""
        self._runs += 1
        prepared = Preparer(self.config(state), self.topology).prepare(None, run_id=self._runs)
        (plan,) = prepared.plans
        return plan

    def process(self, state: str) -> list[RestoreProgress]:
        """Opens the tasks in a state directory, processes all input, closes them; the progress of what it restored."""
        plan = self.plan(state)
        restored: list[RestoreProgress] = []
        with ExitStack() as closing:
            for partition in range(PARTITIONS):
                task = Task(plan.task_spec(partition), restored.append)
                closing.callback(task.close)
                topic_partition = (self.topic, partition)
                end = end_offsets(self.admin, [topic_partition], End.HIGH_WATERMARK)[topic_partition]
                start = task.run_batch(TaskBatch([], {topic_partition: OffsetRange(0, 0, end)})).positions[
                    topic_partition
                ]
                rows = (
                    [read_gap(plan.config, plan.topics, topic_partition, start=start, end=end)[0]]
                    if end > start
                    else []
                )
                task.run_batch(TaskBatch(rows, {topic_partition: OffsetRange(start, end, end)}))
        return restored

    def contents(self, state: str) -> dict[str, list[Any]]:
        """What the stores hold once the tasks are at the committed offsets."""
        plan = self.plan(state)
        found: dict[str, list[Any]] = {}
        for partition in range(PARTITIONS):
            task = Task(plan.task_spec(partition))
            try:
                task.run_batch(TaskBatch([], {(self.topic, partition): OffsetRange(0, 0, 0)}))
                for store in plan.sub_topology.stores:
                    held = task.state.store(store.name)
                    found.setdefault(store.name, []).extend(held.all())  # type: ignore[union-attr]
            finally:
                task.close()
        return found

    def delete_topics(self) -> None:
        """Deletes its topics."""
        changelogs = [f"{self.name}-{store}-changelog" for store in ("counts", "windows")]
        self.admin.delete_topics([self.topic, *changelogs])


def records_of(progress: Iterable[RestoreProgress]) -> int:
    """Changelog records that were restored, given all progress of some restorations."""
    last = {(each.store, each.partition): each.records for each in progress}
    return sum(last.values())
