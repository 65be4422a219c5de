"""The output of a task: the records that reached its sinks, and the changelog records of its stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from millrace.errors import RecordRefusedError, TopicRefusedError
from millrace.state import TaskState
from millrace.task.collector import Collector, OutputBatch
from millrace.task.failures import FailureHandler
from millrace.task.records import Records, merge_in_order, object_array
from millrace.task.routing_sink import RoutingSink
from millrace.task.sink import Output, Sink, merge_outputs, record_of
from millrace.topology.nodes import SinkNode
from millrace.topology.parts import full_topic_name
from millrace.topology.stores import StoreSpec


class Outputs:
    """The writer of a batch's output to a collector.

    Args:
        nodes: the sink nodes, in their order.
        specs: specifications of the stores, by name.
        state: the stores.
        failures: what happens to records that cannot be written.
        application_id: prefix of the application's own topics.
        partition: the task's partition, which is that of its changelogs.
    """

    def __init__(
        self,
        nodes: Iterable[SinkNode],
        specs: Mapping[str, StoreSpec],
        state: TaskState,
        failures: FailureHandler,
        *,
        application_id: str,
        partition: int,
    ) -> None:
        self._specs = specs
        self._state = state
        self._failures = failures
        self._application_id = application_id
        self._partition = partition
        self._sinks: dict[str, Sink | RoutingSink] = {
            node.name: RoutingSink(node)
            if node.topic is None
            else Sink(node, full_topic_name(node.topic, application_id, internal=node.internal))
            for node in nodes
        }

    def write(self, pending: dict[str, list[Records]], collector: Collector) -> None:
        """Sends the records that reached the sinks.

        Raises:
            MillraceError: a record cannot be written, and its handler does not continue.
        """
        outputs: dict[str, list[Output]] = {}
        for name, sink in self._sinks.items():
            inputs = pending.pop(name, None)
            if inputs:
                self._failures.node = name
                for batch, order in sink.outputs(merge_in_order(inputs), collector, self._failures):
                    outputs.setdefault(batch.topic, []).append((batch, order))
        collector.expect_dead_letter_records(self._failures.dead_letter_topics)
        for parts in outputs.values():
            self._send(merge_outputs([encoded for encoded, _ in parts], [order for _, order in parts]), collector)

    def log_changes(self, collector: Collector) -> None:
        """Sends the batch's changes of the stores to their changelogs."""
        for change in self._state.drain_changelog():
            # A store that reads its changelog from the input topic has nothing to write.
            topic = self._specs[change.store].own_changelog_topic(self._application_id)
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
        """Sends records, except those that their topic refuses and that the handler skips."""
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
            self._failures.refused(error, origin, record_of(batch, row))
        return batch.filter(kept)
