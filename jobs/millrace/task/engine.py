"""The run of a sub-topology's nodes over a batch: each node once, parents before children, all its records in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millrace.config import StreamsConfig
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.state import (
    KeyValueStore,
    TaskState,
)
from millrace.task.collector import Collector
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch
from millrace.task.node_graph import children, schedule
from millrace.task.nodes import Nodes
from millrace.task.outputs import Outputs
from millrace.task.processing.runtime import ProcessingRuntime, system_time_ms
from millrace.task.processing.steps import Steps
from millrace.task.processor import TaskContext, no_global_store
from millrace.task.sources import Sources
from millrace.task.task_stores import TaskStores
from millrace.task.walking import must_walk, processor_nodes
from millrace.topology.nodes import SinkNode, SourceNode
from millrace.topology.parts import SubTopology
from millrace.topology.stores import StoreKind
from millrace.topology.topic_partition import TopicPartition


class Engine:
    """The processors of one task over its open stores.

    Kafka Streams walks the whole topology for one record before it takes the next. Here a node processes a whole batch
    before its children see any of it; the records' order columns let merges and table lookups behave as in the walk.

    A batch goes ``Sources.read`` -> ``Nodes.run`` (in segments by ``Steps`` where users wrote processors) ->
    ``Outputs.write`` -> ``Outputs.log_changes``; each takes the result of the one before, and calls none of the others.

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
        self.failures = FailureHandler(config, task)
        self.partition_times = dict(partition_times)
        wall_clock = wall_clock_ms or system_time_ms
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
            children=children(sub_topology.nodes),
            state_directory=state.directory,
            global_stores={each.store.name: each.store for each in sub_topology.global_stores},
            open_global_store=open_global_store,
        )
        nodes = schedule(sub_topology)
        self.sources = Sources(
            [node for node in nodes if isinstance(node, SourceNode)],
            config,
            self.failures,
            self.partition_times,
            windowed=any(spec.kind in (StoreKind.WINDOW, StoreKind.SESSION) for spec in sub_topology.stores),
        )
        self._nodes = Nodes(nodes, sub_topology, self.context)
        self._steps = self._steps_of(sub_topology)
        self._outputs = Outputs(
            [node for node in nodes if isinstance(node, SinkNode)],
            self.context.stores.specs,
            state,
            self.failures,
            application_id=config.application_id,
            partition=partition,
        )

    def _steps_of(self, sub_topology: SubTopology) -> Steps | None:
        """Returns the steps that run processors of users, or run record by record.

        It is ``None`` where there are no such processors and a batch may go node by node.
        """
        nodes, walks = processor_nodes(sub_topology), must_walk(sub_topology)
        if not nodes and not walks:
            return None
        walker = self._nodes.walker() if walks else None
        if walker is not None:
            self.context.processing.walk = walker.forward
        return Steps(
            self.context.processing,
            self._nodes.punctuating(nodes),
            run=self._nodes.run,
            pass_on=self._nodes.pass_on,
            walker=walker,
        )

    def close(self) -> None:
        """Closes the user's processors, and ends their open scans. Idempotent."""
        if self._steps is not None:
            self._steps.close()
        self.context.processing.scans.end(self.context.task)

    @property
    def next_wall_clock_ms(self) -> int | None:
        """The time when a punctuation is due by the wall clock, milliseconds; ``None`` where none is scheduled."""
        return self.context.processing.next_wall_clock_ms()

    @property
    def is_punctuation_due(self) -> bool:
        """Whether a punctuation is due now by the wall clock."""
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
            self._nodes.reset()
            raise

    def _process(self, batch: InputBatch, collector: Collector, *, wall_clock: bool) -> None:
        self.failures.begin_batch(batch)
        pending = self.sources.read(batch) if len(batch) else {}
        if self._steps is None:
            self._nodes.run(pending)
        else:
            pending = self._steps.process(batch, pending, wall_clock=wall_clock)
        self._outputs.write(pending, collector)
        self._outputs.log_changes(collector)
        self.failures.end_batch(collector)


def _replace(times: dict[Any, int], earlier: dict[Any, int]) -> None:
    times.clear()
    times.update(earlier)
