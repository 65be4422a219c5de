"""The plan of tables: which are stored and which send old values, because something below them needs it.

Kafka Streams decides this while operators are appended, and so does the walk here, in the order in which they were: a
filter of a table that nothing has read yet does not get old values when a join reads the table later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from millrace.errors import TopologyError
from millrace.topology.foreign_key_join import SubscriptionSend
from millrace.topology.logical import AnyLogicalNode, LogicalGraph, Process, TableInput, TableJoin
from millrace.topology.operators import (
    CogroupMerge,
    TableFilter,
    TableJoinKind,
    TableMapValues,
    TableSelect,
    TableSource,
    TableSuppress,
    TableTransformValues,
    looked_up_table,
)


@dataclass(frozen=True)
class TablePlan:
    """The plan of a graph's tables: which are stored, and which nodes send old values.

    Args:
        stored: names of the source tables (read from a topic, or made of a stream) that need their store.
        old_value_senders: names of the processors whose changes carry old values.
        stores_behind: for each table that is looked up the stores from which its rows are read or computed.
    """

    stored: frozenset[str]
    old_value_senders: frozenset[str]
    stores_behind: dict[str, tuple[str, ...]]


def plan_tables(graph: LogicalGraph) -> TablePlan:
    """Returns the plan of ``graph``.

    Raises:
        TopologyError: a node looks up a table that does not exist.
    """
    walk = _Walk(graph.by_name())
    for node in graph.nodes:
        walk.visit(node)
    return TablePlan(frozenset(walk.stored), frozenset(walk.senders), walk.stores_behind)


@dataclass
class _Walk:
    """The state of the decisions so far."""

    nodes: dict[str, AnyLogicalNode]
    stored: set[str] = field(default_factory=set)
    senders: set[str] = field(default_factory=set)
    sending_tables: set[str] = field(default_factory=set)
    stores_behind: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def visit(self, node: AnyLogicalNode) -> None:
        """Takes the needs of one more node into account."""
        match node:
            case TableInput(store_optional=False) | Process(operator=TableSource(), store_optional=False):
                self.stored.add(node.name)
            case TableJoin(kind=kind):
                if kind is not TableJoinKind.INNER:
                    self.send_old_values(node.left, force=True)
                if kind is TableJoinKind.OUTER:
                    self.send_old_values(node.right, force=True)
                self.stores_behind[node.left] = self.look_up(node.left, node.name)
                self.stores_behind[node.right] = self.look_up(node.right, node.name)
            case Process(operator=TableFilter()):
                # Where rows are stored anyway, old values spare deletions of rows that were never sent.
                if self.send_old_values(node.parents[0], force=False):
                    self.senders.add(node.name)
            case Process(operator=TableSelect() | TableSuppress()):
                self.send_old_values(node.parents[0], force=True)
            case Process(operator=SubscriptionSend(foreign_table=foreign_table)):
                self.send_old_values(foreign_table, force=True)
                self.send_old_values(node.parents[0], force=True)
            case Process(operator=operator):
                table = looked_up_table(operator)
                if table is not None:
                    self.stores_behind[table] = self.look_up(table, node.name)
            case _:
                pass

    def look_up(self, table: str, reader: str) -> tuple[str, ...]:
        """Has the rows of ``table`` stored where they cannot be computed; returns the stores."""
        node = self.nodes.get(table)
        match node:
            case Process(operator=TableSuppress(store=buffer), parents=(parent,)):
                return (buffer, *self.look_up(parent, reader))
            case Process(operator=CogroupMerge(), parents=(first, *_)):
                return self.look_up(first, reader)
            case TableInput(store=store) | Process(operator=TableSource(), store=store) if store is not None:
                self.stored.add(table)
                return (store.name,)
            case Process(store=store) | TableJoin(store=store) if store is not None:
                return (store.name,)
            case Process(operator=TableFilter() | TableMapValues(), parents=(parent,)):
                return self.look_up(parent, reader)
            case Process(operator=TableTransformValues()):
                raise TopologyError(
                    f"Node {reader!r} reads table {table!r}, which a transformer computes and nothing stores.",
                    remedy="give transform_values() a Materialized with a name",
                )
            case TableJoin(left=left, right=right):
                return tuple(dict.fromkeys((*self.look_up(left, reader), *self.look_up(right, reader))))
            case _:
                tables = (
                    name
                    for name, other in self.nodes.items()
                    if isinstance(other, TableInput | TableJoin) or getattr(other, "store", None) is not None
                )
                available = ", ".join(sorted(tables)) or "none"
                raise TopologyError(f"Node {reader!r} reads table {table!r}, which is unknown. Tables: {available}.")

    def send_old_values(self, table: str, *, force: bool) -> bool:
        """Has the changes of ``table`` carry old values.

        Args:
            table: name of the table's node.
            force: also where a source table must be stored for it, which is not yet.

        Returns:
            Whether they do.
        """
        if table in self.sending_tables:
            return True
        node = self.nodes[table]
        match node:
            case TableInput() | Process(operator=TableSource()):
                if not force and table not in self.stored:
                    return False
                self.stored.add(table)
                self.senders.add(table)
            case Process(
                operator=TableFilter() | TableMapValues() | TableTransformValues(), store=None, parents=(parent,)
            ):
                if self.send_old_values(parent, force=force):
                    self.senders.add(table)
                elif table not in self.senders:
                    return False
            case Process(operator=TableSuppress(), parents=(parent,)):
                self.send_old_values(parent, force=force)
                self.senders.add(table)
            case Process(operator=CogroupMerge(), parents=inputs):
                self.senders |= {*inputs, table}
            case TableJoin():
                self.send_old_values(node.left, force=True)
                self.send_old_values(node.right, force=True)
                self.senders |= {node.this_name, node.other_name, table}
            case _:
                self.senders.add(table)
        self.sending_tables.add(table)
        return True
