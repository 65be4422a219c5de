"""A topology that writes to other topics: for a canary, which runs beside the application that it is a clone of."""

from __future__ import annotations

from dataclasses import replace

from millrace.errors import TopologyError
from millrace.topology.nodes import Node, SinkNode
from millrace.topology.topology import FrozenTopology


def with_output_prefix(topology: FrozenTopology, prefix: str) -> FrozenTopology:
    """Returns the topology with a prefix in front of every topic that it writes to and that is not its own.

    Args:
        topology: a frozen topology.
        prefix: for example ``orders-canary-``.

    Raises:
        TopologyError: a sink chooses its topics by the records, so that they cannot be known before.
    """
    if topology.choosing_sinks:
        names = ", ".join(sink.name for sink in topology.choosing_sinks)
        raise TopologyError(
            f"The topics of {names} are chosen for each record, so that they cannot be given the prefix {prefix}.",
            remedy="leave output.topic.prefix out, and have the function that chooses give other topics",
        )

    def renamed(node: Node) -> Node:
        if not isinstance(node, SinkNode) or node.internal or node.topic is None:
            return node
        return replace(node, topic=f"{prefix}{node.topic}")

    parts = tuple(replace(part, nodes=tuple(map(renamed, part.nodes))) for part in topology.sub_topologies)
    return replace(topology, sub_topologies=parts)
