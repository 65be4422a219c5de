"""The driver's part of a savepoint: the state of all tasks at one moment, and unprocessed repartition records.

While the tasks are held, each makes a checkpoint of its stores in hard links, and the offsets and ends of logs are
read. Then the batches go on; what waits in repartition topics is copied meanwhile, and nothing of it is purged before
that has ended.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, ConfigDict, Field
from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from millrace.config import StreamsConfig
from millrace.driver.driver_operations import TaskGate
from millrace.errors import OffsetsMovedError, StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import End, committed_offsets, end_offsets
from millrace.kafka.topics import TopicDescription
from millrace.state import StateDirectory
from millrace.state.record_file import RecordBatch, write_records
from millrace.task.actions import CheckpointTask
from millrace.task.gap_reader import read_gap
from millrace.task.signature import Signature
from millrace.topology.layout import ApplicationTopics, TopologyLayout
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import FrozenTopology

SAVEPOINT_OPERATION = "savepoint"
"""Its name among the driver's operations."""

SETTLING_LIMIT_S = 10.0
"""How long the markers of the last commits may take to come into the logs."""

CHECKPOINTS_DIRECTORY = "checkpoints"
"""Where the checkpoints are until they are copied, in the application's state directory."""

_log = structlog.get_logger(__name__)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class InputPosition(_Model):
    """The position of a task in one of its input partitions."""

    topic: str
    partition: int
    offset: int = Field(description="Next offset to process.")
    partition_time: int = Field(-1, description="Largest timestamp so far, milliseconds.")


class TaskPoint(_Model):
    """A task at the moment of the savepoint."""

    inputs: list[InputPosition]
    changelogs: dict[str, int] = Field(default_factory=dict, description="End of each store's changelog.")
    stream_times: dict[str, int] = Field(default_factory=dict, description="By store, milliseconds.")


class UnprocessedRecords(_Model):
    """The records that one sub-topology had written to a partition and the next one had not processed."""

    topic: str = Field(description="The repartition topic, without the application's prefix.")
    partition: int
    records: int
    path: str = Field(description="The file of records, relative to the checkpoints' directory.")


class Checkpoints(_Model):
    """The checkpoints of the whole application at one moment: ``directory`` has one directory for each task."""

    directory: str
    at: float = Field(description="When, seconds since the epoch.")
    held_s: float = Field(0.0, description="For how long no batch ran, seconds.")
    tasks: dict[str, TaskPoint]
    partitions: dict[str, int] = Field(description="Number of partitions of each input topic.")
    topic_ids: dict[str, str] = Field(description="UUID of each input topic.")
    input_ends: dict[str, dict[int, int]] = Field(description="Last stable offset of each input partition.")
    output_ends: dict[str, dict[int, int]] = Field(description="Last stable offset of each output partition.")
    waiting: list[UnprocessedRecords] = Field(default_factory=list)


