"""The graph that one ``StreamsBuilder`` and its streams append to."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology import naming
from millrace.topology.logical import AnyLogicalNode, LogicalGraph, Repartition
from millrace.topology.stores import StoreSpec

NodeT = TypeVar("NodeT", bound=AnyLogicalNode)


class GraphBuilder:
    """Collects logical nodes and hands out generated names."""

    def __init__(self) -> None:
        self._nodes: dict[str, AnyLogicalNode] = {}
        self._co_partitioned: list[frozenset[str]] = []
        self._generated_stores: set[str] = set()
        self._stores: dict[str, StoreSpec] = {}
        self._next_index = 0
        self._next_priority = 0

    def new_name(self, prefix: str, given: str | None = None) -> str:
        """Returns ``given``, or ``prefix`` and the counter.

        The counter moves either way, so that naming one moves no other.
        """
        index = self._next_index
        self._next_index += 1
        return given if given is not None else f"{prefix}{index:010d}"

    def new_store_name(self, prefix: str, given: str | None = None) -> str:
        """Returns ``given``, which leaves the counter alone, or ``prefix``, ``STATE-STORE-`` and the counter."""
        if given is not None:
            return given
        name = self.new_name(prefix + naming.STATE_STORE)
        self._generated_stores.add(name)
        return name

    def join_store_name(self, generated: str, given: str | None) -> str:
        """Returns the name of a store of a stream-stream join: ``given`` or else ``generated``, and a suffix."""
        name = (given or generated) + naming.JOIN_STORE_SUFFIX
        if given is None:
            self._generated_stores.add(name)
        return name

    def mark_generated_store(self, name: str) -> None:
        """Remembers that a store's name was not given by the user."""
        self._generated_stores.add(name)

    def skip_store_index(self, prefix: str) -> None:
        """Moves the counter as for a generated store name that Kafka Streams takes and does not use."""
        self.new_name(prefix + naming.STATE_STORE)

    def is_generated_store(self, name: str) -> bool:
        """Returns whether a store's name was generated here."""
        return name in self._generated_stores

    def add(self, node: NodeT) -> NodeT:
        """Appends ``node`` behind its parents.

        Raises:
            TopologyError: another node has its name.
        """
        if node.name in self._nodes:
            raise TopologyError(
                f"Two nodes are named {node.name!r}. Names in use: {', '.join(sorted(self._nodes))}.",
                remedy="give one of them another name",
            )
        # Kafka Streams numbers a node once for each parent; the last number counts.
        self._next_priority += max(1, len(node.parents))
        placed = replace(node, priority=self._next_priority)
        self._nodes[node.name] = placed
        return placed

    def add_store(self, spec: StoreSpec) -> None:
        """Adds a store for processors to be connected to; the same one may be added again.

        Raises:
            TopologyError: another one has its name.
        """
        if self._stores.setdefault(spec.name, spec) != spec:
            raise TopologyError(
                f"A different store has already been added with the name {spec.name!r}.",
                remedy="give one of them another name",
            )

    def touch(self, name: str) -> None:
        """Moves a node to the end of the order."""
        self._next_priority += 1
        self.replace(replace(self._nodes[name], priority=self._next_priority))

    def replace(self, node: AnyLogicalNode) -> None:
        """Replaces the node that has the name of ``node``."""
        self._nodes[node.name] = node

    @property
    def is_empty(self) -> bool:
        """Whether nothing was appended or added."""
        return not self._nodes and not self._stores

    def node(self, name: str) -> AnyLogicalNode:
        """Returns the node called ``name``."""
        return self._nodes[name]

    def has_children(self, name: str) -> bool:
        """Returns whether the node ``name`` has children."""
        return any(name in node.parents for node in self._nodes.values())

    def co_partition(self, sources: frozenset[str]) -> None:
        """Requires the topics of these sources to have the same number of partitions."""
        self._co_partitioned.append(sources)

    def repartition_node(
        self,
        parent: str,
        prefix: str,
        *,
        key_serde: Serde | None,
        value_serde: Serde | None,
        named: bool,
        mergeable: bool = True,
    ) -> Repartition:
        """Returns a repartition node that is not yet appended, and moves the counter by three."""
        sink = self.new_name(naming.STREAM_SINK)
        null_filter = self.new_name(naming.STREAM_FILTER)
        source = self.new_name(naming.STREAM_SOURCE)
        topic = naming.repartition_topic_name(prefix)
        if not naming.is_generated_stream_name(prefix):
            sink, null_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
        return Repartition(
            name=source,
            parents=(parent,),
            filter_name=null_filter,
            sink_name=sink,
            topic=topic,
            key_serde=key_serde,
            value_serde=value_serde,
            mergeable=mergeable,
            generated=not named,
        )

    def graph(self) -> LogicalGraph:
        """Returns the graph that was appended so far."""
        return LogicalGraph(
            nodes=tuple(self._nodes.values()),
            co_partitioned=tuple(self._co_partitioned),
            generated_stores=frozenset(self._generated_stores),
            stores=tuple(self._stores.values()),
        )
