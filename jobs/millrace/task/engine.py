"""Runs the nodes of a sub-topology over a batch: each node once, parents before children, all its records in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from millrace.config import StreamsConfig
from millrace.errors import RecordRefusedError, TopicRefusedError
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.state import (
    KeyValueStore,
    TaskState,
)
from millrace.task.collector import Collector, OutputBatch
from millrace.task.columns import IntArray
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch, in_stream_order
from millrace.task.operators import create_joint_processor, create_processor
from millrace.task.processing.runtime import ProcessingRuntime, system_time_ms
from millrace.task.processing.steps import Punctuating, Steps
from millrace.task.processor import Forwarded, JointProcessor, Processor, TaskContext, no_global_store
from millrace.task.records import Records, merge_in_order, object_array
from millrace.task.routing_sink import RoutingSink
from millrace.task.sink import Output, Sink, merge_outputs, record_of
from millrace.task.source import Source
from millrace.task.task_stores import TaskStores
from millrace.task.walking import Walker, must_walk, processor_nodes
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.operators import (
    looked_up_table,
)
from millrace.topology.stores import StoreKind
from millrace.topology.timestamp_extractors import timestamp_extractor_by_name
from millrace.topology.topic_partition import TopicPartition
from millrace.topology.topology import SubTopology, full_topic_name


class Engine:
    """The processors of one task over its open stores.

    Kafka Streams walks the whole topology for one record before it takes the next. Here a node processes a whole batch
    before its children see any of it; the records' order columns let merges and table lookups behave as in the walk.

    Args:
        sub_topology: what to run.
        config: the application's configuration.
        state: the task's stores.
        task: the task's name, for errors.
        partition: the task's partition, for its changelogs.
        stream_times: stream time of each windowed operator when the task starts, by the name of its store.
        partition_times: largest timestamp of each input partition so far.
        wall_clock_ms: the clock of what depends on the wall clock; ``None`` takes the system's.
        open_global_store: returns a global store, as far as it is known now, for reading.
    """

    def __init__(
        self,
        sub_topology: SubTopology,
        config: StreamsConfig,
        state: TaskState,
        *,
        task: str,
        partition: int,
        stream_times: Mapping[str, int],
        partition_times: Mapping[TopicPartition, int],
        wall_clock_ms: Callable[[], int] | None = None,
        open_global_store: Callable[[str], KeyValueStore] = no_global_store,
    ) -> None:
        self._state = state
        self._partition = partition
        self._application_id = config.application_id
        self.failures = FailureHandler(config, task)
        self.partition_times = dict(partition_times)
        wall_clock = wall_clock_ms or system_time_ms
        self._children = _children(sub_topology.nodes)
        self.context = TaskContext(
            config=config,
            task=task,
            partition=partition,
            failures=self.failures,
            stores=TaskStores.of(
                sub_topology.processors, sub_topology.stores, state.store, merges=config.merges_updates
            ),
            processing=ProcessingRuntime(
                stream_time_ms=max(partition_times.values(), default=UNKNOWN_TIME), wall_clock_ms=wall_clock
            ),
            stream_times=dict(stream_times),
            wall_clock_ms=wall_clock,
            children=self._children,
            state_directory=state.directory,
            global_stores={each.store.name: each.store for each in sub_topology.global_stores},
            open_global_store=open_global_store,
        )
        default_extractor = timestamp_extractor_by_name(config.default_timestamp_extractor)
        self._nodes = _schedule(sub_topology)
        windowed = any(spec.kind in (StoreKind.WINDOW, StoreKind.SESSION) for spec in sub_topology.stores)
        self._fans_out = _reconverging(sub_topology, self._children)
        self._sources: dict[str, Source] = {}
        self._source_of_topic: dict[str, str] = {}
        self._sinks: dict[str, Sink | RoutingSink] = {}
        self._processors: dict[str, Processor] = {}
        self._joint_nodes = _joint_nodes(sub_topology)
        self._joint_processors: dict[str, JointProcessor] = {}
        for node in self._nodes:
            if isinstance(node, SourceNode):
                self._sources[node.name] = Source(
                    node, self.failures, self.partition_times, default_extractor, windowed=windowed
                )
                for topic in node.topics:
                    name = full_topic_name(topic, config.application_id, internal=node.internal)
                    self._source_of_topic[name] = node.name
            elif isinstance(node, SinkNode):
                self._sinks[node.name] = (
                    RoutingSink(node)
                    if node.topic is None
                    else Sink(node, full_topic_name(node.topic, config.application_id, internal=node.internal))
                )
            elif node.name in self._joint_nodes:
                members = self._joint_nodes[node.name]
                if node is members[0]:
                    self._joint_processors[node.name] = create_joint_processor(members, self.context)
            else:
                self._processors[node.name] = create_processor(node, self.context)
        self._steps = self._steps_of(sub_topology)

    def close(self) -> None:
        """Closes the processors that users wrote, and ends the scans that they hold. May be called more than once."""
        if self._steps is not None:
            self._steps.close()
        self.context.processing.scans.end(self.context.task)

    def read_topic(self, topic: str, source: str) -> None:
        """Has a source read one more topic, which its pattern matches."""
        self._source_of_topic[topic] = source

    @property
    def next_wall_clock_ms(self) -> int | None:
        """When a punctuation is due by the wall clock, milliseconds; ``None`` where none is scheduled."""
        return self.context.processing.next_wall_clock_ms()

    @property
    def is_punctuation_due(self) -> bool:
        """Whether one is due by the wall clock now."""
        due_ms = self.next_wall_clock_ms
        return due_ms is not None and due_ms <= self.context.wall_clock_ms()

    def process(self, batch: InputBatch, collector: Collector, *, wall_clock: bool = False) -> None:
        """Processes the rows of a batch in their order, into the overlays of the stores and the collector.

        Args:
            batch: the rows.
            collector: takes the output.
            wall_clock: whether punctuations that are due by the wall clock are called, before the first row.

        Raises:
            MillraceError: a record could not be read, processed or written, and its handler does not continue. The
                times are then as before; the caller rolls the state back.
        """
        stream_times, partition_times = dict(self.context.stream_times), dict(self.partition_times)
        task_stream_time = self.context.processing.state
        try:
            self._process(batch, collector, wall_clock=wall_clock)
        except BaseException:
            _replace(self.context.stream_times, stream_times)
            _replace(self.partition_times, partition_times)
            self.context.processing.restore(task_stream_time)
            self.context.stores.reset()
            for processor in self._processors.values():
                processor.reset()
            for joint_processor in self._joint_processors.values():
                joint_processor.reset()
            raise

    def _process(self, batch: InputBatch, collector: Collector, *, wall_clock: bool) -> None:
        self.failures.begin_batch(batch)
        pending: dict[str, list[Records]] = {}
        if len(batch):
            self._read(batch, pending)
        if self._steps is None:
            self._run(pending)
        else:
            pending = self._steps.process(batch, pending, wall_clock=wall_clock)
        self._write(pending, collector)
        self._log_changes(collector)
        self.failures.end_batch(collector)

    def _run(self, pending: dict[str, list[Records]]) -> None:
        """Runs the nodes over what is pending for them; what comes to the sinks stays pending."""
        for node in self._nodes:
            if isinstance(node, SinkNode):
                continue
            if node.name in self._joint_nodes:
                self._process_jointly(self._joint_nodes[node.name], pending)
                continue
            inputs = pending.pop(node.name, None)
            if not inputs:
                continue
            records = merge_in_order(inputs)
            if isinstance(node, SourceNode):
                self._forward(node.name, records, pending)
            else:
                self.failures.node = node.name
                self._pass_on(node.name, self._processors[node.name].process(records), pending)
        self.context.stores.finish_writes()

    def _write(self, pending: dict[str, list[Records]], collector: Collector) -> None:
        """Sends what came to the sinks."""
        outputs: dict[str, list[Output]] = {}
        for name, sink in self._sinks.items():
            inputs = pending.pop(name, None)
            if inputs:
                self.failures.node = name
                for batch, order in sink.outputs(merge_in_order(inputs), collector, self.failures):
                    outputs.setdefault(batch.topic, []).append((batch, order))
        collector.expect_dead_letter_records(self.failures.dead_letter_topics)
        for parts in outputs.values():
            self._send(merge_outputs([encoded for encoded, _ in parts], [order for _, order in parts]), collector)

    def in_stream_order(self, batch: InputBatch) -> InputBatch:
        """The rows as Kafka Streams would take them: see :func:`millrace.task.input.in_stream_order`.

        Where the turns of several inputs depend on what the timestamp extractors say, they are asked here, once.

        Raises:
            ProcessingError: a timestamp extractor raised.
        """
        if len(batch) == 0 or batch.has_one_partition or not any(one.may_reorder for one in self._sources.values()):
            return in_stream_order(batch)
        by_offset = batch.take(np.argsort(batch.offset, kind="stable").astype(np.int64))
        event_time = by_offset.timestamp.copy()
        for name, rows in self._rows_of_sources(by_offset):
            event_time[rows] = self._sources[name].event_times(by_offset, rows)
        return in_stream_order(replace(by_offset, event_time=event_time))

    def _steps_of(self, sub_topology: SubTopology) -> Steps | None:
        """What takes batches through the processors that users wrote, or record by record; ``None`` where there are no
        such processors and a batch may go node by node."""
        nodes = processor_nodes(sub_topology)
        if not nodes and not must_walk(sub_topology):
            return None
        walker = None
        if must_walk(sub_topology):
            joint = {
                node.name: self._joint_processors[members[0].name]
                for members in self._joint_nodes.values()
                for node in members
            }
            walker = Walker(
                children=self._children,
                processors=self._processors,
                joint_processors=joint,
                sinks=frozenset(self._sinks),
                failures=self.failures,
                after_node=self.context.stores.finish_writes,
            )
            self.context.processing.walk = walker.forward
        punctuating: dict[str, Punctuating] = {}
        for node in nodes:
            processor = self._processors[node.name]
            assert isinstance(processor, Punctuating)
            punctuating[node.name] = processor
        return Steps(self.context.processing, punctuating, run=self._run, pass_on=self._pass_on, walker=walker)

    def _pass_on(self, node: str, forwarded: Forwarded, pending: dict[str, list[Records]]) -> None:
        if isinstance(forwarded, Mapping):
            for child, part in forwarded.items():
                if len(part):
                    pending.setdefault(child, []).append(part)
        elif forwarded is not None and len(forwarded):
            self._forward(node, forwarded, pending)

    def _process_jointly(self, members: tuple[ProcessorNode, ...], pending: dict[str, list[Records]]) -> None:
        """Runs nodes that share stores, at the turn of the first; the others' turns then find nothing left."""
        inputs = {node.name: merge_in_order(parts) for node in members if (parts := pending.pop(node.name, None))}
        if not inputs:
            return
        self.failures.node = str(getattr(members[0].operator, "joint", members[0].name))
        forwarded = self._joint_processors[members[0].name].process(inputs)
        for node in members:
            records = forwarded.get(node.name)
            if records is not None and len(records):
                self._forward(node.name, records, pending)

    def _read(self, batch: InputBatch, pending: dict[str, list[Records]]) -> None:
        for name, rows in self._rows_of_sources(batch):
            self.failures.node = name
            records = self._sources[name].read(batch, rows)
            if records is not None:
                pending[name] = [records]

    def _rows_of_sources(self, batch: InputBatch) -> Iterator[tuple[str, IntArray]]:
        for name in self._sources:
            own_topics = [
                number for number, topic in enumerate(batch.topics) if self._source_of_topic.get(topic) == name
            ]
            if len(own_topics) == len(batch.topics):
                rows = np.arange(len(batch), dtype=np.int64)
            else:
                rows = np.flatnonzero(np.isin(batch.topic, own_topics)).astype(np.int64)
            if len(rows):
                yield name, rows

    def _forward(self, node: str, records: Records, pending: dict[str, list[Records]]) -> None:
        fans_out = node in self._fans_out
        for position, child in enumerate(self._children.get(node, ())):
            pending.setdefault(child, []).append(records.for_child(position) if fans_out else records)

    def _log_changes(self, collector: Collector) -> None:
        for change in self._state.drain_changelog():
            # A store that reads its changelog from the input topic has nothing to write.
            topic = self.context.stores.specs[change.store].own_changelog_topic(self._application_id)
            if topic is not None and len(change.keys):
                self._send(
                    OutputBatch(
                        topic,
                        list(change.keys),
                        list(change.values),
                        change.timestamps,
                        self._partition,
                        None if change.headers is None else object_array(change.headers),
                        store=change.store,
                    ),
                    collector,
                )

    def _send(self, batch: OutputBatch, collector: Collector) -> None:
        """Hands records over, without those that their topic does not take and that the handler gives up."""
        if not len(batch):
            return
        try:
            collector.send(batch)
        except TopicRefusedError:
            # An internal topic: no record is to blame, and without its record a store would differ from its changelog.
            raise
        except RecordRefusedError:
            writable = self._without_refused(batch, collector)
            if len(writable):
                collector.send(writable)

    def _without_refused(self, batch: OutputBatch, collector: Collector) -> OutputBatch:
        kept = np.ones(len(batch), dtype=bool)
        for row, error in collector.refused(batch):
            kept[row] = False
            origin = None if batch.origins is None else int(batch.origins[row])
            self.failures.refused(error, origin, record_of(batch, row))
        return batch.filter(kept)


