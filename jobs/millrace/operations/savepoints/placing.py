"""The placement of a savepoint's parts in the application that gets it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from millrace.driver.savepoint import InputPosition, UnprocessedRecords
from millrace.errors import StateError
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.kafka.murmur2 import partitions_for
from millrace.kafka.topics import TopicDescription
from millrace.operations.savepoints.manifest import Manifest
from millrace.state.contents import routing_key
from millrace.state.record_file import RecordBatch
from millrace.task.signature import Signature
from millrace.topology.layout import TopologyLayout, task_numbers
from millrace.topology.parts import SubTopology, full_topic_name
from millrace.topology.stores import StoreSpec
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology


class Placing:
    """Tasks, stores, changelogs and repartition topics of the target, and what comes to them from the savepoint.

    Args:
        manifest: the savepoint; complete.
        topology: the target's.
        application_id: the target's.
        partitions: number of partitions of each topic of the target.
        starts: where it starts in the topics that are not its own.
    """

    def __init__(
        self,
        manifest: Manifest,
        topology: FrozenTopology,
        application_id: str,
        partitions: Mapping[str, int],
        starts: Mapping[TopicPartition, int],
    ) -> None:
        assert manifest.point is not None
        self._manifest = manifest
        self._point = manifest.point
        self._topology = topology
        self._layout = TopologyLayout.of(topology, application_id, partitions)
        self._application_id = application_id
        self._partitions = partitions
        self._starts = starts
        self._parts = {part.number: part for part in topology.sub_topologies}
        self._owner = {store.name: part for part in topology.sub_topologies for store in part.stores}
        self._tasks = self._layout.task_counts

    @property
    def tasks(self) -> list[str]:
        """Names of the target's tasks."""
        return list(self._layout.tasks)

    @property
    def own_changelogs(self) -> Mapping[str, str]:
        """The target's own changelog of each store that has one."""
        return self._layout.topics.own_changelogs

    def part_of(self, task: str) -> SubTopology:
        """Returns the sub-topology of a task of the target."""
        return self._parts[task_numbers(task)[0]]

    def saved_stores(self, task: str) -> tuple[StoreSpec, ...]:
        """Returns the stores that a task of the savepoint had and the target has."""
        number, _ = task_numbers(task)
        names = [name for name, store in self._manifest.summary["stores"].items() if store["sub_topology"] == number]
        specs = {store.name: store for part in self._topology.sub_topologies for store in part.stores}
        return tuple(specs[name] for name in names if name in specs)

    def changelogs(self) -> list[TopicPartition]:
        """Returns all partitions of the target's own changelogs."""
        return self._layout.own_changelogs

    def repartition_places(self) -> list[TopicPartition]:
        """Returns all partitions of the target's repartition topics."""
        return [
            (name, number)
            for name in self._layout.topics.repartition_topics
            for number in range(self._partitions[name])
        ]

    def split(self, store: StoreSpec, task: str, batch: RecordBatch) -> Iterator[tuple[TopicPartition, RecordBatch]]:
        """Yields the rows of a savepoint's store, by the partition of the target's changelog that they go to."""
        topic = self.own_changelogs[store.name]
        _, partition = task_numbers(task)
        count = self._tasks[self._owner[store.name].number]
        if count == self._saved_tasks(task):
            yield (topic, partition), batch
            return
        keys = [routing_key(store, key or b"") for key in batch.keys]
        yield from _divided(topic, batch, partitions_for(keys, count))

    def split_waiting(
        self, unprocessed: UnprocessedRecords, batch: RecordBatch
    ) -> Iterator[tuple[TopicPartition, RecordBatch]]:
        """Records of a repartition topic of the savepoint, by the target's partition."""
        topic = full_topic_name(unprocessed.topic, self._application_id, internal=True)
        before = full_topic_name(unprocessed.topic, self._manifest.application, internal=True)
        if topic not in self._partitions:
            return  # the topology does not have it any more, and that was allowed
        count = self._partitions[topic]
        if count == self._point.partitions[before]:
            yield (topic, unprocessed.partition), batch
            return
        found = partitions_for(batch.keys, count)
        # Records without a key may go anywhere.
        found = np.where(found < 0, unprocessed.partition % count, found)
        yield from _divided(topic, batch, found)

    def offsets(self, repartition_starts: Mapping[TopicPartition, int]) -> dict[str, dict[TopicPartition, int]]:
        """Returns the input positions of each task of the target.

        Args:
            repartition_starts: first offset of what waits in each partition of the target's repartition topics.
        """
        starts = {**self._starts, **repartition_starts}
        return {
            task.name: {topic_partition: starts[topic_partition] for topic_partition in task.inputs}
            for task in self._layout.tasks.values()
        }

    def signature(self, task: str, changelog_ends: Mapping[TopicPartition, int], *, run: int) -> Signature:
        """Returns the metadata that is committed with the offsets of a task of the target.

        Args:
            task: its name.
            changelog_ends: end of each changelog partition.
            run: number of the run that commits.
        """
        part, layout = self.part_of(task), self._layout.tasks[task]
        partition = layout.partition
        times = {
            self._renamed(each.topic): each.partition_time
            for each in self._saved_inputs()
            if each.partition == partition
        }
        stream_times: dict[str, int] = {}
        names = {store.name for store in part.stores}
        for saved, point in self._point.tasks.items():
            # Where keys change their tasks, a store is as far as the furthest of those that it gets rows from.
            moved = self._saved_tasks(saved) != self._tasks[part.number]
            if not moved and task_numbers(saved)[1] != partition:
                continue
            for store, time in point.stream_times.items():
                if store in names:
                    stream_times[store] = max(stream_times.get(store, time), time)
        return Signature(
            run=run,
            partition_times={
                topic_partition: times.get(topic_partition[0], UNKNOWN_TIME) for topic_partition in layout.inputs
            },
            changelogs={
                store: changelog_ends[topic_partition] for store, topic_partition in layout.own_changelogs.items()
            },
            stream_times=stream_times,
        )

    def _saved_tasks(self, task: str) -> int:
        """How many tasks the sub-topology of a task of the savepoint had."""
        number, _ = task_numbers(task)
        return sum(1 for each in self._point.tasks if task_numbers(each)[0] == number)

    def _saved_inputs(self) -> Iterator[InputPosition]:
        for task in self._point.tasks.values():
            yield from task.inputs

    def _renamed(self, topic: str) -> str:
        """The target's name of an input topic of the savepoint."""
        for spec in self._topology.repartition_topics:
            if topic == full_topic_name(spec.name, self._manifest.application, internal=True):
                return full_topic_name(spec.name, self._application_id, internal=True)
        return topic


