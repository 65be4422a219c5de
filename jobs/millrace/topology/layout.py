"""The layout of a topology: its tasks and topics, under an application id, over topics with their partitions.

Everything that names a task's inputs, changelogs or transactional id derives them here. Names need no partitions; tasks
do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from millrace.topology.partitions import repartition_partition_counts
from millrace.topology.parts import SubTopology, full_topic_name
from millrace.topology.stores import changelog_topic_name
from millrace.topology.summary import numbered_parts
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology


def task_name(sub_topology: int, partition: int) -> str:
    """Returns the name of a task, for example ``1_3``."""
    return f"{sub_topology}_{partition}"


def task_numbers(task: str) -> tuple[int, int]:
    """Returns the sub-topology and partition of a task by its name."""
    sub_topology, _, partition = task.partition("_")
    return int(sub_topology), int(partition)


def task_transactional_id(application_id: str, task: str) -> str:
    """Returns the transactional id under which a task commits."""
    return f"{application_id}-{task}"


def start_transactional_id(application_id: str) -> str:
    """Returns the transactional id under which a driver commits where new partitions start."""
    return f"{application_id}-start"


@dataclass(frozen=True, kw_only=True)
class TaskLayout:
    """A task: its sub-topology, its partition and the topics that it reads.

    Args:
        name: its name, for example ``1_3``.
        sub_topology: number of its sub-topology.
        partition: its partition.
        inputs: the partitions that it reads: this one of each topic that has it.
        changelogs: the partition that restores each store with a changelog.
        own_changelogs: those of them that it writes: no input topics.
        transactional_id: under which it commits where processing is exactly once.
    """

    name: str
    sub_topology: int
    partition: int
    inputs: tuple[TopicPartition, ...]
    changelogs: Mapping[str, TopicPartition]
    own_changelogs: Mapping[str, TopicPartition]
    transactional_id: str


@dataclass(frozen=True, kw_only=True)
class SubTopologyLayout:
    """The topics of one sub-topology by their full names.

    Args:
        application_id: whose.
        number: number of the sub-topology.
        inputs: topics that it reads, sorted; repartition topics among them.
        changelogs: topic that restores each store that has one, input topics that serve as changelogs among them.
        own_changelogs: changelog of each store that has one of its own.
    """

    application_id: str
    number: int
    inputs: tuple[str, ...]
    changelogs: Mapping[str, str] = field(default_factory=dict)
    own_changelogs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, part: SubTopology, application_id: str) -> SubTopologyLayout:
        """Returns the topics of a sub-topology."""
        topics = {store.name: store.changelog_topic(application_id) for store in part.stores}
        own = {store.name: store.own_changelog_topic(application_id) for store in part.stores}
        return cls(
            application_id=application_id,
            number=part.number,
            inputs=part.input_topics(application_id),
            changelogs={store: topic for store, topic in topics.items() if topic is not None},
            own_changelogs={store: topic for store, topic in own.items() if topic is not None},
        )

    def within(self, existing: Collection[str]) -> SubTopologyLayout:
        """Returns the same without input topics that do not exist."""
        return replace(self, inputs=tuple(topic for topic in self.inputs if topic in existing))

    def count(self, partitions: Mapping[str, int]) -> int:
        """Returns the number of tasks: as many as the input with the most partitions has; 0 without inputs.

        Args:
            partitions: number of partitions of every input, by full name.
        """
        return max((partitions[topic] for topic in self.inputs), default=0)

    def tasks(self, partitions: Mapping[str, int]) -> tuple[TaskLayout, ...]:
        """Returns the tasks, by their partitions.

        Args:
            partitions: number of partitions of every input, by full name.
        """
        return tuple(self.task(number, partitions) for number in range(self.count(partitions)))

    def task(self, partition: int, partitions: Mapping[str, int]) -> TaskLayout:
        """Returns the task of a partition.

        Args:
            partition: the task's partition.
            partitions: number of partitions of every input, by full name.
        """
        name = task_name(self.number, partition)
        return TaskLayout(
            name=name,
            sub_topology=self.number,
            partition=partition,
            inputs=tuple((topic, partition) for topic in self.inputs if partition < partitions[topic]),
            changelogs={store: (topic, partition) for store, topic in self.changelogs.items()},
            own_changelogs={store: (topic, partition) for store, topic in self.own_changelogs.items()},
            transactional_id=task_transactional_id(self.application_id, name),
        )


@dataclass(frozen=True)
class ApplicationTopics:
    """The topics of a topology under an application id, by their full names: what needs no number of partitions.

    Args:
        topology: the topology, patterns already matched.
        application_id: prefix of the application's own topics.
    """

    topology: FrozenTopology
    application_id: str

    @cached_property
    def sub_topologies(self) -> tuple[SubTopologyLayout, ...]:
        """The topics of each sub-topology, in the order of their numbers."""
        return tuple(SubTopologyLayout.of(part, self.application_id) for part in self.topology.sub_topologies)

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Every topic that tasks read; repartition topics among them, those of global stores not."""
        return frozenset(topic for part in self.sub_topologies for topic in part.inputs)

    @cached_property
    def repartition_topics(self) -> dict[str, str]:
        """The topics between sub-topologies: name without the application's prefix, by full name."""
        return {
            full_topic_name(spec.name, self.application_id, internal=True): spec.name
            for spec in self.topology.repartition_topics
        }

    @cached_property
    def changelogs(self) -> dict[str, str]:
        """The topic that restores each store that has one; an input topic may serve as a changelog."""
        return {store: topic for part in self.sub_topologies for store, topic in part.changelogs.items()}

    @cached_property
    def own_changelogs(self) -> dict[str, str]:
        """The changelog topic of each store that has one of its own."""
        return {store: topic for part in self.sub_topologies for store, topic in part.own_changelogs.items()}

    @cached_property
    def own(self) -> frozenset[str]:
        """The topics that the application creates: repartition topics and changelogs."""
        return frozenset({*self.repartition_topics, *self.own_changelogs.values()})

    def resets(self, part: SubTopology, default: str) -> dict[str, str]:
        """Returns where each input without a committed offset starts: ``earliest`` or ``latest``.

        Args:
            part: the sub-topology.
            default: ``auto.offset.reset``. A repartition topic is always read from its first record.
        """
        return {
            full_topic_name(topic, self.application_id, internal=source.internal): (
                "earliest" if source.internal else source.offset_reset or default
            )
            for source in part.sources
            for topic in source.topics
        }


