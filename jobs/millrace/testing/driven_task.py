"""A task of the test driver: a sub-topology over stores of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from millrace.config import StreamsConfig
from millrace.kafka.record_limits import RecordLimits, Refusal
from millrace.state import KeyValueStore, StateOptions, TaskPosition, TaskState
from millrace.task.collector import OutputBatch
from millrace.task.engine import Engine
from millrace.testing.metrics import TaskCounts, TaskSizes
from millrace.testing.topics import RawRecord, input_batch
from millrace.topology.parts import SubTopology


class DrivenTask:
    """A sub-topology over memory stores, with a collector that keeps what it is sent."""

    def __init__(
        self,
        sub_topology: SubTopology,
        config: StreamsConfig,
        clock: Callable[[], int],
        limits: RecordLimits,
        *,
        partitions: Mapping[str, int],
        state_directory: Path | None,
        open_global_store: Callable[[str], KeyValueStore],
    ) -> None:
        directory = None if state_directory is None else state_directory / f"{sub_topology.number}_0"
        self.state = TaskState.open(directory, sub_topology.stores, options=StateOptions.from_config(config))
        self.specs = {spec.name: spec for spec in sub_topology.stores}
        self.inputs = sub_topology.input_topics(config.application_id)
        self.positions: dict[str, int] = {}
        self.buffered: list[tuple[str, int, RawRecord]] = []
        self.engine = Engine(
            sub_topology,
            config,
            self.state,
            task=f"{sub_topology.number}_0",
            partition=0,
            stream_times={},
            partition_times={},
            wall_clock_ms=clock,
            open_global_store=open_global_store,
        )
        self._sent: list[OutputBatch] = []
        self._limits = limits
        self._partitions = partitions
        self.counts = TaskCounts()
        self.sub_topology = sub_topology
        self.name = f"{sub_topology.number}_0"

    def send(self, batch: OutputBatch) -> None:
        """Keeps a batch of output.

        Raises:
            RecordRefusedError: the topic does not take a record; nothing of the batch is kept.
        """
        headers = None if batch.headers is None else batch.headers.tolist()
        self._limits.check(batch.topic, batch.keys, batch.values, headers, batch.timestamps)
        self._sent.append(batch)

    def refused(self, batch: OutputBatch) -> list[Refusal]:
        """Returns the records that their topic would refuse."""
        headers = None if batch.headers is None else batch.headers.tolist()
        return self._limits.refused(batch.topic, batch.keys, batch.values, headers, batch.timestamps)

    def expect_dead_letter_records(self, _topics: Iterable[str], /) -> None:
        """Does nothing: every topic exists here."""

    def partition_count(self, topic: str, /) -> int:
        """Returns as many partitions as the driver was given, otherwise one."""
        return self._partitions.get(topic, 1)

    def read_topic(self, topic: str, source: str) -> None:
        """Reads one more topic, which the pattern of a source matches."""
        self.inputs = tuple(sorted({*self.inputs, topic}))
        self.engine.sources.read_topic(topic, source)

    @property
    def sizes(self) -> TaskSizes:
        """The sizes of what the task holds now."""
        context = self.engine.context
        return TaskSizes(
            entries={store: entries for store, (entries, _) in self.state.sizes().items()},
            stream_times=dict(context.stream_times),
            held_back={store: buffered() for store, buffered in context.held_back.items()},
        )

    def run(self, buffered: list[tuple[str, int, RawRecord]], *, wall_clock: bool = False) -> list[OutputBatch]:
        """Processes records, with their topics and offsets, as one batch and commits.

        Args:
            buffered: the records.
            wall_clock: whether punctuations that are due by the wall clock are called.
        """
        batch = input_batch(self.inputs, buffered)
        self._sent = []
        try:
            self.engine.process(self.engine.sources.in_stream_order(batch), self, wall_clock=wall_clock)
            self.state.check_reads()
        except BaseException:
            self.state.rollback()
            raise
        for topic, offset, _ in buffered:
            self.positions[topic] = offset + 1
        self._count(len(buffered))
        self.state.commit(TaskPosition(inputs={(name, 0): offset for name, offset in self.positions.items()}))
        return self._sent

    def _count(self, read: int) -> None:
        counts, failures = self.counts, self.engine.failures
        counts.read += read
        counts.dropped.update(failures.dropped)
        counts.dead_letters += failures.dead_letters
        latest = [int(lateness.max()) for lateness in failures.lateness if len(lateness)]
        if latest:
            counts.latest_ms = max(latest)
        for batch in self._sent:
            if batch.store is None:
                counts.written[batch.topic] += len(batch)
