"""A frozen topology: nodes, stores and internal topics, split into sub-topologies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from millrace.topology.nodes import Node, ProcessorNode, RepartitionTopicSpec, SinkNode, SourceNode
from millrace.topology.stores import StoreSpec


@dataclass(frozen=True, kw_only=True)
class SubTopology:
    """The nodes that one query runs: everything between source or repartition topics.

    Args:
        number: place in the topology, from 0, as in task names (``1_3`` is sub-topology 1, partition 3).
        nodes: in an order in which parents come before children.
        stores: the stores that the nodes use.
    """

    number: int
    nodes: tuple[Node, ...]
    stores: tuple[StoreSpec, ...]

    @cached_property
    def sources(self) -> tuple[SourceNode, ...]:
        """Its source nodes."""
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @cached_property
    def processors(self) -> tuple[ProcessorNode, ...]:
        """Its processor nodes."""
        return tuple(node for node in self.nodes if isinstance(node, ProcessorNode))

    @cached_property
    def sinks(self) -> tuple[SinkNode, ...]:
        """Its sink nodes."""
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))

    def input_topics(self, application_id: str) -> tuple[str, ...]:
        """Full names of the topics it reads, sorted; repartition topics with their application prefix."""
        return tuple(
            sorted(
                full_topic_name(topic, application_id, internal=source.internal)
                for source in self.sources
                for topic in source.topics
            )
        )


@dataclass(frozen=True, kw_only=True)
class Topology:
    """What ``StreamsBuilder.build`` returns: checked, named, split; plain data that can be sent to workers.

    Args:
        sub_topologies: in the order of their numbers.
        repartition_topics: the topics between them.
        co_partition_groups: topics that must have the same number of partitions because they are joined; repartition
            topics stand without their application prefix.
    """

    sub_topologies: tuple[SubTopology, ...]
    repartition_topics: tuple[RepartitionTopicSpec, ...] = ()
    co_partition_groups: tuple[frozenset[str], ...] = ()

    @cached_property
    def external_inputs(self) -> frozenset[str]:
        """The topics that it reads and that are not its own."""
        return frozenset(
            topic
            for part in self.sub_topologies
            for source in part.sources
            if not source.internal
            for topic in source.topics
        )

    @cached_property
    def external_outputs(self) -> frozenset[str]:
        """The topics that it writes to and that are not its own."""
        return frozenset(sink.topic for part in self.sub_topologies for sink in part.sinks if not sink.internal)

    def describe(self) -> str:
        """The text that Kafka Streams' ``Topology#describe()`` gives for the same topology."""
        from millrace.topology.describe import describe

        return describe(self)

    def summary(self) -> dict[str, Any]:
        """The topology as JSON-compatible data, for the status topic."""
        from millrace.topology.summary import summarize

        return summarize(self)

    @cached_property
    def fingerprint(self) -> str:
        """A short hash over names, operators, stores and topics: equal for topologies whose state is compatible."""
        from millrace.topology.fingerprint import fingerprint

        return fingerprint(self)


def full_topic_name(topic: str, application_id: str, *, internal: bool) -> str:
    """The broker's name of ``topic``: internal ones carry the application id as a prefix."""
    return f"{application_id}-{topic}" if internal else topic
