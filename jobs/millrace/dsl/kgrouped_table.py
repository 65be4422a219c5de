"""``KGroupedTable``: aggregations of a table's rows under another key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.dsl.aggregation_serdes import state_serde, table_result_serde
from millrace.dsl.callables import check_callable
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.ktable import KTable
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import Grouped, Materialized, Named, name_of
from millrace.dsl.stores import key_value_store
from millrace.errors import TopologyError
from millrace.topology import naming
from millrace.topology.aggregators import (
    AvgAggregator,
    BuiltInAggregator,
    CountAggregator,
    StructAggregator,
    SumAggregator,
    TableAggregator,
    TableCallableAggregator,
    TableReduceAggregator,
)
from millrace.topology.arguments import checks_arguments
from millrace.topology.logical import Process, TableRepartition
from millrace.topology.operators import TableAggregate

_SUBTRACTABLE = (CountAggregator, SumAggregator, AvgAggregator)


@checks_arguments
class KGroupedTable(MethodHints):
    """A table grouped by another key. Made by :meth:`KTable.group_by`.

    When a row changes, its old value is subtracted from the group that it was in, and then its new value is added to
    the one that it is in now; where that is the same group, it has one update. A group whose last row is gone keeps
    the aggregate that is left: a count of 0.
    """

    def __init__(self, graph: GraphBuilder, name: str, options: Grouped) -> None:
        self._graph = graph
        self._name = name
        self._options = options
        self._repartition: TableRepartition | None = None

    def count(self, materialized: Materialized | None = None, *, named: Named | str | None = None) -> KTable:
        """Counts the rows of each group, as a 64-bit integer."""
        return self._aggregated(CountAggregator(), materialized, named)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Reduces the values of each group by ``adder(aggregate, value)``.

        ``subtractor(aggregate, value)`` is its inverse.

        The first value of a group is its first aggregate. An aggregate that becomes ``None`` is deleted.
        """
        check_callable(adder, 2, what="adder", takes="aggregate, value")
        check_callable(subtractor, 2, what="subtractor", takes="aggregate, value")
        return self._aggregated(TableReduceAggregator(adder, subtractor), materialized, named)

    def aggregate(
        self,
        initializer: Callable[[], Any] | BuiltInAggregator | StructAggregator,
        adder: Callable[[Any, Any, Any], Any] | None = None,
        subtractor: Callable[[Any, Any, Any], Any] | None = None,
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Aggregates the rows of each group.

        Args:
            initializer: the first aggregate; or instead of all three a built-in aggregator that can subtract: count,
                sum, avg, or a struct of them.
            adder: ``(key, value, aggregate) -> aggregate``.
            subtractor: the same for a value that is taken back.
            materialized: the store; value serdes as in :meth:`KGroupedStream.aggregate`.
            named: name of the node.

        Raises:
            TopologyError: the built-in aggregator cannot subtract, or comes with callables.
        """
        return self._aggregated(_aggregator(initializer, adder, subtractor), materialized, named)

    def _aggregated(
        self, aggregator: TableAggregator, materialized: Materialized | None, named: Named | str | None
    ) -> KTable:
        options = materialized or Materialized()
        given = name_of(named)
        store_name = self._graph.new_store_name(naming.TABLE_AGGREGATE, options.name)
        sink_name = self._graph.new_name(naming.STREAM_SINK, given and f"{given}-sink")
        source_name = self._graph.new_name(naming.STREAM_SOURCE, given and f"{given}-source")
        is_reduction = isinstance(aggregator, TableReduceAggregator)
        name = self._graph.new_name(naming.TABLE_REDUCE if is_reduction else naming.TABLE_AGGREGATE, given)
        key_serde = options.key_serde or self._options.key_serde
        value_serde = options.value_serde or table_result_serde(aggregator, self._options.value_serde)
        parent = self._repartitioned(
            sink_name, source_name, store_name, named=self._options.name is not None or options.name is not None
        )
        stored_serde = state_serde(aggregator, value_serde)
        store = key_value_store(store_name, options, key_serde=key_serde, value_serde=stored_serde)
        operator = TableAggregate(store_name, aggregator)
        self._graph.add(Process(name=name, parents=(parent,), operator=operator, store=store))
        return KTable(
            self._graph,
            name,
            key_serde=key_serde,
            value_serde=value_serde,
            sources=frozenset({parent}),
            store=store_name,
        )

    def _repartitioned(self, sink_name: str, source_name: str, store_name: str, *, named: bool) -> str:
        """Name of the repartition node: aggregations of one group share a topic that the user named."""
        given = self._options.name
        if self._repartition is None or given is None:
            self._repartition = self._graph.add(
                TableRepartition(
                    name=source_name,
                    parents=(self._name,),
                    sink_name=sink_name,
                    topic=(store_name if given is None else given) + naming.REPARTITION_SUFFIX,
                    key_serde=self._options.key_serde,
                    value_serde=self._options.value_serde,
                    generated=not named,
                )
            )
        else:
            self._graph.touch(self._repartition.name)
        return self._repartition.name


def _aggregator(
    initializer: Callable[[], Any] | BuiltInAggregator | StructAggregator,
    adder: Callable[[Any, Any, Any], Any] | None,
    subtractor: Callable[[Any, Any, Any], Any] | None,
) -> TableAggregator:
    if isinstance(initializer, BuiltInAggregator | StructAggregator):
        if adder is not None or subtractor is not None:
            raise TopologyError("A built-in aggregator takes no adder and subtractor.", remedy="pass either of them")
        parts = [part for _, part in initializer.fields] if isinstance(initializer, StructAggregator) else [initializer]
        for part in parts:
            if not isinstance(part, _SUBTRACTABLE):
                raise TopologyError(
                    f"The aggregation {part.kind} of a table cannot take a value back.",
                    remedy="use count, sum or avg, or callables that keep what they need to subtract",
                )
        return initializer
    check_callable(initializer, 0, what="initializer", takes="")
    check_callable(adder, 3, what="adder", takes="key, value, aggregate")
    check_callable(subtractor, 3, what="subtractor", takes="key, value, aggregate")
    assert adder is not None
    assert subtractor is not None
    return TableCallableAggregator(initializer, adder, subtractor)
