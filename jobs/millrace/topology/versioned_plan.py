"""Which tables are versioned (KIP-914), and whether a join may wait for their late updates (KIP-923).

A table is versioned where its store is, and, without a store of its own, where the table is that it is made of. The
result of a join of tables only is by its own store. Operators of versioned tables leave out what comes out of order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from millrace.errors import TopologyError
from millrace.topology.foreign_key_join import ForeignTableJoin, SubscriptionSend
from millrace.topology.logical import AnyLogicalNode, Process, TableInput, TableJoin
from millrace.topology.operators import Operator, StreamTableJoin, TableFilter, TableSelect, TableSuppress
from millrace.topology.stores import StoreKind, StoreSpec


def is_versioned(nodes: Mapping[str, AnyLogicalNode], name: str) -> bool:
    """Whether the table of the node ``name`` is versioned."""
    node = nodes[name]
    match node:
        case Process(operator=TableSuppress()):
            return False
        case TableInput(store=StoreSpec(kind=kind)):
            return kind is StoreKind.VERSIONED
        case TableJoin(store=store):
            return store is not None and store.kind is StoreKind.VERSIONED
        case Process(store=StoreSpec(kind=kind), operator=operator) if not isinstance(operator, StreamTableJoin):
            return kind is StoreKind.VERSIONED
        case Process(parents=parents) if parents:
            return all(is_versioned(nodes, parent) for parent in parents)
        case _:
            return False


def with_versioned_semantics(nodes: Mapping[str, AnyLogicalNode], node: Process) -> Operator:
    """The operator of a node, told where the table that it works on is versioned.

    Raises:
        TopologyError: it suppresses updates of a versioned table.
    """
    operator = node.operator
    if isinstance(operator, TableSuppress) and is_versioned(nodes, node.parents[0]):
        raise TopologyError(
            f"Node {node.name!r} suppresses updates of a versioned table, which would lose those that come late.",
            remedy="suppress a table in a plain store, or leave suppress() out",
        )
    if isinstance(operator, TableFilter | TableSelect | SubscriptionSend | ForeignTableJoin) and is_versioned(
        nodes, node.parents[0]
    ):
        return replace(operator, of_versioned=True)
    return operator


def check_grace(nodes: Mapping[str, AnyLogicalNode], node: Process, stores: Collection[str]) -> None:
    """Checks that the table of a join with grace keeps enough history.

    Args:
        nodes: all nodes of the graph.
        node: the join.
        stores: names of the stores behind the table.

    Raises:
        TopologyError: the table is not versioned, or keeps less history than the join waits.
    """
    operator = node.operator
    if not isinstance(operator, StreamTableJoin) or operator.grace_ms is None:
        return
    if not is_versioned(nodes, operator.table):
        raise TopologyError(
            f"Join {node.name!r} has a grace period, but its table {operator.table!r} is not versioned.",
            remedy="materialize the table in Stores.persistent_versioned_key_value_store(...), or leave the grace out",
        )
    for other in nodes.values():
        store = getattr(other, "store", None)
        if store is not None and store.name in stores and store.history_retention_ms < operator.grace_ms:
            raise TopologyError(
                f"Join {node.name!r} waits {operator.grace_ms} ms for late updates, but store {store.name!r} keeps "
                f"{store.history_retention_ms} ms of history.",
                remedy="raise the store's history_retention to the grace period at least",
            )
