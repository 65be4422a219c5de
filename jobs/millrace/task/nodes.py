"""The processors of a task, and the passing of forwarded records from one to the next."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.task.node_graph import joint_nodes, reconverging
from millrace.task.operators import create_joint_processor, create_processor
from millrace.task.processing.steps import Punctuating
from millrace.task.processor import Forwarded, JointProcessor, Processor, TaskContext
from millrace.task.records import Records, merge_in_order
from millrace.task.walking import Walker
from millrace.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from millrace.topology.parts import SubTopology

Pending = dict[str, list[Records]]
"""By node the records that its parents have forwarded to it."""


class Nodes:
    """The nodes of a sub-topology, which run parents before children, each over all records pending for it.

    Args:
        nodes: the nodes in the order in which they run.
        sub_topology: how they hang together.
        context: what processors are made with.
    """

    def __init__(self, nodes: tuple[Node, ...], sub_topology: SubTopology, context: TaskContext) -> None:
        self._failures = context.failures
        self._stores = context.stores
        self._nodes = nodes
        self._children = context.children
        self._fans_out = reconverging(sub_topology, context.children)
        self._joint_nodes = joint_nodes(sub_topology)
        self._processors: dict[str, Processor] = {}
        self._joint_processors: dict[str, JointProcessor] = {}
        for node in self._nodes:
            if isinstance(node, SourceNode | SinkNode):
                continue
            if node.name not in self._joint_nodes:
                self._processors[node.name] = create_processor(node, context)
            elif node is self._joint_nodes[node.name][0]:
                self._joint_processors[node.name] = create_joint_processor(self._joint_nodes[node.name], context)

    def reset(self) -> None:
        """Resets the processors to the stores' last commit: the batch failed."""
        for processor in self._processors.values():
            processor.reset()
        for joint_processor in self._joint_processors.values():
            joint_processor.reset()

    def punctuating(self, nodes: tuple[ProcessorNode, ...]) -> dict[str, Punctuating]:
        """Returns the processors of nodes that contain user code."""
        found: dict[str, Punctuating] = {}
        for node in nodes:
            processor = self._processors[node.name]
            assert isinstance(processor, Punctuating)
            found[node.name] = processor
        return found

    def walker(self) -> Walker:
        """Returns the walker that takes one record through all nodes before the next."""
        joint = {
            node.name: self._joint_processors[members[0].name]
            for members in self._joint_nodes.values()
            for node in members
        }
        return Walker(
            children=self._children,
            processors=self._processors,
            joint_processors=joint,
            sinks=frozenset(node.name for node in self._nodes if isinstance(node, SinkNode)),
            failures=self._failures,
            after_node=self._stores.finish_writes,
        )

    def run(self, pending: Pending) -> None:
        """Runs the nodes over the records pending for them; records for the sinks stay pending."""
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
                self._failures.node = node.name
                self.pass_on(node.name, self._processors[node.name].process(records), pending)
        self._stores.finish_writes()

    def pass_on(self, node: str, forwarded: Forwarded, pending: Pending) -> None:
        """Adds the records that a node forwarded to those pending for its children."""
        if isinstance(forwarded, Mapping):
            for child, part in forwarded.items():
                if len(part):
                    pending.setdefault(child, []).append(part)
        elif forwarded is not None and len(forwarded):
            self._forward(node, forwarded, pending)

    def _process_jointly(self, members: tuple[ProcessorNode, ...], pending: Pending) -> None:
        """Runs the nodes that share stores, all at the turn of the first one; the others' turns find no records."""
        inputs = {node.name: merge_in_order(parts) for node in members if (parts := pending.pop(node.name, None))}
        if not inputs:
            return
        self._failures.node = str(getattr(members[0].operator, "joint", members[0].name))
        forwarded = self._joint_processors[members[0].name].process(inputs)
        for node in members:
            records = forwarded.get(node.name)
            if records is not None and len(records):
                self._forward(node.name, records, pending)

    def _forward(self, node: str, records: Records, pending: Pending) -> None:
        fans_out = node in self._fans_out
        for position, child in enumerate(self._children.get(node, ())):
            pending.setdefault(child, []).append(records.for_child(position) if fans_out else records)
