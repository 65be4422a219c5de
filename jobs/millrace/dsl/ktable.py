"""``KTable``: the latest value of each key, changed by each record.

Callables get ``(key, value)``; value mappers and joiners may leave the key out. Expressions are those of
:class:`KStream`. An operator's table is stored where its ``Materialized`` has a name; otherwise its rows are computed
from those of the table above where another operator looks them up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from millrace.dsl.callables import check_callable, check_mapper, mapper_of, table_joiner_of, value_mapper_of
from millrace.dsl.foreign_key_joins import join_on_foreign_key
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.kstream import KStream
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import Grouped, Materialized, Named, name_of
from millrace.dsl.processing import check_supplier, connected_stores, is_supplier
from millrace.dsl.stores import key_value_store, suppression_buffer
from millrace.dsl.suppressed import EagerBufferConfig, Suppressed
from millrace.dsl.table_joined import TableJoined
from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology import naming
from millrace.topology.arguments import checks_arguments
from millrace.topology.foreign_key_join import ForeignKeyExtractor
from millrace.topology.logical import Process, TableJoin
from millrace.topology.operators import (
    KeyMapper,
    PairMapper,
    Predicate,
    TableFilter,
    TableJoinKind,
    TableMapValues,
    TableSelect,
    TableSuppress,
    TableToStream,
    TableTransformValues,
    ValueMapper,
)
from millrace.topology.processor_api import ValueTransformerWithKeySupplier
from millrace.topology.window_close import close_delay_ms

if TYPE_CHECKING:
    from millrace.dsl.kgrouped_table import KGroupedTable


@checks_arguments
class KTable(MethodHints):
    """A table. Made by :meth:`StreamsBuilder.table`, :meth:`KStream.to_table`, aggregations and its own methods."""

    def __init__(
        self,
        graph: GraphBuilder,
        name: str,
        *,
        key_serde: Serde | None,
        value_serde: Serde | None,
        sources: frozenset[str],
        store: str | None,
    ) -> None:
        self._graph = graph
        self._name = name
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._sources = sources
        self._store = store

    @property
    def queryable_store_name(self) -> str | None:
        """Name of the store that holds the table, where the user named one."""
        return None if self._store is None or self._graph.is_generated_store(self._store) else self._store

    def filter(
        self, predicate: Predicate, materialized: Materialized | None = None, *, named: Named | str | None = None
    ) -> KTable:
        """Keeps the rows for which ``predicate`` is true: a callable ``(key, value)`` or an expression (null is false).

        A row that no longer matches is deleted below. So is one that never matched, where this table is not stored
        and neither are the rows that it filters.

        Args:
            predicate: called for the rows' values, never for deletions.
            materialized: the store, if it has a name.
            named: name of the node.
        """
        return self._filtered(TableFilter(predicate), materialized, named)

    def filter_not(
        self, predicate: Predicate, materialized: Materialized | None = None, *, named: Named | str | None = None
    ) -> KTable:
        """Keeps the rows for which ``predicate`` is not true. See :meth:`filter`."""
        return self._filtered(TableFilter(predicate, negated=True), materialized, named)

    def map_values(
        self, mapper: ValueMapper, materialized: Materialized | None = None, *, named: Named | str | None = None
    ) -> KTable:
        """Replaces the value of each row by what ``mapper`` gives: an expression, ``(value)`` or ``(key, value)``.

        Args:
            mapper: called for the rows' values, never for deletions, and again where a row is looked up or its old
                value is needed, unless the table is stored. What it gives ``None`` for has no row.
            materialized: the store, if it has a name; its value serde is that of the new values.
            named: name of the node.
        """
        by_key_and_value = mapper_of(mapper, what="value mapper")
        options = materialized or Materialized()
        if materialized is not None and materialized.name is None:
            self._graph.skip_store_index(naming.TABLE_MAP_VALUES)
        name = self._graph.new_name(naming.TABLE_MAP_VALUES, name_of(named))
        return self._changed(name, TableMapValues(by_key_and_value, options.name), options, options.value_serde)

    def transform_values(
        self,
        transformer: Callable[[Any], Any] | Callable[[Any, Any], Any] | ValueTransformerWithKeySupplier,
        materialized: Materialized | str | None = None,
        *state_store_names: str,
        named: Named | str | None = None,
    ) -> KTable:
        """Transforms values as :meth:`map_values`, is called for deletions too, with ``None``, and may use stores.

        Args:
            transformer: a callable ``(value)`` or ``(key, value)``; or a supplier, which takes no arguments and gives a
                new :class:`~millrace.topology.processor_api.ValueTransformerWithKey` at each call. Only the latter's
                table, where it is not stored, cannot be looked up by joins.
            materialized: the store of the results, if it has a name; or the name of the first store to connect.
            state_store_names: names of stores to connect to the transformer that the supplier makes.
            named: name of the node.

        Raises:
            TopologyError: stores are named for a plain callable.
        """
        if isinstance(materialized, str):
            state_store_names, materialized = (materialized, *state_store_names), None
        options = materialized or Materialized()
        name = self._graph.new_name(naming.TABLE_TRANSFORM_VALUES, name_of(named))
        if is_supplier(transformer):
            supplier = cast(ValueTransformerWithKeySupplier, transformer)
            check_supplier(supplier, what="value transformer supplier", method="transform")
            reads = connected_stores(self._graph, supplier, state_store_names)
            return self._changed(
                name, TableTransformValues(supplier, options.name), options, options.value_serde, reads=reads
            )
        by_key_and_value = value_mapper_of(transformer, what="value transformer")
        if state_store_names:
            raise TopologyError(
                f"The stores {', '.join(state_store_names)} cannot be connected to a plain callable.",
                remedy="pass a supplier of a ValueTransformerWithKey, for example its class",
            )
        operator = TableMapValues(by_key_and_value, options.name, maps_nulls=True)
        return self._changed(name, operator, options, options.value_serde)

    def join(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
        foreign_key_extractor: ForeignKeyExtractor | Callable[[Any], Any] | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable:
        """Joins two tables: a row ``joiner(value, other value)`` for each key that both hold.

        With a ``foreign_key_extractor``: for each row here whose foreign key ``other`` holds (KIP-213). Then the tables
        may have different keys and numbers of partitions; both are stored, and meet through two internal topics. A row
        whose foreign key changes or goes sends a deletion, also where no result was sent before. Rows without a
        foreign key are dropped and counted.

        Args:
            other: the other table, co-partitioned with this one unless there is a ``foreign_key_extractor``.
            joiner: ``(value, other value)`` or, which Kafka Streams does not have for tables, ``(key, value, other
                value)``, as its parameters say; what it gives ``None`` for has no row.
            materialized: the store; one without a name gets a generated one. Of a join by a foreign key it is made
                where it is named or read.
            named: name of the node that merges both sides; the sides' are made from it. Not of a join by a foreign
                key, which is named by its ``table_joined``.
            foreign_key_extractor: the foreign key of a row of this table, which is a key of ``other``: a callable
                ``(value)`` or ``(key, value)`` (KIP-1104), or an expression. Must give the same for the same row.
            table_joined: name and partitioners of a join by a foreign key (KIP-775).

        Raises:
            TopologyError: the tables are of different builders, or the options are those of the other kind of join.
        """
        if foreign_key_extractor is not None:
            return self._joined_on_foreign_key(
                other, joiner, foreign_key_extractor, materialized, named, options=table_joined, left_join=False
            )
        return self._joined(other, joiner, TableJoinKind.INNER, materialized, named, table_joined=table_joined)

    def left_join(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
        foreign_key_extractor: ForeignKeyExtractor | Callable[[Any], Any] | None = None,
        table_joined: TableJoined | None = None,
    ) -> KTable:
        """Joins two tables: a row for each key that this one holds; ``other`` gives ``None`` where it has none.

        See :meth:`join`.

        By a foreign key, rows that have none are joined with ``None`` too.
        """
        if foreign_key_extractor is not None:
            return self._joined_on_foreign_key(
                other, joiner, foreign_key_extractor, materialized, named, options=table_joined, left_join=True
            )
        return self._joined(other, joiner, TableJoinKind.LEFT, materialized, named, table_joined=table_joined)

    def outer_join(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Joins two tables: a row for each key that either holds; the other one gives ``None``. See :meth:`join`."""
        return self._joined(other, joiner, TableJoinKind.OUTER, materialized, named)

    def group_by(self, mapper: PairMapper, grouped: Grouped | None = None) -> KGroupedTable:
        """Groups the rows under another key, through a repartition topic, to be aggregated.

        Args:
            mapper: ``(key, value) -> (new key, new value)``; called for the old and the new value of each change, so
                it must give the same for the same row. Rows whose new key or value is ``None`` are left out.
            grouped: serdes of the new keys and values, and the name of the topic.
        """
        from millrace.dsl.kgrouped_table import KGroupedTable

        check_callable(mapper, 2, what="mapper", takes="key, value")
        options = grouped or Grouped()
        name = self._graph.new_name(naming.TABLE_SELECT, options.name)
        self._graph.add(Process(name=name, parents=(self._name,), operator=TableSelect(mapper)))
        return KGroupedTable(self._graph, name, options)

    def suppress(self, suppressed: Suppressed) -> KTable:
        """Holds back some of the table's changes: only the last of several goes on (KIP-328).

        What waits is in a buffer in memory, in the task's database and in a changelog. Where the table is looked up
        (in a join), a row that waits is still as it was before. As in Kafka Streams a change that goes on carries as
        its old value the one just before it, not the one that went on last: do not ``group_by`` behind this.

        Args:
            suppressed: which changes wait, until when, and how many.

        Raises:
            TopologyError: the table has no windows whose close could be waited for, or a name is taken.
        """
        name = self._graph.new_name(naming.TABLE_SUPPRESS) if suppressed.name is None else suppressed.name
        limit_ms = suppressed.time_limit_ms
        wait_ms = close_delay_ms(self._name, self._graph.node) if limit_ms is None else limit_ms
        given = None if suppressed.name is None else suppressed.name + naming.SUPPRESS_STORE_SUFFIX
        store_name = self._graph.new_store_name(naming.TABLE_SUPPRESS, given)
        buffer = suppressed.buffer
        operator = TableSuppress(
            store_name,
            wait_ms,
            until_window_closes=limit_ms is None,
            max_records=buffer.record_limit,
            max_bytes=buffer.byte_limit,
            emits_when_full=isinstance(buffer, EagerBufferConfig),
        )
        store = suppression_buffer(store_name, buffer, key_serde=self._key_serde, value_serde=self._value_serde)
        self._graph.add(Process(name=name, parents=(self._name,), operator=operator, store=store))
        return KTable(
            self._graph,
            name,
            key_serde=self._key_serde,
            value_serde=self._value_serde,
            sources=self._sources,
            store=None,
        )

    def to_stream(self, mapper: KeyMapper | None = None, *, named: Named | str | None = None) -> KStream:
        """Returns the table's changes as a stream; deletions are records with a null value.

        Args:
            mapper: gives each record a new key: a callable ``(key, value)`` or an expression.
            named: name of the node.
        """
        if mapper is not None:
            check_mapper(mapper, what="key mapper")
        name = self._graph.new_name(naming.TABLE_TO_STREAM, name_of(named))
        self._graph.add(Process(name=name, parents=(self._name,), operator=TableToStream()))
        stream = KStream(
            self._graph,
            name,
            key_serde=self._key_serde,
            value_serde=self._value_serde,
            sources=self._sources,
            key_changed=False,
        )
        return stream if mapper is None else stream.select_key(mapper)

    def _filtered(self, operator: TableFilter, materialized: Materialized | None, named: Named | str | None) -> KTable:
        check_mapper(operator.predicate, what="predicate")
        options = materialized or Materialized()
        if materialized is not None and materialized.name is None:
            self._graph.skip_store_index(naming.TABLE_FILTER)
        name = self._graph.new_name(naming.TABLE_FILTER, name_of(named))
        stored = TableFilter(operator.predicate, operator.negated, options.name)
        return self._changed(name, stored, options, options.value_serde or self._value_serde)

    def _changed(
        self,
        name: str,
        operator: TableFilter | TableMapValues | TableTransformValues,
        options: Materialized,
        value_serde: Serde | None,
        *,
        reads: tuple[str, ...] = (),
    ) -> KTable:
        key_serde = options.key_serde or self._key_serde
        store = (
            None
            if operator.store is None
            else key_value_store(operator.store, options, key_serde=key_serde, value_serde=value_serde)
        )
        self._graph.add(Process(name=name, parents=(self._name,), operator=operator, store=store, reads=reads))
        return KTable(
            self._graph,
            name,
            key_serde=key_serde,
            value_serde=value_serde,
            sources=self._sources,
            store=operator.store,
        )

    def _joined_on_foreign_key(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        extractor: ForeignKeyExtractor | Callable[[Any], Any],
        materialized: Materialized | None,
        named: Named | str | None,
        *,
        options: TableJoined | None,
        left_join: bool,
    ) -> KTable:
        if named is not None:
            raise TopologyError(
                "A join by a foreign key has many nodes and is not named by named=.",
                remedy="name it with TableJoined.as_",
            )
        return join_on_foreign_key(
            self, other, extractor, joiner, left_join=left_join, options=options, materialized=materialized
        )

    def _joined(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        kind: TableJoinKind,
        materialized: Materialized | None,
        named: Named | str | None,
        *,
        table_joined: TableJoined | None = None,
    ) -> KTable:
        if table_joined is not None:
            raise TopologyError(
                "TableJoined is for joins by a foreign key, and there is no foreign_key_extractor.",
                remedy="give the foreign_key_extractor, or use named= and materialized",
            )
        by_values = table_joiner_of(joiner)
        if other._graph is not self._graph:
            raise TopologyError("Streams and tables of different StreamsBuilders cannot be combined.")
        options = materialized or Materialized()
        store_name = None if materialized is None else self._graph.new_store_name(naming.TABLE_MERGE, materialized.name)
        given = name_of(named)
        name = self._graph.new_name(naming.TABLE_MERGE, given)
        this_name = self._graph.new_name(naming.TABLE_JOIN_THIS, given and f"{given}-join-this")
        other_name = self._graph.new_name(naming.TABLE_JOIN_OTHER, given and f"{given}-join-other")
        sources = self._sources | other._sources
        self._graph.co_partition(sources)
        key_serde = options.key_serde or self._key_serde
        store = (
            None
            if store_name is None
            else key_value_store(store_name, options, key_serde=key_serde, value_serde=options.value_serde)
        )
        self._graph.add(
            TableJoin(
                name=name,
                parents=(self._name, other._name),
                this_name=this_name,
                other_name=other_name,
                left=self._name,
                right=other._name,
                kind=kind,
                joiner=by_values,
                store=store,
            )
        )
        return KTable(
            self._graph,
            name,
            key_serde=key_serde,
            value_serde=options.value_serde,
            sources=sources,
            store=store_name,
        )