@dataclass(frozen=True)
class TopologyLayout:
    """The tasks of a topology under an application id, over topics as they are.

    Args:
        topics: the topics.
        partitions: number of partitions of every topic that tasks read, by full name.
    """

    topics: ApplicationTopics
    partitions: Mapping[str, int]

    @classmethod
    def of(cls, topology: FrozenTopology, application_id: str, partitions: Mapping[str, int]) -> TopologyLayout:
        """Returns the layout over topics all of which exist.

        Args:
            topology: the topology, patterns already matched.
            application_id: prefix of the application's own topics.
            partitions: number of partitions of every topic that tasks read, by full name.
        """
        return cls(ApplicationTopics(topology, application_id), partitions)

    @classmethod
    def over_inputs(
        cls, topology: FrozenTopology, application_id: str, partitions: Mapping[str, int]
    ) -> TopologyLayout:
        """Returns the layout that a start would give: repartition topics get the partitions that their inputs ask for.

        Args:
            topology: the topology, patterns already matched.
            application_id: prefix of the application's own topics.
            partitions: number of partitions of the topics that are not its own.

        Raises:
            TopologyError: as :func:`millrace.topology.partitions.repartition_partition_counts`.
        """
        derived = {
            full_topic_name(name, application_id, internal=True): count
            for name, count in repartition_partition_counts(topology, partitions).items()
        }
        return cls.of(topology, application_id, {**partitions, **derived})

    @cached_property
    def task_counts(self) -> dict[int, int]:
        """Number of tasks of each sub-topology."""
        return {part.number: part.count(self.partitions) for part in self.topics.sub_topologies}

    @cached_property
    def tasks(self) -> dict[str, TaskLayout]:
        """The tasks by their names, in the order of sub-topologies and partitions."""
        return {task.name: task for part in self.topics.sub_topologies for task in part.tasks(self.partitions)}

    @property
    def inputs(self) -> list[TopicPartition]:
        """Every partition that a task reads."""
        return [topic_partition for task in self.tasks.values() for topic_partition in task.inputs]

    @property
    def own_changelogs(self) -> list[TopicPartition]:
        """Every partition of the application's own changelogs."""
        return [topic_partition for task in self.tasks.values() for topic_partition in task.own_changelogs.values()]

    @property
    def own_partitions(self) -> dict[str, int]:
        """Number of partitions that each of the application's own topics needs."""
        counts = {
            topic: self.task_counts[part.number]
            for part in self.topics.sub_topologies
            for topic in part.own_changelogs.values()
        }
        return {**{topic: self.partitions[topic] for topic in self.topics.repartition_topics}, **counts}


def layouts_of_summary(summary: Mapping[str, Any], application_id: str) -> tuple[SubTopologyLayout, ...]:
    """Returns the topics of each sub-topology of a summary (:meth:`FrozenTopology.summary`), as of a topology itself.

    Args:
        summary: of a topology that may not be at hand any more.
        application_id: prefix of the application's own topics.
    """
    repartition = set(summary.get("repartition_topics", ()))
    stores: Mapping[str, Mapping[str, Any]] = summary.get("stores", {})

    def full(topics: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(full_topic_name(each, application_id, internal=each in repartition) for each in topics))

    layouts = []
    for number, nodes in numbered_parts(summary):
        within = {name: store for name, store in stores.items() if store["sub_topology"] == number}
        from_inputs = {
            name: store["source_topic"] for name, store in within.items() if store["source_topic"] is not None
        }
        own = {
            name: changelog_topic_name(name, application_id)
            for name, store in within.items()
            if store["logged"] and name not in from_inputs
        }
        layouts.append(
            SubTopologyLayout(
                application_id=application_id,
                number=number,
                inputs=full({topic for node in nodes if node["kind"] == "Source" for topic in node["topics"]}),
                changelogs={**own, **from_inputs},
                own_changelogs=own,
            )
        )
    return tuple(layouts)