def _replace(times: dict[Any, int], earlier: dict[Any, int]) -> None:
    times.clear()
    times.update(earlier)


def _children(nodes: tuple[Node, ...]) -> dict[str, tuple[str, ...]]:
    children: dict[str, list[str]] = {}
    for node in nodes:
        if not isinstance(node, SourceNode):
            for parent in node.parents:
                children.setdefault(parent, []).append(node.name)
    return {name: tuple(names) for name, names in children.items()}


def _joint_nodes(sub_topology: SubTopology) -> dict[str, tuple[ProcessorNode, ...]]:
    """For each node that runs together with others all of them, in the order of the topology."""
    groups: dict[str, list[ProcessorNode]] = {}
    for node in sub_topology.processors:
        joint: str | None = getattr(node.operator, "joint", None)
        if joint is not None:
            groups.setdefault(joint, []).append(node)
    return {node.name: tuple(members) for members in groups.values() for node in members}


def _feeds(sub_topology: SubTopology) -> dict[str, list[str]]:
    """For each node the nodes that must have run before it: its parents, and the writers of the tables it looks up.

    For a node that runs together with others also their parents.
    """
    joint_nodes = _joint_nodes(sub_topology)
    feeds: dict[str, list[str]] = {}
    for node in sub_topology.nodes:
        before: list[str] = [] if isinstance(node, SourceNode) else list(node.parents)
        before += [parent for member in joint_nodes.get(node.name, ()) for parent in member.parents]
        if isinstance(node, ProcessorNode) and looked_up_table(node.operator) is not None:
            before += [
                other.name
                for other in sub_topology.processors
                if looked_up_table(other.operator) is None and set(other.stores) & set(node.stores)
            ]
        feeds[node.name] = before
    return feeds


