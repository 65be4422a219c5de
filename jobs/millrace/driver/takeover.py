"""The take-over of a consumer group from the Kafka Streams application of the same name: its offsets get our signature.

Names, keys and values of changelogs and repartition topics are Kafka Streams' own, so that the stores are restored from
what it has logged. What only our commits say is made up for: the ends of the changelogs are the ends of their logs,
since no process writes to them, and the stream times are those that the restoration finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from millrace.config import StreamsConfig
from millrace.errors import PreflightError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.commit_metadata import UNKNOWN_TIME, CommitMetadata
from millrace.kafka.groups import live_members
from millrace.kafka.offsets import CommittedOffset, begin_offsets, committed_offsets, end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicDescription
from millrace.task.signature import Signature
from millrace.topology.layout import ApplicationTopics, TaskLayout, TopologyLayout
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TakenTask:
    """A task whose offsets are taken over.

    Args:
        name: its name.
        offsets: where it goes on.
        changelogs: up to where the changelog of each store is read.
    """

    name: str
    offsets: Mapping[TopicPartition, int]
    changelogs: Mapping[str, int]

    def __str__(self) -> str:
        positions = ", ".join(f"{topic}-{partition} at {offset}" for (topic, partition), offset in self.offsets.items())
        stores = ", ".join(f"{store} up to {end}" for store, end in self.changelogs.items())
        return f"task {self.name}: {positions}" + (f"; stores {stores}" if stores else "")


class Takeover:
    """The take-over of the offsets of a group whose members have all left.

    A crash midway is harmless: all offsets are committed in one transaction, and what is signed is left alone.

    Args:
        config: the application's configuration; its group is ``application.id``.
        topology: its topology: stores and repartition topics must have the names of the other application's.
        transactional_id: under which the offsets are committed.
    """

    def __init__(self, config: StreamsConfig, topology: FrozenTopology, *, transactional_id: str) -> None:
        self._config = config
        self._topology = topology
        self._names = ApplicationTopics(topology, config.application_id)
        self._transactional_id = transactional_id
        self._admin = KafkaAdmin(config.bootstrap_servers, settings=config.client_settings("admin."))

    def plan(self) -> list[TakenTask]:
        """Returns the tasks whose offsets do not carry our signature.

        Raises:
            PreflightError: the group has live members or no offsets, or topics are missing.
            StateError: a changelog is missing or has another number of partitions than the sub-topology has tasks.
        """
        return [task for task, _ in self._plan()]

    def run(self) -> list[TakenTask]:
        """Signs the offsets of these tasks, in one transaction.

        Raises:
            PreflightError, StateError: see :meth:`plan`.
        """
        planned = self._plan()
        if not planned:
            return []
        commits = {
            topic_partition: (offset, metadata[topic_partition])
            for task, metadata in planned
            for topic_partition, offset in task.offsets.items()
        }
        with TaskProducer(
            self._config.bootstrap_servers,
            transactional_id=self._transactional_id,
            settings=self._config.client_settings("producer."),
        ) as producer:
            producer.init()
            producer.begin()
            producer.commit(commits, self._config.application_id)
        for task, _ in planned:
            log.info("taken over", application=self._config.application_id, task=task.name, what=str(task))
        return [task for task, _ in planned]

    def _plan(self) -> list[tuple[TakenTask, dict[TopicPartition, str]]]:
        group = self._config.application_id
        membership = live_members(self._admin, group)
        if membership.is_live:
            raise PreflightError(
                f"Consumer group {group} has live members: {membership}.",
                remedy="stop the application that is taken over, on every host, and wait until its members have left",
            )
        topics = self._topics()
        planned = []
        known: dict[TopicPartition, CommittedOffset] = {}
        layout = TopologyLayout(self._names, {name: topic.partitions for name, topic in topics.items()})
        for task in layout.tasks.values():
            commits = committed_offsets(self._admin, group, task.inputs)
            known |= commits
            if len(commits) < len(task.inputs) or Signature.of(commits) is None:
                planned.append(self._task(layout, task, commits))
        if not known:
            raise PreflightError(
                f"Consumer group {group} has no committed offsets: there is nothing to take over.",
                remedy="correct the application's name, which is the group's; a new application needs no takeover",
            )
        is_foreign = any(Signature.of({topic_partition: commit}) is None for topic_partition, commit in known.items())
        return planned if is_foreign else []

    def _task(
        self, layout: TopologyLayout, task: TaskLayout, commits: Mapping[TopicPartition, CommittedOffset]
    ) -> tuple[TakenTask, dict[TopicPartition, str]]:
        changelogs = task.own_changelogs
        tasks = layout.task_counts[task.sub_topology]
        if wrong := sorted({topic for topic, _ in changelogs.values() if layout.partitions[topic] != tasks}):
            raise StateError(
                f"The changelogs {', '.join(wrong)} have not one partition for each of the {tasks} tasks.",
                remedy="give the input topics the number of partitions that they had",
            )
        ends = end_offsets(self._admin, list(changelogs.values()))
        times = {
            topic_partition: UNKNOWN_TIME if metadata is None else metadata.partition_time
            for topic_partition, commit in commits.items()
            for metadata in [CommitMetadata.decode(commit.metadata)]
        }
        offsets = {
            topic_partition: commits[topic_partition].offset
            if topic_partition in commits
            else self._first(task, topic_partition)
            for topic_partition in task.inputs
        }
        signature = Signature(
            run=0,
            partition_times=times,
            changelogs={store: ends[topic_partition] for store, topic_partition in changelogs.items()},
            taken_over=True,
        )
        taken = TakenTask(name=task.name, offsets=offsets, changelogs=signature.changelogs)
        return taken, signature.to_metadata(offsets)

    def _first(self, task: TaskLayout, topic_partition: TopicPartition) -> int:
        """Returns the start of a partition in which Kafka Streams has committed nothing, and so has read nothing."""
        part = next(part for part in self._topology.sub_topologies if part.number == task.sub_topology)
        resets = self._names.resets(part, self._config.auto_offset_reset)
        read = end_offsets if resets[topic_partition[0]] == "latest" else begin_offsets
        return read(self._admin, [topic_partition])[topic_partition]

    def _topics(self) -> dict[str, TopicDescription]:
        """Returns every topic that is read or restored from.

        Raises:
            PreflightError: one of them does not exist.
        """
        group = self._config.application_id
        wanted = {*self._names.inputs, *self._names.changelogs.values()}
        found = self._admin.describe_topics(sorted(wanted))
        if missing := sorted(wanted - set(found)):
            raise PreflightError(
                f"Topics that {group} reads or restores its stores from are missing: {', '.join(missing)}.",
                remedy="give stores and repartition topics the names that they have in the application that is taken "
                "over (compare the texts of describe())",
            )
        return found
