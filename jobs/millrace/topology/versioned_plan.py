"""The plan of versioned tables (KIP-914), and of the joins that may wait for their late updates (KIP-923).

A table is versioned where its store is, and, without a store of its own, where the table is that it is made of. The
result of a join of tables only is by its own store. Operators of versioned tables leave out what comes out of order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from millrace.errors import TopologyError
from millrace.topology.logical import AnyLogicalNode, Process
from millrace.topology.operators import (
    CogroupMerge,
    Operator,
    StreamTableJoin,
    TableFilter,
    TableMapValues,
    TableSuppress,
    TableTransformValues,
)
from millrace.topology.stores import StoreKind, StoreSpec

_AS_ITS_PARENT = (CogroupMerge, TableFilter, TableMapValues, TableTransformValues)


def is_versioned(nodes: Mapping[str, AnyLogicalNode], name: str) -> bool:
    """Returns whether the table of the node ``name`` is versioned."""
    node = nodes[name]
    operator = node.operator if isinstance(node, Process) else None
    if isinstance(operator, TableSuppress | StreamTableJoin):
        return False
    store: StoreSpec | None = getattr(node, "store", None)
    if store is not None:
        return store.kind is StoreKind.VERSIONED
    # Only what is computed row by row is as its parent is, and what the inputs of a cogroup make together.
    return isinstance(operator, _AS_ITS_PARENT) and is_versioned(nodes, node.parents[0])


def with_versioned_semantics(nodes: Mapping[str, AnyLogicalNode], node: Process) -> Operator:
    """Returns the operator of a node, marked where the table that it works on is versioned.

    Raises:
        TopologyError: it suppresses updates of a versioned table.
    """
    operator = node.operator
    if isinstance(operator, TableSuppress) and is_versioned(nodes, node.parents[0]):
        raise TopologyError(
            f"Node {node.name!r} suppresses updates of a versioned table, which would lose those that come late.",
            remedy="suppress a table in a plain store, or leave suppress() out",
        )
    if isinstance(operator, TableFilter) and is_versioned(nodes, node.parents[0]):
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
