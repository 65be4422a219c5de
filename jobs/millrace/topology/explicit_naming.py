"""``ensure.explicit.internal.resource.naming`` (KIP-1111)."""

from __future__ import annotations

from millrace.errors import TopologyError
from millrace.topology.logical import (
    ForeignKeyTopic,
    GlobalStoreInput,
    LogicalGraph,
    Process,
    Repartition,
    StreamJoin,
    TableInput,
    TableJoin,
    TableRepartition,
)
from millrace.topology.stores import StoreKind


def check_explicit_naming(graph: LogicalGraph) -> None:
    """Refuses generated names of stores, changelogs and internal topics.

    Those of joins by a foreign key are among them, which Kafka Streams overlooks. As there, an unnamed table counts
    even where nothing reads it and its store is not made.

    Raises:
        TopologyError: there are some; the message lists all.
    """
    owned = [
        node.store for node in graph.nodes if isinstance(node, TableInput | GlobalStoreInput | Process | TableJoin)
    ]
    owned += [node.waiting_store for node in graph.nodes if isinstance(node, StreamJoin)]
    stores = [store for store in owned if store is not None and store.name in graph.generated_stores]
    found = {
        "changelog topics": [f"{store.name}-changelog" for store in stores if store.logged],
        # As in Kafka Streams a buffer without a changelog may be unnamed.
        "stores": [store.name for store in stores if store.kind is not StoreKind.BUFFER],
        "repartition topics": [
            node.topic for node in graph.nodes if isinstance(node, Repartition | TableRepartition) and node.generated
        ],
        "foreign-key join topics": [
            node.topic for node in graph.nodes if isinstance(node, ForeignKeyTopic) and node.generated
        ],
    }
    if any(found.values()):
        listed = "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)
        raise TopologyError(
            f"Explicit naming is on, and these names are generated: {listed}.",
            remedy="name them with Materialized.as_, Grouped.as_, Joined.as_, TableJoined.as_, "
            "Repartitioned.as_ or named=",
        )
