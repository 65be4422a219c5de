"""The walk of one record through a whole sub-topology before the next, as in Kafka Streams.

A batch goes node by node where no node can see what another does between two of its records. Where a processor that a
user wrote shares a store with another node, that is not so: then each record walks alone, depth first, and forwarding
returns when everything below has seen the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from millrace.task.failures import FailureHandler
from millrace.task.processor import JointProcessor, Processor
from millrace.task.records import Records
from millrace.topology.nodes import ProcessorNode
from millrace.topology.operators import ProcessRecords, TableTransformValues
from millrace.topology.parts import SubTopology


def must_walk(sub_topology: SubTopology) -> bool:
    """Returns whether the sub-topology must be walked record by record.

    It must where a processor shares a store with another node, a table's transformer may look into its stores, or a
    store evicts keys as they are used.
    """
    if any(store.capacity is not None for store in sub_topology.stores):
        return True
    users: dict[str, int] = {}
    for node in sub_topology.processors:
        for store in node.stores:
            users[store] = users.get(store, 0) + 1
    return any(
        isinstance(node.operator, TableTransformValues)
        or (isinstance(node.operator, ProcessRecords) and any(users[store] > 1 for store in node.stores))
        for node in sub_topology.processors
    )


class Walker:
    """The walker that takes records through the nodes of a task, one at a time.

    Args:
        children: names of the children of each node.
        processors: the processors of single nodes.
        joint_processors: by node, the processor of the nodes that it runs together with.
        sinks: names of the sinks.
        failures: gets the name of the node that is running.
        after_node: what is left to do once a node has run.
    """

    def __init__(
        self,
        *,
        children: Mapping[str, Sequence[str]],
        processors: Mapping[str, Processor],
        joint_processors: Mapping[str, JointProcessor],
        sinks: frozenset[str],
        failures: FailureHandler,
        after_node: Callable[[], None],
    ) -> None:
        self._children = children
        self._processors = processors
        self._joint_processors = joint_processors
        self._sinks = sinks
        self._failures = failures
        self._after_node = after_node
        self._written = 0
        self.outputs: dict[str, list[Records]] = {}

    def begin_batch(self) -> None:
        """Discards the output of the batch before."""
        self._written = 0
        self.outputs = {}

    def forward(self, node: str, record: Records, child: str | None) -> None:
        """Passes a record to the children of ``node``, or to one of them, which process it at once."""
        for name in self._children.get(node, ()) if child is None else (child,):
            self._visit(name, record)
        self._failures.node = node

    def _visit(self, node: str, record: Records) -> None:
        if node in self._sinks:
            self._written += 1
            ordered = replace(record, order=(np.array([self._written], dtype=np.int64),))
            self.outputs.setdefault(node, []).append(ordered)
            return
        self._failures.node = node
        joint = self._joint_processors.get(node)
        if joint is not None:
            by_node = joint.process({node: record})
            self._after_node()
            for member, records in by_node.items():
                for one in _one_by_one(records):
                    self.forward(member, one, None)
            return
        forwarded = self._processors[node].process(record)
        self._after_node()
        if isinstance(forwarded, Mapping):
            for name, records in forwarded.items():
                for one in _one_by_one(records):
                    self._visit(name, one)
        elif forwarded is not None:
            for one in _one_by_one(forwarded):
                self.forward(node, one, None)


def _one_by_one(records: Records) -> Iterator[Records]:
    if len(records) == 1:
        yield records
    else:
        for row in range(len(records)):
            yield records.take(np.array([row], dtype=np.int64))


def processor_nodes(sub_topology: SubTopology) -> tuple[ProcessorNode, ...]:
    """Returns the nodes whose processors users wrote, in the order in which they are initialised."""
    return tuple(
        node for node in sub_topology.processors if isinstance(node.operator, ProcessRecords | TableTransformValues)
    )
