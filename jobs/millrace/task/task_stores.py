"""The stores of a task, and the views by which operators look up rows of their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from millrace.state import (
    JoinWindowStore,
    KeyValueStore,
    SessionStore,
    SuppressionBuffer,
    VersionedKeyValueStore,
    WindowStore,
)
from millrace.task.buffer_view import BufferView
from millrace.task.table_view import TableView
from millrace.task.versioned_view import VersionedTableView
from millrace.task.windowed_table_view import WindowedTableView
from millrace.topology.aggregators import Aggregator, TableAggregator
from millrace.topology.nodes import ProcessorNode
from millrace.topology.operators import (
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    TableAggregate,
    TableJoinSide,
    WindowedAggregate,
    looked_up_table,
)
from millrace.topology.stores import StoreSpec

Store = KeyValueStore | WindowStore | JoinWindowStore | SessionStore | SuppressionBuffer | VersionedKeyValueStore


@dataclass
class TaskStores:
    """The stores of one task; lives as long as they are open.

    Args:
        specs: their specifications, by name.
        open: returns an open store by name.
        processors: the processor nodes, by name: how the rows of a table are found that is not stored.
        merges: whether the updates of cached stores are merged (``statestore.cache.max.bytes`` is not 0).
        shared: stores that a processor other than their writer reads.
        aggregators: what the rows of a store were made by, by store name, where an aggregation writes it.
        tables: views of the tables that other processors look up, by store name.
        windowed_tables: the same of windowed tables.
        buffers: views of the suppression buffers behind such tables, by store name.
        after_batch: what is left to do once all nodes have run, such as the writes of tables that nodes look up.
    """

    specs: Mapping[str, StoreSpec]
    open: Callable[[str], Store]
    processors: Mapping[str, ProcessorNode]
    merges: bool
    shared: frozenset[str] = frozenset()
    aggregators: Mapping[str, Aggregator | TableAggregator] = field(default_factory=dict)
    tables: dict[str, TableView | VersionedTableView] = field(default_factory=dict)
    windowed_tables: dict[str, WindowedTableView] = field(default_factory=dict)
    buffers: dict[str, BufferView] = field(default_factory=dict)
    after_batch: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        nodes: Iterable[ProcessorNode],
        specs: Iterable[StoreSpec],
        open_store: Callable[[str], Store],
        *,
        merges: bool,
    ) -> TaskStores:
        """Returns the stores of a task's nodes, with a view of each store that nodes look up.

        Args:
            nodes: the processor nodes.
            specs: of the stores.
            open_store: returns an open store by name.
            merges: see :class:`TaskStores`.
        """
        nodes = tuple(nodes)
        stores = cls(
            specs={spec.name: spec for spec in specs},
            open=open_store,
            processors={node.name: node for node in nodes},
            merges=merges,
            shared=_looked_up(nodes),
            aggregators={
                node.operator.store: node.operator.aggregator
                for node in nodes
                if isinstance(
                    node.operator,
                    StreamAggregate | WindowedAggregate | SlidingAggregate | SessionAggregate | TableAggregate,
                )
            },
        )
        for name in stores.shared:
            stores._view(name)
        return stores

    def is_cached(self, store: str) -> bool:
        """Returns whether the updates of a key are merged within a commit."""
        return self.specs[store].cached and self.merges

    def merges_windows(self, store: str) -> bool:
        """Returns whether only the last update of a window in a batch goes downstream: not if nodes look it up.

        Its readers must see each window as of their positions, so that every update has to be known.
        """
        return self.is_cached(store) and store not in self.shared

    def merges_updates(self, store: str) -> bool:
        """Returns whether only the last update of a key in a batch goes downstream.

        Not where a join of tables sends old values on: joined with the other table as it was in between, the old
        value before the batch would result in a row that never was sent, and a node below would take that one back.
        (Kafka Streams with caching does take it back.)
        """
        return self.is_cached(store) and not any(
            isinstance(node.operator, TableJoinSide) and node.sends_old_values and store in node.stores
            for node in self.processors.values()
        )

    def sends_old_values(self, node: str) -> bool:
        """Returns whether the changes that a node forwards must carry the values before them."""
        return node in self.processors and self.processors[node].sends_old_values

    def finish_writes(self) -> None:
        """Executes the writes that were deferred until all nodes have run."""
        for action in self.after_batch:
            action()
        self.after_batch.clear()

    def reset(self) -> None:
        """Discards the remains of a failed batch."""
        self.after_batch.clear()
        for view in (*self.tables.values(), *self.windowed_tables.values(), *self.buffers.values()):
            view.clear()

    def _view(self, name: str) -> None:
        store = self.open(name)
        if isinstance(store, SuppressionBuffer):
            self.buffers[name] = BufferView(store)
        elif isinstance(store, VersionedKeyValueStore):
            self.tables[name] = VersionedTableView(store)
        elif isinstance(store, WindowStore | SessionStore):
            self.windowed_tables[name] = WindowedTableView(store, self.specs[name].retention_ms, self.after_batch)
        else:
            assert isinstance(store, KeyValueStore)
            self.tables[name] = TableView(store)


def _looked_up(nodes: Iterable[ProcessorNode]) -> frozenset[str]:
    """Returns the stores that a join looks up."""
    return frozenset(
        store
        for node in nodes
        if looked_up_table(node.operator) is not None
        for store in node.stores
        if store != getattr(node.operator, "buffer", None)
    )
