"""The stores of a topology as those who ask see them: which can be queried, whose they are, how bytes become values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from millrace.kafka.murmur2 import partition_for
from millrace.query.refusals import QueryRefusedError, Reason
from millrace.query.requests import Operation
from millrace.topology.stores import StoreBackend, StoreKind, StoreSpec
from millrace.topology.topology import Topology

OPERATIONS: dict[StoreKind, tuple[Operation, ...]] = {
    StoreKind.KEY_VALUE: (Operation.GET, Operation.RANGE, Operation.PREFIX, Operation.ALL),
    StoreKind.WINDOW: (Operation.FETCH, Operation.FETCH_ALL, Operation.ALL),
    StoreKind.SESSION: (Operation.FETCH, Operation.FETCH_ALL, Operation.ALL),
    StoreKind.VERSIONED: (Operation.GET, Operation.VERSIONS, Operation.ALL),
}
"""What each kind of store answers."""


@dataclass(frozen=True)
class CatalogEntry:
    """One store.

    Args:
        spec: the store.
        sub_topology: whose store it is.
        inputs: topics of the sub-topology, as the broker names them.
        refused: why it cannot be queried; empty where it can.
    """

    spec: StoreSpec
    sub_topology: int
    inputs: tuple[str, ...]
    refused: str

    def tasks(self, partitions: Mapping[str, int]) -> int:
        """How many tasks have a part of the store.

        Args:
            partitions: number of partitions of each input topic.
        """
        return max((partitions.get(topic, 0) for topic in self.inputs), default=0)

    def partition_of(self, key: bytes, partitions: Mapping[str, int]) -> int:
        """The partition that has a key: Kafka's default partitioner over the key's bytes."""
        return partition_for(key, self.tasks(partitions))


class Catalog:
    """The stores of an application.

    Args:
        topology: its topology.
        application_id: its name.
    """

    def __init__(self, topology: Topology, application_id: str) -> None:
        self._entries = {
            store.name: CatalogEntry(store, part.number, part.input_topics(application_id), _refused(store))
            for part in topology.sub_topologies
            for store in part.stores
        }
        for part in topology.global_stores:
            why = "a global store, of which each worker has copies of its own; read its topic, or join with it"
            self._entries[part.store.name] = CatalogEntry(part.store, part.number, (part.topic,), why)

    @property
    def entries(self) -> Mapping[str, CatalogEntry]:
        """All stores, by name."""
        return self._entries

    @property
    def queryable(self) -> dict[str, StoreSpec]:
        """The stores that can be queried, without what only the server needs: serdes may not cross processes."""
        return {
            name: replace(entry.spec, key_serde=None, value_serde=None)
            for name, entry in self._entries.items()
            if not entry.refused
        }

    def store(self, name: str) -> CatalogEntry:
        """The store ``name``, which can be queried.

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
