"""The stores of a topology for queries: which can be queried, which tasks have them, and their serdes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.kafka.murmur2 import partition_for
from millrace.queries.refusals import QueryRefusedError, Reason
from millrace.queries.requests import Operation
from millrace.topology.parts import full_topic_name
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.topology import FrozenTopology

OPERATIONS: dict[StoreKind, tuple[Operation, ...]] = {
    StoreKind.KEY_VALUE: (Operation.GET, Operation.GET_MANY, Operation.RANGE, Operation.PREFIX, Operation.ALL),
    StoreKind.WINDOW: (Operation.FETCH, Operation.FETCH_ALL, Operation.ALL),
    StoreKind.SESSION: (Operation.FETCH, Operation.FETCH_ALL, Operation.ALL),
    StoreKind.VERSIONED: (Operation.GET, Operation.GET_MANY, Operation.VERSIONS, Operation.ALL),
}
"""What each kind of store answers."""


@dataclass(frozen=True)
class CatalogEntry:
    """A store that can be queried.

    Args:
        spec: the store.
        sub_topology: whose store it is.
        inputs: topics of the sub-topology, as the broker names them.
        refused: why it cannot be queried; empty where it can.
        partitioned_by: the topic by which a partitioner of the application's own distributes the keys; empty where
            Kafka's default one does, as far as the topology says.
    """

    spec: StoreSpec
    sub_topology: int
    inputs: tuple[str, ...]
    refused: str
    partitioned_by: str = ""

    def tasks(self, partitions: Mapping[str, int]) -> int:
        """Returns how many tasks have a part of the store.

        Args:
            partitions: number of partitions of each input topic.
        """
        return max((partitions.get(topic, 0) for topic in self.inputs), default=0)

    def operation(self, name: str) -> Operation:
        """Returns the operation ``name``, if the store supports it.

        Raises:
            QueryRefusedError: there is none of that name, or the store does not know it.
        """
        kind = self.spec.kind
        try:
            operation = Operation(name)
        except ValueError:
            raise QueryRefusedError(
                Reason.BAD_REQUEST, f"There is no operation {name!r}.", remedy=f"there are {', '.join(Operation)}"
            ) from None
        if operation not in OPERATIONS[kind]:
            raise QueryRefusedError(
                Reason.BAD_REQUEST,
                f"Store {self.spec.name} is a {kind} store, which does not know {operation}.",
                remedy=f"ask it for {', '.join(OPERATIONS[kind])}",
            )
        return operation

    def partition_of(self, key: bytes, tasks: int) -> int:
        """Returns the partition that has a key: Kafka's default partitioner over the key's bytes.

        Args:
            key: bytes of the key.
            tasks: how many tasks have a part of the store.

        Raises:
            QueryRefusedError: a partitioner of the application's own distributes the keys.
        """
        if self.partitioned_by:
            raise QueryRefusedError(
                Reason.BAD_REQUEST,
                f"A partitioner of the application's own distributes the keys of store {self.spec.name}, "
                f"as they are written to {self.partitioned_by}.",
                remedy="give partition=N with the key; or, of a key-value store, ask all partitions by `range` "
                "with the key as from and to",
            )
        return partition_for(key, tasks)


class Catalog:
    """The stores of an application.

    Args:
        topology: its topology.
        application_id: its name.
    """

    def __init__(self, topology: FrozenTopology, application_id: str) -> None:
        chosen = _topics_with_partitioners(topology, application_id)
        self._entries: dict[str, CatalogEntry] = {}
        for part in topology.sub_topologies:
            inputs = part.input_topics(application_id)
            by = next((topic for topic in inputs if topic in chosen), "")
            for store in part.stores:
                self._entries[store.name] = CatalogEntry(store, part.number, inputs, _refused(store), by)
        for each in topology.global_stores:
            why = "a global store, of which each worker has copies of its own; read its topic, or join with it"
            self._entries[each.store.name] = CatalogEntry(each.store, each.number, (each.topic,), why)

    @property
    def entries(self) -> Mapping[str, CatalogEntry]:
        """All stores, by name."""
        return self._entries

    @property
    def queryable(self) -> dict[str, StoreSpec]:
        """The stores that can be queried, without their serdes, which only the server needs."""
        return {
            name: replace(entry.spec, key_serde=None, value_serde=None)
            for name, entry in self._entries.items()
            if not entry.refused
        }

    def store(self, name: str) -> CatalogEntry:
        """Returns the store ``name``, if it can be queried.

        Raises:
            QueryRefusedError: there is none, or it cannot be queried.
        """
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(sorted(self.queryable)) or "none"
            raise QueryRefusedError(
                Reason.STORE_UNKNOWN, f"There is no store {name}.", remedy=f"those that can be queried are: {known}"
            )
        if entry.refused:
            raise QueryRefusedError(
                Reason.STORE_NOT_QUERYABLE, f"Store {name} cannot be queried: it is {entry.refused}."
            )
        return entry


def _topics_with_partitioners(topology: FrozenTopology, application_id: str) -> set[str]:
    return {
        full_topic_name(node.topic, application_id, internal=node.internal)
        for part in topology.sub_topologies
        for node in part.sinks
        if node.topic is not None and node.partitioner is not None
    }


def _refused(store: StoreSpec) -> str:
    if store.custom is not None:
        return "a store of the application's own, which only its worker can read"
    if store.capacity is not None or store.backend is StoreBackend.MEMORY:
        return "in the memory of the task's worker"
    if store.kind is StoreKind.BUFFER:
        return "the buffer of a suppressed table"
    if store.retains_duplicates:
        return "the buffer of a stream-stream join"
    return "" if store.kind in OPERATIONS else f"a {store.kind} store"
