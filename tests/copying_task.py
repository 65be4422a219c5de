"""A task on a broker that copies one topic to others, driven batch by batch without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, KStream, StreamsBuilder
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets
from millrace.kafka.producer import TaskProducer
from millrace.serdes import StringSerde
from millrace.task.batch import TaskBatch
from millrace.task.batch_outcome import BatchOutcome
from millrace.task.gap_reader import read_gap
from millrace.task.input import OffsetRange
from millrace.task.signature import Signature
from millrace.task.spec import SubTopologySpec, TaskSpec
from millrace.task.task import Task
from tests.records import Record, produce, read_topic

TEXT = StringSerde()
Write = Callable[[KStream], object]


class CopyingTask:
    """One partition; everything that is read is written, and dead-letter records go to a topic.

    Args:
        bootstrap_servers: the broker.
        name: the application's id.
        source: the input topic.
        outputs: the topics that are known at the start.
        dead_letters: the dead-letter topic.
        write: puts the sinks behind the stream.
        directory: for state.
        settings: further settings.
        plain_servers: where tests read and write, if not at the broker.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        name: str,
        *,
        source: str,
        outputs: tuple[str, ...],
        dead_letters: str,
        write: Write,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        plain_servers: str | None = None,
    ) -> None:
        self.name, self.source, self.dead_letter_topic = name, source, dead_letters
        self._plain_servers = plain_servers or bootstrap_servers
        self.admin = KafkaAdmin(self._plain_servers)
        self._outputs, self._write = outputs, write
        self.settings = {
            "application.id": name,
            "bootstrap.servers": bootstrap_servers,
            "state.dir": str(directory),
            "production.exception.handler": "continue",
            "errors.dead.letter.queue.topic.name": dead_letters,
            **(settings or {}),
        }
        self._task: Task | None = None

    def send(self, *records: Record) -> None:
        produce(self._plain_servers, self.source, list(records))

    def task(self) -> Task:
        """The task, which stays open between batches."""
        if self._task is None:
            builder = StreamsBuilder()
            self._write(builder.stream(self.source, Consumed.with_(TEXT, TEXT)))
            (sub_topology,) = builder.build().sub_topologies
            topic_partition = (self.source, 0)
            if not committed_offsets(self.admin, self.name, [topic_partition]):
                with TaskProducer(self._plain_servers, transactional_id=f"{self.name}-start") as producer:
                    producer.init()
                    producer.begin()
                    producer.commit(
                        {topic_partition: (0, Signature(run=1).to_metadata({topic_partition: 0})[topic_partition])},
                        self.name,
                    )
            self._task = Task(
                TaskSpec(
                    part=SubTopologySpec(
                        sub_topology=sub_topology,
                        config=StreamsConfig.from_mapping(self.settings),
                        run_id=1,
                        topic_ids={},
                        partition_counts=dict.fromkeys((*self._outputs, self.dead_letter_topic), 1),
                    ),
                    partition=0,
                    inputs=(topic_partition,),
                )
            )
        return self._task

    def run(self, start: int, end: int) -> BatchOutcome:
        """Processes records as one batch."""
        topic_partition = (self.source, 0)
        task = self.task()
        rows, _ = read_gap(task.spec.config, (self.source,), topic_partition, start=start, end=end)
        return task.run_batch(TaskBatch([rows], {topic_partition: OffsetRange(start, end, end)}))

    @property
    def committed(self) -> int:
        """The committed offset."""
        return committed_offsets(self.admin, self.name, [(self.source, 0)])[self.source, 0].offset

    def written(self, topic: str) -> list[bytes | None]:
        """Keys of a topic, as a reader of committed records sees them."""
        return [record.key for record in read_topic(self._plain_servers, topic)]

    def dead_lettered(self) -> list[tuple[bytes | None, bytes]]:
        """Key, and the class of the exception, of the dead-letter records."""
        found = []
        for record in read_topic(self._plain_servers, self.dead_letter_topic):
            exception = dict(record.headers or [])["__streams.errors.exception"] or b""
            found.append((record.key, exception.rpartition(b".")[2]))
        return found

    def close(self) -> None:
        if self._task is not None:
            self._task.close()
