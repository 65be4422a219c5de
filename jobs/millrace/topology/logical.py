"""The logical graph: what the DSL appends and rewrites change, before it is frozen into a ``Topology``.

A logical node may become several nodes of the topology: a repartition is a filter, a sink and a source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from millrace.serdes import Serde
from millrace.topology.operators import JoinKind, Operator, TableJoinKind
from millrace.topology.partitioners import Partitioner
from millrace.topology.stores import StoreSpec
from millrace.topology.timestamp_extractors import TimestampExtractor
from millrace.topology.topic_extractors import TopicNameExtractor
from millrace.topology.windows import JoinWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class LogicalNode:
    """Base of the logical nodes.

    Args:
        name: unique name; children refer to it.
        parents: names of the nodes that feed it.
        priority: position among the appended nodes; nodes enter the topology in this order, after their parents.
    """

    name: str
    parents: tuple[str, ...] = ()
    priority: int = 0


@dataclass(frozen=True, kw_only=True)
class StreamInput(LogicalNode):
    """Topics read as a stream. The fields are those of ``SourceNode``."""

    topics: tuple[str, ...]
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    frame_functions: tuple[Callable[[DataFrame], DataFrame], ...] = ()
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True)
class TableInput(LogicalNode):
    """A topic read as a table: a source node and a ``TableSource`` processor.

    Args:
        source_name: name of the source node; ``name`` is that of the processor.
        topic: the topic.
        store: the table's store.
        store_optional: the store was not named, so it is made only if another node reads it.
        reuse_source_topic: the topic itself serves as the store's changelog.
    """

    source_name: str
    topic: str
    store: StoreSpec
    store_optional: bool
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    reuse_source_topic: bool = False


@dataclass(frozen=True, kw_only=True)
class GlobalStoreInput(LogicalNode):
    """A topic that every task has wholly, in a store: a source node and the processor that writes the store.

    Args:
        source_name: name of the source node; ``name`` is that of the processor.
        topic: the topic.
        store: the store; never logged, since the topic itself restores it.
        operator: what writes the store: ``TableSource`` for a global table, or an operator of the user.
    """

    source_name: str
    topic: str
    store: StoreSpec
    operator: Operator
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    timestamp_extractor: TimestampExtractor | None = None


@dataclass(frozen=True, kw_only=True)
class Process(LogicalNode):
    """A processor that a user wrote, with the stores that it reads.

    Args:
        operator: what it does.
        store: the store that it owns, or ``None``.
        store_optional: the store was not named, so it is made only if another node reads it.
        reads: names of stores of other nodes that it reads.
        changes_key: the records' keys may differ behind it.
        changes_value: the records' values may be of another type behind it.
        merges: it unites several streams.
        keeps_null_keys: records with a null key must reach it, also through a repartition topic (left joins).
    """

    operator: Operator
    store: StoreSpec | None = None
    store_optional: bool = False
    reads: tuple[str, ...] = ()
    changes_key: bool = False
    changes_value: bool = False
    merges: bool = False
    keeps_null_keys: bool = False


@dataclass(frozen=True, kw_only=True)
class Repartition(LogicalNode):
    """A repartition topic: a filter, a sink and a source, whose name is the node's.

    Args:
        filter_name: name of the processor in front of the sink.
        sink_name: name of the sink.
        topic: topic name without the application's prefix.
        key_serde: serde of the topic's keys; the same for ``value_serde``.
        partitions: number of partitions that the user asked for.
        partitioner: as in ``SinkNode``.
        mergeable: the topology needs it because a key changed (a rewrite may merge it with others); ``False`` where
            the user asked for it.
        generated: the user gave no name from which the topic's could be made.
    """

    filter_name: str
    sink_name: str
    topic: str
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    partitions: int | None = None
    partitioner: Partitioner | None = None
    mergeable: bool = True
    generated: bool = False


@dataclass(frozen=True, kw_only=True)
class TableJoin(LogicalNode):
    """A join of two tables: a processor for each side, and one that merges their results, whose name is the node's.

    Args:
        this_name: name of the processor behind the left table.
        other_name: name of the processor behind the right table.
        left: name of the node that makes the left table; the same for ``right``.
        kind: which rows it has.
        joiner: ``(left value, right value) -> value``, or a ``KeyedJoiner``.
        store: the store of the results, or ``None``.
    """

    this_name: str
    other_name: str
    left: str
    right: str
    kind: TableJoinKind
    joiner: Callable[..., Any]
    store: StoreSpec | None = None


@dataclass(frozen=True, kw_only=True)
class TableRepartition(LogicalNode):
    """A repartition topic of a table's changes, old and new values: a sink and a source, whose name is the node's.

    Args:
        sink_name: name of the sink.
        topic: topic name without the application's prefix.
        key_serde: serde of the topic's keys.
        value_serde: serde of the values, of which a change has one or two.
        generated: the user gave no name from which the topic's could be made.
    """

    sink_name: str
    topic: str
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    generated: bool = False


@dataclass(frozen=True, kw_only=True)
class ForeignKeyTopic(LogicalNode):
    """A topic between the two sides of a foreign-key join: a sink and a source, whose name is the node's.

    Args:
        sink_name: name of the sink.
        topic: topic name without the application's prefix.
        key_serde: serde of the topic's keys; the same for ``value_serde``.
        partitioner: as in ``SinkNode``.
        generated: the user gave no name from which the topic's could be made.
    """

    sink_name: str
    topic: str
    key_serde: Serde | None
    value_serde: Serde
    partitioner: Partitioner | None = None
    generated: bool = False


@dataclass(frozen=True, kw_only=True)
class Output(LogicalNode):
    """A topic written. The fields are those of ``SinkNode``."""

    topic: str | None
    key_serde: Serde | None = None
    value_serde: Serde | None = None
    partitioner: Partitioner | None = None
    extractor: TopicNameExtractor | None = None


@dataclass(frozen=True, kw_only=True)
class StreamJoin(LogicalNode):
    """A stream-stream join behind its two buffers (``parents``): a processor for each side and, named so, their merge.

    With one parent it is a join of a stream with itself: one processor, one buffer.

    Args:
        this_name: name of the processor of the left stream; ``other_name`` that of the right one's.
        kind: as in ``StreamStreamJoin``; the same for ``windows``, ``joiner`` and ``joiner_takes_key``.
        left_store: name of the left buffer; the same for ``right_store``.
        waiting_store: the store of left and outer joins for records without a partner.
    """

    this_name: str
    other_name: str
    kind: JoinKind
    windows: JoinWindows
    joiner: Callable[..., Any]
    joiner_takes_key: bool
    left_store: str
    right_store: str
    waiting_store: StoreSpec | None = None

    @property
    def keeps_null_keys(self) -> bool:
        """Whether records with a null key must reach it, also through a repartition topic (KIP-962)."""
        return self.kind is not JoinKind.INNER


AnyLogicalNode = (
    StreamInput
    | TableInput
    | GlobalStoreInput
    | Process
    | StreamJoin
    | Repartition
    | TableJoin
    | TableRepartition
    | ForeignKeyTopic
    | Output
)


@dataclass(frozen=True, kw_only=True)
class LogicalGraph:
    """The logical nodes of an application, in the order in which they were appended.

    Args:
        nodes: the nodes; names are unique.
        co_partitioned: groups of input and repartition nodes (by the name of their source) whose topics must have the
            same number of partitions.
        generated_stores: names of the stores that the user did not name.
        stores: the stores that were added for processors to be connected to.
    """

    nodes: tuple[AnyLogicalNode, ...]
    co_partitioned: tuple[frozenset[str], ...] = ()
    generated_stores: frozenset[str] = field(default=frozenset())
    stores: tuple[StoreSpec, ...] = ()

    def by_name(self) -> dict[str, AnyLogicalNode]:
        """Returns the nodes under their names."""
        return {node.name: node for node in self.nodes}

    def children(self) -> dict[str, list[AnyLogicalNode]]:
        """Returns the children of each node, in the order in which they were appended."""
        children: dict[str, list[AnyLogicalNode]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for parent in node.parents:
                children[parent].append(node)
        return children

    def with_nodes(self, nodes: tuple[AnyLogicalNode, ...]) -> LogicalGraph:
        """Returns the same graph with other nodes."""
        return replace(self, nodes=nodes)
