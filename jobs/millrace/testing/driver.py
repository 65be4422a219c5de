"""Runs a topology in this process: no Spark, no broker, no JVM; one partition of each topic."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from millrace.config import StreamsConfig
from millrace.dsl import low_level
from millrace.errors import TopologyError
from millrace.kafka.record_limits import RecordLimits, Refusal, TopicLimits
from millrace.metrics import DropReason, SilentDrop
from millrace.serdes import Serde
from millrace.state import KeyValueStore, StateOptions, TaskPosition, TaskState
from millrace.task.collector import OutputBatch
from millrace.task.engine import Engine
from millrace.task.processor import HeldBack
from millrace.task.serialization import or_default
from millrace.testing.global_stores import DrivenGlobalStore
from millrace.testing.stores import TestKeyValueStore, TestSessionStore, TestVersionedStore, TestWindowStore
from millrace.testing.topics import RawRecord, TestInputTopic, TestOutputTopic, TestRecord, input_batch
from millrace.testing.turns import TopicTurns
from millrace.topology.arguments import checks_arguments
from millrace.topology.default_serdes import with_default_serdes
from millrace.topology.pickling import check_picklable
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.topic_names import check_topic_names
from millrace.topology.topology import SubTopology, Topology
from millrace.topology.windows import Duration, to_milliseconds


@checks_arguments
class TopologyTestDriver:
    """Feeds records to a topology and collects what it writes, as Kafka Streams' class of the same name does.

    Every piped record is a micro-batch of its own unless it is piped with ``pipe_batch``; so with caching on (the
    default) single records still show every update.

    Args:
        topology: what ``StreamsBuilder.build`` returned, or a :class:`millrace.dsl.Topology`.
        settings: dotted configuration keys; ``application.id`` and ``bootstrap.servers`` need not be given. As in
            Kafka Streams' driver ``foreign.key.join.settles`` is off.
        max_message_bytes: largest record of topics, by name; the others have the broker's default, 1,048,588 bytes.
        topic_settings: by topic, settings by which a broker refuses records: ``cleanup.policy`` (compact: no record
            without a key), ``message.timestamp.before.max.ms``, ``message.timestamp.after.max.ms``,
            ``max.message.bytes``. Timestamps are compared with the driver's wall clock; without settings here, none is.
        state_directory: where stores in RocksDB are; ``None`` keeps all stores in memory, whatever they ask for.

    Raises:
        TopologyError: a topic or store has no serde and needs one, or a function that was passed cannot be sent to
            workers, so that the application could not run although it would here.

    Attributes:
        dropped: how many records were dropped, by reason.
        silently_dropped: the same, where Kafka Streams counts nothing.
        lateness: how far behind stream time each record was that reached a windowed operator, milliseconds, 0 or more.
        changelogs: what was written to the changelog topics, by the topic's name.
    """

    def __init__(
        self,
        topology: Topology | low_level.Topology,
        settings: Mapping[str, Any] | None = None,
        *,
        max_message_bytes: Mapping[str, int] | None = None,
        topic_settings: Mapping[str, Mapping[str, str]] | None = None,
        state_directory: Path | None = None,
    ) -> None:
        if isinstance(topology, low_level.Topology):
            topology = topology.build()
        self._config = StreamsConfig.from_mapping(
            {
                "application.id": "topology-test-driver",
                "bootstrap.servers": "not-used:0",
                "foreign.key.join.settles": False,
                **(settings or {}),
            }
        )
        check_topic_names(
            topology,
            self._config.application_id,
            dead_letter_topic=self._config.errors_dead_letter_queue_topic_name,
        )
        self._topology = topology = with_default_serdes(topology, self._config)
        check_picklable(topology)
        self._clock_ms = int(time.time() * 1000)
        self._global_stores = {part.topic: DrivenGlobalStore(part, self._config) for part in topology.global_stores}
        by_name = {each.spec.name: each for each in self._global_stores.values()}
        limits = {name: TopicLimits(max_message_bytes=most) for name, most in (max_message_bytes or {}).items()}
        limits |= {name: TopicLimits.of(own) for name, own in (topic_settings or {}).items()}
        self._tasks = [
            _DrivenTask(
                sub_topology,
                self._config,
                lambda: self._clock_ms,
                RecordLimits(limits, clock=lambda: self._clock_ms),
                state_directory=state_directory,
                open_global_store=lambda name: by_name[name].store,
            )
            for sub_topology in topology.sub_topologies
        ]
        self._outputs: defaultdict[str, deque[RawRecord]] = defaultdict(deque)
        self._end_offsets: Counter[str] = Counter()
        self._turns: TopicTurns[tuple[int, RawRecord]] = TopicTurns()
        self.lateness: list[int] = []
        self.dropped: Counter[DropReason] = Counter()
        self.silently_dropped: Counter[SilentDrop] = Counter()
        self.changelogs: defaultdict[str, list[RawRecord]] = defaultdict(list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Moves the wall clock, which otherwise stands still, ahead, and calls the punctuations that are due by it."""
        self._clock_ms += to_milliseconds(duration)
        for task in self._tasks:
            if task.engine.is_punctuation_due:
                for onward in self._run(task, [], wall_clock=True):
                    self._line_up(*onward)
        self._take_turns()

    def close(self) -> None:
        """Closes the processors and the stores. May be called more than once."""
        for task in self._tasks:
            task.engine.close()
            task.state.close()
        for each in self._global_stores.values():
            each.state.close()

    def create_input_topic(
        self,
        topic: str,
        key_serde: Serde,
        value_serde: Serde,
        *,
        start_timestamp: int = 0,
        auto_advance: Duration = 0,
    ) -> TestInputTopic:
        """A topic to pipe records into.

        Args:
            topic: name of a source topic.
            key_serde: how keys are written.
            value_serde: how values are written.
            start_timestamp: timestamp of the first record that names none, milliseconds.
            auto_advance: how much later each further record that names none is.

        Raises:
            TopologyError: no source reads the topic.
        """
        known = sorted({name for task in self._tasks for name in task.inputs} | self._global_stores.keys())
        if topic not in known:
            raise TopologyError(f"No source reads the topic {topic!r}; the sources read {known}.")
        return TestInputTopic(
            topic,
            lambda records: self._pipe([(topic, record) for record in records]),
            key_serde=key_serde,
            value_serde=value_serde,
            start_timestamp=start_timestamp,
            auto_advance=auto_advance,
        )

    def create_output_topic(self, topic: str, key_serde: Serde, value_serde: Serde) -> TestOutputTopic:
        """A topic to read results from, with the serdes of its keys and values."""
        return TestOutputTopic(self._outputs[topic], key_serde=key_serde, value_serde=value_serde)

    def pipe_batch(self, records: Sequence[tuple[TestInputTopic, TestRecord]]) -> None:
        """Pipes records of several topics as one micro-batch.

        Those of global topics come first, as everywhere. The others are processed in the order of Kafka Streams: within
        a topic as given, across topics always from the one whose next record has the smallest timestamp.

        Args:
            records: pairs of the topic and the record.
        """
        self._pipe([(topic.name, topic.raw(record)) for topic, record in records])

    def produced_topic_names(self) -> set[str]:
        """Names of the topics that were written to, changelog and repartition topics included."""
        return {*self._outputs, *self.changelogs}

    def key_value_store(self, name: str) -> TestKeyValueStore:
        """The key-value store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        for each in self._global_stores.values():
            if each.spec.name == name:
                return TestKeyValueStore(each.store, or_default(each.spec.key_serde), or_default(each.spec.value_serde))
        task = self._task_of(name)
        spec = task.specs[name]
        return TestKeyValueStore(
            task.state.key_value_store(name), or_default(spec.key_serde), or_default(spec.value_serde)
        )

    def window_store(self, name: str) -> TestWindowStore:
        """The window store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        task, spec = self._holder(name, StoreKind.WINDOW)
        return TestWindowStore(
            task.state.window_store(name),
            or_default(spec.key_serde),
            or_default(spec.value_serde),
            spec.window_size_ms,
        )

    def session_store(self, name: str) -> TestSessionStore:
        """The session store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        task, spec = self._holder(name, StoreKind.SESSION)
        return TestSessionStore(
            task.state.session_store(name), or_default(spec.key_serde), or_default(spec.value_serde)
        )

    def versioned_store(self, name: str) -> TestVersionedStore:
        """The versioned key-value store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        task, spec = self._holder(name, StoreKind.VERSIONED)
        return TestVersionedStore(
            task.state.versioned_store(name), or_default(spec.key_serde), or_default(spec.value_serde)
        )

    def store_kind(self, name: str) -> StoreKind:
        """The shape of the keys of the store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        if any(each.spec.name == name for each in self._global_stores.values()):
            return StoreKind.KEY_VALUE
        return self._task_of(name).specs[name].kind

    def is_window_store(self, name: str) -> bool:
        """Whether the store ``name`` is a window store.

        Raises:
            TopologyError: there is no such store.
        """
        return self.store_kind(name) is StoreKind.WINDOW

    def held_back(self) -> dict[str, HeldBack]:
        """What waits for stream time to pass, by store: suppressed changes, and windows that send on their close."""
        return {store: waiting() for task in self._tasks for store, waiting in task.engine.context.held_back.items()}

    def committed_offset(self, topic: str) -> int:
        """The offset after the last record of ``topic`` that was processed, dropped ones included."""
        positions = [task.positions[topic] for task in self._tasks if topic in task.positions]
        return positions[0] if positions else 0

    def _holder(self, store: str, kind: StoreKind) -> tuple[_DrivenTask, StoreSpec]:
        """The task that has the store, and the store's specification, if it is of that kind."""
        task = self._task_of(store)
        spec = task.specs[store]
        if spec.kind is not kind:
            raise TopologyError(f"The store {store!r} is a {spec.kind} store.")
        return task, spec

    def _task_of(self, store: str) -> _DrivenTask:
        for task in self._tasks:
            if store in task.specs:
                return task
        known = sorted(name for task in self._tasks for name in task.specs)
        known += sorted(each.spec.name for each in self._global_stores.values())
        raise TopologyError(f"There is no store {store!r}; the stores are {known}.")

    def _pipe(self, records: list[tuple[str, RawRecord]]) -> None:
        if len(records) == 1:
            self._walk(*records[0])
        else:
            self._process_batches(records)

    def _walk(self, topic: str, record: RawRecord) -> None:
        """Processes a record, and one by one those that it leads to, in the order of Kafka Streams' test driver."""
        self._line_up(topic, record)
        self._take_turns()

    def _take_turns(self) -> None:
        while self._turns:
            topic, (offset, record) = self._turns.next()
            for task in self._tasks:
                if topic in task.inputs:
                    for onward in self._run(task, [(topic, offset, record)]):
                        self._line_up(*onward)

    def _line_up(self, topic: str, record: RawRecord) -> None:
        offset = self._next_offset(topic)
        if any(topic in task.inputs for task in self._tasks):
            self._turns.add(topic, record.timestamp, (offset, record))
        for onward in self._apply_globally(topic, [record]):
            self._line_up(*onward)

    def _process_batches(self, records: list[tuple[str, RawRecord]]) -> None:
        """Processes records, and those that they lead to, as one batch of each task as long as there are any."""
        self._append(records)
        while waiting := [task for task in self._tasks if task.waiting]:
            task = waiting[0]
            batch, task.waiting = task.waiting, []
            self._append(self._run(task, batch))

    def _run(
        self, task: _DrivenTask, batch: list[tuple[str, int, RawRecord]], *, wall_clock: bool = False
    ) -> list[tuple[str, RawRecord]]:
        written = task.run(batch, wall_clock=wall_clock)
        self.dropped.update(task.engine.failures.dropped)
        self.silently_dropped.update(task.engine.failures.silently_dropped)
        for lateness in task.engine.failures.lateness:
            self.lateness.extend(lateness.tolist())
        return self._collect(written)

    def _append(self, records: list[tuple[str, RawRecord]]) -> None:
        """Puts records at the end of their topics, where tasks read them."""
        for topic, record in records:
            offset = self._next_offset(topic)
            for task in self._tasks:
                if topic in task.inputs:
                    task.waiting.append((topic, offset, record))
        for topic in self._global_stores:
            onward = self._apply_globally(topic, [record for name, record in records if name == topic])
            if onward:
                self._append(onward)

    def _apply_globally(self, topic: str, records: list[RawRecord]) -> list[tuple[str, RawRecord]]:
        """Has the global store over a topic, if there is one, read records of it; returns what tasks read of that."""
        global_store = self._global_stores.get(topic)
        if global_store is None or not records:
            return []
        written = global_store.apply(records)
        self.dropped.update(global_store.dropped)
        return self._collect(written)

    def _next_offset(self, topic: str) -> int:
        self._end_offsets[topic] += 1
        return self._end_offsets[topic] - 1

    def _collect(self, written: list[OutputBatch]) -> list[tuple[str, RawRecord]]:
        """Files what a task wrote, and returns what tasks read of it."""
        onward: list[tuple[str, RawRecord]] = []
        for batch in written:
            records = [
                RawRecord(
                    key,
                    value,
                    int(batch.timestamps[row]),
                    [] if batch.headers is None or batch.headers[row] is None else list(batch.headers[row]),
                )
                for row, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True))
            ]
            if batch.store is not None:
                self.changelogs[batch.topic].extend(records)
                continue
            self._outputs[batch.topic].extend(records)
            onward.extend((batch.topic, record) for record in records)
        return onward