class ApplicationPoint:
    """A description of an application at a moment at which none of its tasks works.

    Args:
        config: its configuration.
        topology: its topology.
    """

    def __init__(self, config: StreamsConfig, topology: FrozenTopology) -> None:
        self._config = config
        self._topology = topology
        self._names = ApplicationTopics(topology, config.application_id)
        self._admin = KafkaAdmin(config.bootstrap_servers, settings=config.client_settings("admin."))

    def directory(self, savepoint: str) -> Path:
        """Returns the directory of a savepoint's checkpoints, from which they are copied."""
        state = StateDirectory(Path(self._config.state_dir).absolute())
        return state.application(self._config.application_id) / CHECKPOINTS_DIRECTORY / savepoint

    def input_topics(self) -> dict[str, TopicDescription]:
        """Returns the topics that the application reads, its internal ones included.

        Raises:
            StateError: one is missing.
        """
        names = self._names.inputs
        found = self._admin.describe_topics(sorted(names))
        if missing := sorted(names - found.keys()):
            raise StateError(
                f"Topics that {self._config.application_id} reads are missing: {', '.join(missing)}.",
                remedy="create them, or start the application once, which creates its own",
            )
        return found

    def layout(self, topics: Mapping[str, TopicDescription]) -> TopologyLayout:
        """Returns the tasks over the input topics."""
        return TopologyLayout(self._names, {name: topic.partitions for name, topic in topics.items()})

    def describe(self, directory: Path, held: Mapping[str, Mapping[TopicPartition, int]]) -> Checkpoints:
        """Returns the current offsets and log ends; no task may work meanwhile.

        Args:
            directory: where the checkpoints are.
            held: the offsets that each task's checkpoint stands for.

        Raises:
            OffsetsMovedError: the group's offsets are not those.
        """
        group = self._config.application_id
        topics = self.input_topics()
        layout = self.layout(topics)
        topic_partitions = layout.inputs
        commits = committed_offsets(self._admin, group, topic_partitions)
        points = {}
        for task, of_task in layout.tasks.items():
            own = {
                topic_partition: commits[topic_partition]
                for topic_partition in of_task.inputs
                if topic_partition in commits
            }
            signature = Signature.of(own)
            offsets = {topic_partition: commit.offset for topic_partition, commit in own.items()}
            if signature is None or len(own) < len(of_task.inputs) or dict(held.get(task, {})) != offsets:
                raise OffsetsMovedError(
                    f"Task {task} of {group} stands for {_text(held.get(task, {}))}, and the group has committed "
                    f"{_text(offsets)}.",
                    remedy="find out who else commits to the group; take the savepoint again once the application runs",
                )
            points[task] = TaskPoint(
                inputs=[
                    InputPosition(
                        topic=topic,
                        partition=partition,
                        offset=commit.offset,
                        partition_time=signature.partition_times.get((topic, partition), -1),
                    )
                    for (topic, partition), commit in own.items()
                ],
                changelogs=dict(signature.changelogs),
                stream_times=dict(signature.stream_times),
            )
        outputs = self._admin.describe_topics(sorted(self._topology.external_outputs))
        written = [topic_partition for topic in outputs.values() for topic_partition in topic.topic_partitions]
        ends = {
            **end_offsets(self._admin, topic_partitions),
            **end_offsets(self._admin, written, End.HIGH_WATERMARK),
            **self._settled_ends(
                [
                    topic_partition
                    for topic_partition in topic_partitions
                    if topic_partition[0] in self._names.repartition_topics
                ]
            ),
        }
        return Checkpoints(
            directory=str(directory),
            at=time.time(),
            tasks=points,
            partitions={name: topic.partitions for name, topic in topics.items()},
            topic_ids={name: topic.topic_id for name, topic in topics.items()},
            input_ends=_by_topic(ends, topics),
            output_ends=_by_topic(ends, outputs),
        )

    def with_unprocessed(self, point: Checkpoints) -> Checkpoints:
        """Copies the unprocessed records of repartition topics, from the committed offsets to the recorded ends.

        Raises:
            OffsetOutOfRangeError: some of it was purged meanwhile.
            BrokerUnavailableError: it cannot be read.
        """
        internal = self._names.repartition_topics
        unprocessed = []
        for task in point.tasks.values():
            for each in task.inputs:
                end = point.input_ends[each.topic][each.partition]
                if each.topic not in internal or each.offset >= end:
                    continue
                path = f"waiting-{internal[each.topic]}-{each.partition}.records"
                topic_partition = (each.topic, each.partition)
                count = write_records(Path(point.directory) / path, self._between(topic_partition, each.offset, end))
                unprocessed.append(
                    UnprocessedRecords(topic=internal[each.topic], partition=each.partition, records=count, path=path)
                )
        return point.model_copy(update={"waiting": unprocessed})

    def _settled_ends(self, topic_partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends of topics that only this application writes, all transactions included.

        A commit is acknowledged before its marker is in the log, so the last stable offset may still lie before it.
        """
        ends = end_offsets(self._admin, topic_partitions, End.HIGH_WATERMARK)
        settled = Retrying(
            retry=retry_if_result(
                lambda stable: any(stable[topic_partition] < end for topic_partition, end in ends.items())
            ),
            stop=stop_after_delay(SETTLING_LIMIT_S),
            wait=wait_fixed(0.02),
        )
        try:
            settled(end_offsets, self._admin, topic_partitions)
        except RetryError:
            raise StateError(
                f"A transaction of {self._config.application_id} in its repartition topics stayed open for "
                f"{SETTLING_LIMIT_S:g} s.",
                remedy="take the savepoint again: the task's next attempt ends it",
            ) from None
        return ends

    def _between(self, topic_partition: TopicPartition, start: int, end: int) -> Iterator[RecordBatch]:
        while start < end:
            rows, start = read_gap(self._config, (topic_partition[0],), topic_partition, start=start, end=end)
            if len(rows):
                yield RecordBatch(
                    keys=rows.keys.to_pylist(),
                    values=rows.values.to_pylist(),
                    timestamps=rows.timestamp,
                    headers=None if rows.headers is None else list(rows.headers),
                )


class TakeSavepoint:
    """The driver operation that makes the checkpoints of a savepoint.

    Args:
        config: the application's configuration.
        topology: its topology.
    """

    def __init__(self, config: StreamsConfig, topology: FrozenTopology) -> None:
        self._point = ApplicationPoint(config, topology)

    def __call__(self, arguments: Mapping[str, Any], gate: TaskGate) -> Mapping[str, Any]:
        """Makes the checkpoints of the savepoint that ``arguments["name"]`` names.

        A crash midway leaves a directory that the next attempt replaces.

        Raises:
            MillraceError: a task, the broker or the disk did not do its part.
        """
        directory = self._point.directory(str(arguments["name"]))
        # One is taken at a time: whatever is there was left behind by an attempt that its caller gave up.
        shutil.rmtree(directory.parent, ignore_errors=True)
        directory.mkdir(parents=True)
        with gate.without_purge():
            with gate.hold() as tasks:
                began = time.monotonic()
                answers = tasks.run(CheckpointTask(directory))
                held = {
                    task: {(topic, partition): offset for topic, partition, offset in offsets}
                    for task, offsets in answers.items()
                }
                point = self._point.describe(directory, held)
                held_s = time.monotonic() - began
            point = self._point.with_unprocessed(point)
        _log.info("checkpoints made", savepoint=arguments["name"], held_s=round(held_s, 3), tasks=len(held))
        return point.model_copy(update={"held_s": held_s}).model_dump(mode="json")


def _by_topic(ends: Mapping[TopicPartition, int], topics: Mapping[str, TopicDescription]) -> dict[str, dict[int, int]]:
    return {name: {number: ends[name, number] for number in range(topic.partitions)} for name, topic in topics.items()}


def _text(offsets: Mapping[TopicPartition, int]) -> str:
    return ", ".join(f"{topic}-{partition} at {offset}" for (topic, partition), offset in offsets.items()) or "nothing"
