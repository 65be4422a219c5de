"""Runs a topology in this process: no Spark, no broker, no JVM; one partition of each topic."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from millrace.config import StreamsConfig
from millrace.dsl import StreamsBuilder, low_level
from millrace.errors import ConfigurationError, TopologyError
from millrace.kafka.record_limits import RecordLimits, TopicLimits
from millrace.metrics import DropReason, SilentDrop
from millrace.serdes import Serde
from millrace.task.collector import OutputBatch
from millrace.task.processor import HeldBack
from millrace.task.serialization import or_default
from millrace.testing.driven_task import DrivenTask
from millrace.testing.global_stores import DrivenGlobalStore
from millrace.testing.metrics import metric_by_name, samples
from millrace.testing.outputs import Outputs
from millrace.testing.store_views import TestStore, store_view
from millrace.testing.stores import TestKeyValueStore, TestSessionStore, TestVersionedStore, TestWindowStore
from millrace.testing.topics import RawRecord, TestInputTopic, TestOutputTopic, TestRecord
from millrace.testing.turns import TopicTurns
from millrace.topology.arguments import checks_arguments
from millrace.topology.default_serdes import with_default_serdes
from millrace.topology.pickling import check_picklable
from millrace.topology.stores import StoreKind, StoreSpec
from millrace.topology.topic_names import check_topic_names
from millrace.topology.topology import FrozenTopology
from millrace.topology.windows import Duration, to_milliseconds


@checks_arguments
class TopologyTestDriver:
    """Feeds records to a topology and collects what it writes, as Kafka Streams' class of the same name does.

    Every piped record is a commit of its own unless it is piped with ``pipe_batch``; so with caching on (the
    default) single records still show every update.

    Args:
        topology: what ``StreamsBuilder.build`` returned, or a :class:`millrace.dsl.Topology`; or the
            ``StreamsBuilder`` itself, which is then built with the settings (``topology.optimization``).
        settings: dotted configuration keys; ``application.id`` and ``bootstrap.servers`` need not be given. As in
            Kafka Streams' driver ``foreign.key.join.settles`` is off.
        initial_wall_clock: what the wall clock shows first, a ``datetime`` with a time zone or milliseconds since the
            epoch; ``None`` takes the time now.
        partitions: how many partitions partitioners see for a topic, by its name; one for the others. Each record is
            written once for each partition that was chosen for it (``TestRecord.partition``).
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
        topology: FrozenTopology | low_level.Topology | StreamsBuilder,
        settings: Mapping[str, Any] | None = None,
        *,
        initial_wall_clock: datetime | int | None = None,
        partitions: Mapping[str, int] | None = None,
        max_message_bytes: Mapping[str, int] | None = None,
        topic_settings: Mapping[str, Mapping[str, str]] | None = None,
        state_directory: Path | None = None,
    ) -> None:
        self._config = StreamsConfig.from_mapping(
            {
                "application.id": "topology-test-driver",
                "bootstrap.servers": "not-used:0",
                "foreign.key.join.settles": False,
                **(settings or {}),
            }
        )
        if isinstance(topology, low_level.Topology):
            topology = topology.build()
        elif isinstance(topology, StreamsBuilder):
            topology = topology.build(self._config)
        check_topic_names(
            topology,
            self._config.application_id,
            dead_letter_topic=self._config.errors_dead_letter_queue_topic_name,
        )
        self._topology = topology = with_default_serdes(topology, self._config)
        check_picklable(topology)
        self._clock_ms = _milliseconds(initial_wall_clock)
        self._global_stores = {part.topic: DrivenGlobalStore(part, self._config) for part in topology.global_stores}
        by_name = {each.spec.name: each for each in self._global_stores.values()}
        limits = {name: TopicLimits(max_message_bytes=most) for name, most in (max_message_bytes or {}).items()}
        limits |= {name: TopicLimits.of(own) for name, own in (topic_settings or {}).items()}
        self._tasks = [
            DrivenTask(
                sub_topology,
                self._config,
                lambda: self._clock_ms,
                RecordLimits(limits, clock=lambda: self._clock_ms),
                partitions=partitions or {},
                state_directory=state_directory,
                open_global_store=lambda name: by_name[name].store,
            )
            for sub_topology in topology.sub_topologies
        ]
        self._outputs = Outputs(topology, self._config)
        self._end_offsets: Counter[str] = Counter()
        self._turns: TopicTurns[tuple[int, RawRecord]] = TopicTurns()
        self.lateness: list[int] = []
        self.dropped: Counter[DropReason] = Counter()
        self.silently_dropped: Counter[SilentDrop] = Counter()
        self.changelogs = self._outputs.changelogs

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
        start_timestamp: datetime | int = 0,
        auto_advance: Duration = 0,
    ) -> TestInputTopic:
        """Returns a topic to pipe records into.

        Args:
            topic: name of a source topic, or one that the pattern of a source matches.
            key_serde: how keys are written.
            value_serde: how values are written.
            start_timestamp: timestamp of the first record that names none, milliseconds or a ``datetime``.
            auto_advance: how much later each further record that names none is.

        Raises:
            TopologyError: no source reads the topic.
        """
        self._match(topic)
        known = sorted({name for task in self._tasks for name in task.inputs} | self._global_stores.keys())
        if topic not in known:
            patterns = [pattern.pattern for _, _, pattern in self._patterns()]
            matched = f", and what matches {' or '.join(map(repr, patterns))}" if patterns else ""
            raise TopologyError(f"No source reads the topic {topic!r}; the sources read {known}{matched}.")
        return TestInputTopic(
            topic,
            lambda records: self._pipe([(topic, record) for record in records]),
            key_serde=key_serde,
            value_serde=value_serde,
            start_timestamp=_milliseconds(start_timestamp),
            auto_advance=auto_advance,
        )

    def create_output_topic(self, topic: str, key_serde: Serde, value_serde: Serde) -> TestOutputTopic:
        """Returns a topic to read results from, with the serdes of its keys and values.

        It may be a repartition or changelog topic (by its full name) or that of the dead-letter records.

        Raises:
            TopologyError: nothing of the topology writes to the topic.
        """
        return TestOutputTopic(topic, self._outputs.queue(topic), key_serde=key_serde, value_serde=value_serde)

    def pipe_batch(self, records: Sequence[tuple[TestInputTopic, TestRecord]]) -> None:
        """Pipes records of several topics as one batch.

        Those of global topics come first, as everywhere. The others are processed in the order of Kafka Streams: within
        a topic as given, across topics always from the one whose next record has the smallest timestamp.

        Args:
            records: pairs of the topic and the record.
        """
        self._pipe([(topic.name, topic.raw(record)) for topic, record in records])

    def produced_topic_names(self) -> set[str]:
        """Names of the topics that have got a record, changelog and repartition topics included."""
        return self._outputs.produced

    def produced_records(self, *, internal: bool = False) -> list[tuple[str, TestRecord]]:
        """Returns all records written since the start, read or not: topic and record, in the order of writing.

        Keys and values are read by the serdes of the sink that writes the topic; where sinks of one topic have
        different serdes they are bytes. Changelogs are not part of it.

        Args:
            internal: whether records of repartition topics are part of it, as bytes.
        """
        return self._outputs.history(internal=internal)

    def metrics(self) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """Returns the series of each metric that does not depend on a broker, by the metric's name.

        Returns:
            for each name of ``docs/metrics.md`` the labels (pairs of name and value, without ``application_id``) and
            the number of each series.
        """
        return samples({task.name: (task.counts, task.sizes) for task in self._tasks})

    def metric(self, name: str, **labels: str) -> float:
        """Returns the sum of a metric's series with these labels. For stream time and lateness it is the largest.

        Args:
            name: the metric's name, or that of Kafka Streams: ``dropped-records-total``.
            labels: for example ``reason="late"`` or ``task="0_0"``.

        Raises:
            ConfigurationError: there is no such metric, or it has no such label.
        """
        metric = metric_by_name(name)
        if unknown := set(labels) - set(metric.labels):
            raise ConfigurationError(
                f"The metric {metric.name} has no label {', '.join(sorted(unknown))}; it has "
                f"{', '.join(metric.labels)}.",
                remedy="leave it out",
            )
        found = [
            value for series, value in self.metrics()[metric.name].items() if dict(series).items() >= labels.items()
        ]
        return max(found, default=0.0) if metric.unit == "seconds" else sum(found)

    def state_store(self, name: str) -> TestStore:
        """Returns the store ``name``, whatever its kind.

        Raises:
            TopologyError: there is no such store.
        """
        for each in self._global_stores.values():
            if each.spec.name == name:
                return TestKeyValueStore(each.store, or_default(each.spec.key_serde), or_default(each.spec.value_serde))
        task = self._task_of(name)
        return store_view(task.sub_topology, task.specs[name], task.state.store(name))

    def all_state_stores(self) -> dict[str, TestStore]:
        """Returns all stores by name: those of joins, suppressions and foreign-key joins and global ones included."""
        names = [name for task in self._tasks for name in task.specs]
        names += [each.spec.name for each in self._global_stores.values()]
        return {name: self.state_store(name) for name in sorted(names)}

    def key_value_store(self, name: str) -> TestKeyValueStore:
        """Returns the key-value store ``name``.

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
        """Returns the window store ``name``.

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
        """Returns the session store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        task, spec = self._holder(name, StoreKind.SESSION)
        return TestSessionStore(
            task.state.session_store(name), or_default(spec.key_serde), or_default(spec.value_serde)
        )

    def versioned_store(self, name: str) -> TestVersionedStore:
        """Returns the versioned key-value store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        task, spec = self._holder(name, StoreKind.VERSIONED)
        return TestVersionedStore(
            task.state.versioned_store(name), or_default(spec.key_serde), or_default(spec.value_serde)
        )

    def store_kind(self, name: str) -> StoreKind:
        """Returns the shape of the keys of the store ``name``.

        Raises:
            TopologyError: there is no such store.
        """
        if any(each.spec.name == name for each in self._global_stores.values()):
            return StoreKind.KEY_VALUE
        return self._task_of(name).specs[name].kind

    def is_window_store(self, name: str) -> bool:
        """Returns whether the store ``name`` is a window store.

        Raises:
            TopologyError: there is no such store.
        """
        return self.store_kind(name) is StoreKind.WINDOW

    def held_back(self) -> dict[str, HeldBack]:
        """Returns what is buffered by store: suppressed changes, and windows that emit on their close."""
        return {store: buffered() for task in self._tasks for store, buffered in task.engine.context.held_back.items()}

    def committed_offset(self, topic: str) -> int:
        """Returns the offset after the last record of ``topic`` that was processed, dropped ones included."""
        positions = [task.positions[topic] for task in self._tasks if topic in task.positions]
        return positions[0] if positions else 0

    def _holder(self, store: str, kind: StoreKind) -> tuple[DrivenTask, StoreSpec]:
        """The task that has the store, and the store's specification, if it is of that kind."""
        task = self._task_of(store)
        spec = task.specs[store]
        if spec.kind is not kind:
            raise TopologyError(f"The store {store!r} is a {spec.kind} store.")
        return task, spec

    def _task_of(self, store: str) -> DrivenTask:
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
        while pending := [task for task in self._tasks if task.buffered]:
            task = pending[0]
            batch, task.buffered = task.buffered, []
            self._append(self._run(task, batch))

    def _run(
        self, task: DrivenTask, batch: list[tuple[str, int, RawRecord]], *, wall_clock: bool = False
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
                    task.buffered.append((topic, offset, record))
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
        return self._outputs.add(written)

    def _patterns(self) -> list[tuple[DrivenTask, str, re.Pattern[str]]]:
        return [
            (task, source.name, source.pattern)
            for task in self._tasks
            for source in task.sub_topology.sources
            if source.pattern is not None
        ]

    def _match(self, topic: str) -> None:
        """Has the source whose pattern matches the topic read it."""
        for task, source, pattern in self._patterns():
            if topic not in task.inputs and pattern.fullmatch(topic):
                task.read_topic(topic, source)


def _milliseconds(time_of: datetime | int | None) -> int:
    if time_of is None:
        return time.time_ns() // 1_000_000
    if not isinstance(time_of, datetime):
        return time_of
    if time_of.tzinfo is None:
        raise TopologyError(f"{time_of!r} has no time zone.", remedy="use datetime(..., tzinfo=UTC)")
    return round(time_of.timestamp() * 1000)
