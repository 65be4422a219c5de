"""The start of a restoration's target in the topics that are not its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from millrace.driver.savepoint import Checkpoints
from millrace.errors import OperationError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.murmur2 import partitions_for
from millrace.kafka.offsets import begin_offsets, end_offsets
from millrace.kafka.topics import TopicDescription
from millrace.operations.savepoints.location import Target
from millrace.operations.savepoints.manifest import Manifest
from millrace.task.gap_reader import read_gap
from millrace.topology.topic_partition import TopicPartition

_START = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)(:(?P<partition>\d+))?=(?P<offset>earliest|latest|\d+)")
_SHOWN = 10


def parse_starts(texts: Sequence[str]) -> dict[tuple[str, int | None], str]:
    """Returns ``TOPIC=earliest``, ``TOPIC=latest`` or ``TOPIC:PARTITION=OFFSET``: by topic and partition.

    Raises:
        OperationError: one of them is none of these.
    """
    starts: dict[tuple[str, int | None], str] = {}
    for text in texts:
        found = _START.fullmatch(text)
        if found is None or (found["partition"] is None and found["offset"].isdigit()):
            raise OperationError(
                f"{text!r} does not say where a topic starts.",
                remedy="write TOPIC=earliest, TOPIC=latest or TOPIC:PARTITION=OFFSET",
            )
        starts[found["topic"], None if found["partition"] is None else int(found["partition"])] = found["offset"]
    return starts


class Inputs:
    """The external inputs of the target, against those of the savepoint.

    Args:
        admin: the cluster.
        manifest: the savepoint; complete.
        target: what it is restored into.
        starts: where topics start of which the savepoint does not say it, see :func:`parse_starts`.
    """

    def __init__(
        self,
        admin: KafkaAdmin,
        manifest: Manifest,
        target: Target,
        starts: Mapping[tuple[str, int | None], str],
    ) -> None:
        assert manifest.point is not None
        self._admin = admin
        self._manifest = manifest
        self._point: Checkpoints = manifest.point
        self._target = target
        self._starts = starts
        self._names = sorted(
            topic
            for part in target.topology.sub_topologies
            for source in part.sources
            if not source.internal
            for topic in source.topics
        )
        self._topics = admin.describe_topics(self._names)
        self._saved = {
            (each.topic, each.partition): each.offset for task in self._point.tasks.values() for each in task.inputs
        }

    @property
    def topics(self) -> Mapping[str, TopicDescription]:
        """The topics, by name."""
        return self._topics

    def offsets(self) -> dict[TopicPartition, int]:
        """Returns where each partition starts.

        Where a topic has another number of partitions than it had, or is another one, the savepoint must have drained
        it: its rows go by their keys to the new tasks, and records that came before must not be missed.

        Raises:
            StateError: input is missing, was not drained, or lies where its key does not belong; places are named.
            OperationError: nothing says where a topic starts.
        """
        problems = [f"{name} does not exist" for name in self._names if name not in self._topics]
        problems += self._not_drained()
        found: dict[TopicPartition, int] = {}
        for name, topic in self._topics.items():
            found.update(self._starts_of(name, topic, problems))
        begins, ends = begin_offsets(self._admin, found), end_offsets(self._admin, found)
        problems += [
            f"{name}-{number} has offsets {begins[name, number]} to {ends[name, number]}, not {offset}"
            for (name, number), offset in found.items()
            if not begins[name, number] <= offset <= ends[name, number]
        ]
        if not problems:
            problems += self._misplaced(found, ends)
        if problems:
            more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
            raise StateError(
                f"Savepoint {self._manifest.name} does not fit the input topics: {'; '.join(problems[:_SHOWN])}{more}.",
                remedy="choose another savepoint, say with `--start` where new topics begin, or reset the application",
            )
        return found

    def _starts_of(self, name: str, topic: TopicDescription, problems: list[str]) -> dict[TopicPartition, int]:
        topic_partitions = topic.topic_partitions
        if name not in self._point.partitions or any(key[0] == name for key in self._starts):
            return self._named(topic_partitions)
        if topic.topic_id != self._point.topic_ids[name]:
            problems.append(f"{name} was deleted and created again")
            return {}
        if topic.partitions < self._point.partitions[name]:
            problems.append(f"{name} had {self._point.partitions[name]} partitions and has {topic.partitions}")
            return {}
        begins = begin_offsets(self._admin, topic_partitions)
        return {
            topic_partition: self._saved.get(topic_partition, begins[topic_partition])
            for topic_partition in topic_partitions
        }

    def _named(self, topic_partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        begins, ends = begin_offsets(self._admin, topic_partitions), end_offsets(self._admin, topic_partitions)
        found = {}
        for name, number in topic_partitions:
            text = self._starts.get((name, number), self._starts.get((name, None), ""))
            if not text:
                raise OperationError(
                    f"Savepoint {self._manifest.name} does not say where {name}-{number} starts.",
                    remedy=f"say it with `--start {name}=earliest` or `--start {name}:{number}=OFFSET`",
                )
            found[name, number] = (
                begins[name, number] if text == "earliest" else ends[name, number] if text == "latest" else int(text)
            )
        return found

    def _not_drained(self) -> Iterator[str]:
        """Partitions of topics that changed or are not read any more, and of which the savepoint left something."""
        internal = {f"{self._manifest.application}-{name}" for name in self._manifest.summary["repartition_topics"]}
        for (name, number), offset in self._saved.items():
            topic = self._topics.get(name)
            changed = topic is None or topic.partitions != self._point.partitions[name]
            end = self._point.input_ends[name][number]
            if name not in internal and changed and offset < end:
                yield f"{name}-{number} was at {offset} of {end} and not drained"

    def _misplaced(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Iterator[str]:
        """Records that came to a topic before it grew, which the savepoint does not have."""
        for (name, number), start in starts.items():
            count = self._topics[name].partitions
            if name not in self._point.partitions or count == self._point.partitions[name]:
                continue
            reached = start
            while reached < ends[name, number]:
                rows, reached = read_gap(
                    self._target.config, (name,), (name, number), start=reached, end=ends[name, number]
                )
                wrong = np.flatnonzero((found := partitions_for(rows.keys, count)) != number)
                wrong = wrong[found[wrong] >= 0]
                if len(wrong):
                    offset = int(rows.offset[wrong[0]])
                    yield f"{name}-{number} has a record at {offset} that belongs to partition {found[wrong[0]]}"
                    break
