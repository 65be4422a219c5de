"""The parts of a frozen topology: nodes, stores and internal topics, split into sub-topologies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from millrace.topology.nodes import Node, ProcessorNode, RepartitionTopicSpec, SinkNode, SourceNode
from millrace.topology.stores import StoreSpec


@dataclass(frozen=True, kw_only=True)
class GlobalStore:
    """A topic that every task has wholly, in a store that only the topic's records change (KIP-99, KIP-233).

    Args:
        number: position among the sub-topologies, with which it shares the numbers. It has no tasks.
        source: reads the topic, all of its partitions.
        processor: writes the store.
        store: the store; it has no changelog, since the topic restores it.
    """

    number: int
    source: SourceNode
    processor: ProcessorNode
    store: StoreSpec

    @property
    def topic(self) -> str:
        """The topic."""
        return self.source.topics[0]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Source and processor."""
        return self.source, self.processor


@dataclass(frozen=True, kw_only=True)
class SubTopology:
    """The nodes that one query runs: everything between source or repartition topics.

    Args:
        number: position in the topology, from 0, as in task names (``1_3`` is sub-topology 1, partition 3).
        nodes: in an order in which parents come before children.
        stores: the stores that the nodes use.
        global_stores: the global stores that the nodes may look up.
    """

    number: int
    nodes: tuple[Node, ...]
    stores: tuple[StoreSpec, ...]
    global_stores: tuple[GlobalStore, ...] = ()

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
        """Returns the full names of the topics it reads, sorted; repartition topics with their application prefix."""
        return tuple(
            sorted(
                full_topic_name(topic, application_id, internal=source.internal)
                for source in self.sources
                for topic in source.topics
            )
        )


@dataclass(frozen=True, kw_only=True)
class TopologyParts:
    """The sub-topologies, global stores and topics of a topology: plain data that can be sent to workers.

    Descriptions, summaries and comparisons are made from it; :class:`millrace.topology.topology.FrozenTopology` is the
    one that has them as methods.

    Args:
        sub_topologies: in the order of their numbers.
        repartition_topics: the topics between them.
        co_partition_groups: topics that must have the same number of partitions because they are joined; repartition
            topics stand without their application prefix.
        global_stores: the topics that every task has wholly.
        co_partitioned_sources: the same groups by the names of their sources, where one reads what matches a pattern:
            its topics are known when the application starts.
    """

    sub_topologies: tuple[SubTopology, ...]
    repartition_topics: tuple[RepartitionTopicSpec, ...] = ()
    co_partition_groups: tuple[frozenset[str], ...] = ()
    global_stores: tuple[GlobalStore, ...] = ()
    co_partitioned_sources: tuple[frozenset[str], ...] = ()

    @cached_property
    def parts(self) -> tuple[SubTopology | GlobalStore, ...]:
        """The sub-topologies and the global stores, in the order of their numbers."""
        return tuple(sorted((*self.sub_topologies, *self.global_stores), key=lambda part: part.number))

    @cached_property
    def global_topics(self) -> frozenset[str]:
        """The topics of its global stores."""
        return frozenset(store.topic for store in self.global_stores)

    @cached_property
    def external_inputs(self) -> frozenset[str]:
        """The topics that it reads and that are not its own; those of global stores, too."""
        return self.global_topics | frozenset(
            topic
            for part in self.sub_topologies
            for source in part.sources
            if not source.internal
            for topic in source.topics
        )

    @cached_property
    def external_outputs(self) -> frozenset[str]:
        """The topics that it writes to and that are not its own, as far as they are known before records come."""
        return frozenset(
            sink.topic
            for part in self.sub_topologies
            for sink in part.sinks
            if not sink.internal and sink.topic is not None
        )

    @cached_property
    def framed_sources(self) -> tuple[str, ...]:
        """Names of the sources with frame functions: Spark reads them, so the application runs in micro-batches."""
        return tuple(source.name for part in self.sub_topologies for source in part.sources if source.frame_functions)

    @cached_property
    def choosing_sinks(self) -> tuple[SinkNode, ...]:
        """The sinks whose topics are chosen for each record."""
        return tuple(sink for part in self.sub_topologies for sink in part.sinks if sink.extractor is not None)


def full_topic_name(topic: str, application_id: str, *, internal: bool) -> str:
    """Returns the broker's name of ``topic``: internal ones carry the application id as a prefix."""
    return f"{application_id}-{topic}" if internal else topic