def moves_keys(
    manifest: Manifest, topology: FrozenTopology, inputs: Mapping[str, TopicDescription], application_id: str
) -> bool:
    """Returns whether a sub-topology has another number of tasks than it had, so that rows go to other tasks.

    Args:
        manifest: the savepoint.
        topology: the target's.
        inputs: the topics that the target reads and that are not its own.
        application_id: the target's.

    Raises:
        StateError: a store is restored from an input topic, whose old records cannot be placed again.
    """
    assert manifest.point is not None
    partitions = {name: topic.partitions for name, topic in inputs.items()}
    before = Counter(task_numbers(task)[0] for task in manifest.point.tasks)
    moved = [
        part
        for part, count in TopologyLayout.over_inputs(topology, application_id, partitions).task_counts.items()
        if part in before and before[part] != count
    ]
    from_inputs = sorted(
        store.name for part in topology.sub_topologies for store in part.stores if store.source_topic is not None
    )
    if moved and from_inputs:
        raise StateError(
            f"Stores of {application_id} have an input topic as their changelog, whose old records stay in their old "
            f"partitions: {', '.join(from_inputs)}.",
            remedy="keep the number of partitions, or build the topology without that optimisation first",
        )
    return bool(moved)


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[int, int]]:
    """Numbers by topic, then partition."""
    found: dict[str, dict[int, int]] = {}
    for (topic, number), offset in offsets.items():
        found.setdefault(topic, {})[number] = offset
    return found


def _divided(topic: str, batch: RecordBatch, partitions: np.ndarray) -> Iterator[tuple[TopicPartition, RecordBatch]]:
    for number in np.unique(partitions).tolist():
        rows = np.flatnonzero(partitions == number).tolist()
        yield (
            (topic, number),
            RecordBatch(
                keys=[batch.keys[row] for row in rows],
                values=[batch.values[row] for row in rows],
                timestamps=batch.timestamps[rows],
                headers=None if batch.headers is None else [batch.headers[row] for row in rows],
            ),
        )