class _DrivenTask:
    """A sub-topology over memory stores, with a collector that keeps what it is sent."""

    def __init__(
        self,
        sub_topology: SubTopology,
        config: StreamsConfig,
        clock: Callable[[], int],
        limits: RecordLimits,
        *,
        state_directory: Path | None,
        open_global_store: Callable[[str], KeyValueStore],
    ) -> None:
        directory = None if state_directory is None else state_directory / f"{sub_topology.number}_0"
        self.state = TaskState.open(directory, sub_topology.stores, options=StateOptions.from_config(config))
        self.specs = {spec.name: spec for spec in sub_topology.stores}
        self.inputs = sub_topology.input_topics(config.application_id)
        self.positions: dict[str, int] = {}
        self.waiting: list[tuple[str, int, RawRecord]] = []
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

    def send(self, batch: OutputBatch) -> None:
        """Keeps a batch of output.

        Raises:
            RecordRefusedError: the topic does not take a record; nothing of the batch is kept.
        """
        headers = None if batch.headers is None else batch.headers.tolist()
        self._limits.check(batch.topic, batch.keys, batch.values, headers, batch.timestamps)
        self._sent.append(batch)

    def refused(self, batch: OutputBatch) -> list[Refusal]:
        """The records that their topic would refuse."""
        headers = None if batch.headers is None else batch.headers.tolist()
        return self._limits.refused(batch.topic, batch.keys, batch.values, headers, batch.timestamps)

    def expect_letters(self, _topics: Iterable[str], /) -> None:
        """Every topic exists here."""

    def partition_count(self, _topic: str, /) -> int:
        """Every topic of the driver has one partition."""
        return 1

    def run(self, waiting: list[tuple[str, int, RawRecord]], *, wall_clock: bool = False) -> list[OutputBatch]:
        """Processes records, with their topics and offsets, as one batch and commits.

        Args:
            waiting: the records.
            wall_clock: whether punctuations that are due by the wall clock are called.
        """
        batch = input_batch(self.inputs, waiting)
        self._sent = []
        try:
            self.engine.process(self.engine.in_stream_order(batch), self, wall_clock=wall_clock)
            self.state.check_reads()
        except BaseException:
            self.state.rollback()
            raise
        for topic, offset, _ in waiting:
            self.positions[topic] = offset + 1
        self.state.commit(TaskPosition(inputs={(name, 0): offset for name, offset in self.positions.items()}))
        return self._sent