def _schedule(sub_topology: SubTopology) -> tuple[Node, ...]:
    """The nodes in an order in which everything that feeds a node comes before it; otherwise as in the topology."""
    feeds = _feeds(sub_topology)
    remaining = list(sub_topology.nodes)
    done: set[str] = set()
    scheduled: list[Node] = []
    while remaining:
        ready = next(node for node in remaining if all(name in done for name in feeds[node.name]))
        remaining.remove(ready)
        done.add(ready.name)
        scheduled.append(ready)
    return tuple(scheduled)


def _reconverging(sub_topology: SubTopology, children: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Nodes whose children's ways meet again, in a node, a table, a topic or another task: there their place counts."""
    feeds = _feeds(sub_topology)
    followers: dict[str, set[str]] = {}
    for name, before in feeds.items():
        for feed in before:
            followers.setdefault(feed, set()).add(name)
    topics_are_chosen = any(sink.topic is None for sink in sub_topology.sinks)
    for sink in sub_topology.sinks:
        # Sinks that choose their topics may meet any other in one of them, and one task may read several of the
        # application's own.
        together = topics_are_chosen or sink.internal
        followers.setdefault(sink.name, set()).add("topics" if together else f"topic {sink.topic}")

    def reached_from(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting.extend(followers.get(name, ()))
        return seen

    found = set()
    for name, own_children in children.items():
        ways = [reached_from(child) for child in own_children]
        if any(first & second for place, first in enumerate(ways) for second in ways[place + 1 :]):
            found.add(name)
    return frozenset(found)
