"""``KGroupedStream`` and ``TimeWindowedKStream``: aggregations of a grouped stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from millrace.dsl.aggregation import to_aggregator, to_reducer
from millrace.dsl.aggregation_serdes import result_serde, state_serde
from millrace.dsl.cogrouped import CogroupedKStream
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.ktable import KTable
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import Grouped, Materialized, Named, name_of
from millrace.dsl.session_windowed import SessionWindowedKStream
from millrace.dsl.windowing import AnyWindows, Merger, aggregate_operator, aggregate_store, table_key_serde
from millrace.errors import TopologyError
from millrace.topology import naming
from millrace.topology.aggregators import (
    Aggregator,
    BuiltInAggregator,
    CountAggregator,
    ReduceAggregator,
    StructAggregator,
)
from millrace.topology.arguments import checks_arguments
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.logical import Process, Repartition
from millrace.topology.session_windows import SessionWindows
from millrace.topology.sliding_windows import SlidingWindows
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.windows import TimeWindows


class Group:
    """The grouped stream that its aggregations share."""

    def __init__(
        self, graph: GraphBuilder, name: str, options: Grouped, *, sources: frozenset[str], key_changed: bool
    ) -> None:
        self.graph = graph
        self.name = name
        self.options = options
        self.sources = sources
        self.key_changed = key_changed
        self._repartition: Repartition | None = None

    def aggregate(
        self,
        aggregator: Aggregator,
        windows: AnyWindows | None,
        materialized: Materialized | None,
        named: Named | str | None,
        *,
        merger: Merger | None = None,
        emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE,
    ) -> KTable:
        """Appends an aggregation and what it needs in front of it.

        Raises:
            TopologyError: a name is taken, or the retention is shorter than the windows need.
        """
        options = materialized or Materialized()
        prefix = naming.STREAM_REDUCE if isinstance(aggregator, ReduceAggregator) else naming.STREAM_AGGREGATE
        store_name = self.graph.new_store_name(prefix, options.name)
        name = self.graph.new_name(prefix, name_of(named))
        key_serde = options.key_serde or self.options.key_serde
        value_serde = options.value_serde or result_serde(aggregator, self.options.value_serde)
        stored_serde = state_serde(aggregator, value_serde)
        store = aggregate_store(store_name, windows, options, key_serde=key_serde, value_serde=stored_serde)
        operator = aggregate_operator(store_name, windows, aggregator, merger, emit=emit)
        parent, sources = self.name, self.sources
        if self.key_changed:
            parent = self.repartitioned(store_name, store_named=options.name is not None)
            sources = frozenset({parent})
        self.graph.add(Process(name=name, parents=(parent,), operator=operator, store=store))
        return KTable(
            self.graph,
            name,
            key_serde=table_key_serde(key_serde, windows),
            value_serde=value_serde,
            sources=sources,
            store=store_name,
        )

    def repartitioned(self, store_name: str, *, store_named: bool, again: bool = False) -> str:
        """Returns the name of the repartition node in front of an aggregation.

        Aggregations of one group share a topic that the user named; otherwise each has its own.

        Args:
            store_name: name of the aggregation's store, which an unnamed topic takes over.
            store_named: whether the user gave it.
            again: the aggregation's cogroup has its node already; only the counter moves.
        """
        given = self.options.name
        node = self.graph.repartition_node(
            self.name,
            store_name if given is None else given,
            key_serde=self.options.key_serde,
            value_serde=self.options.value_serde,
            named=given is not None or store_named,
        )
        if again:
            return node.name
        if self._repartition is None or given is None:
            self._repartition = self.graph.add(node)
        else:
            self.graph.touch(self._repartition.name)
        return self._repartition.name

    def skip_store_index(self, materialized: Materialized | None) -> None:
        """Moves the counter as a count with options does."""
        # Kafka Streams takes a number for the unnamed store of a count with options, and does not use it.
        if materialized is not None and materialized.name is None:
            self.graph.new_name(naming.STREAM_AGGREGATE)


@checks_arguments
class KGroupedStream(MethodHints):
    """A stream grouped by key. Made by :meth:`KStream.group_by` and :meth:`KStream.group_by_key`.

    Records with a null key or value are dropped and counted.
    """

    group: Group
    """The group, for the cogroups that it takes part in."""

    def __init__(
        self, graph: GraphBuilder, name: str, options: Grouped, *, sources: frozenset[str], key_changed: bool
    ) -> None:
        self.group = Group(graph, name, options, sources=sources, key_changed=key_changed)

    def count(self, materialized: Materialized | None = None, *, named: Named | str | None = None) -> KTable:
        """Counts the records of each key, as a 64-bit integer."""
        self.group.skip_store_index(materialized)
        return self.group.aggregate(CountAggregator(), None, materialized, named)

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Reduces the values of each key by ``reducer(aggregate, value)``; the first value is the first aggregate."""
        return self.group.aggregate(to_reducer(reducer), None, materialized, named)

    def aggregate(
        self,
        initializer: Callable[[], Any] | BuiltInAggregator | StructAggregator,
        adder: Callable[[Any, Any, Any], Any] | None = None,
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Aggregates the values of each key: ``initializer()``, then ``adder(key, value, aggregate)`` for each record.

        Args:
            initializer: the callable, or instead of both a built-in aggregator of ``millrace.dsl.aggregators``.
            adder: the callable.
            materialized: the store. Without a value serde, built-in aggregators take the one of their result
                (:func:`millrace.dsl.aggregation_serdes.result_serde`), callables the configuration's.
            named: name of the node.
        """
        return self.group.aggregate(to_aggregator(initializer, adder), None, materialized, named)

    def cogroup(self, adder: Callable[[Any, Any, Any], Any]) -> CogroupedKStream:
        """This stream as the first one of several that are aggregated together (KIP-150).

        Args:
            adder: ``adder(key, value, aggregate) -> aggregate`` for the records of this stream.

        Raises:
            TopologyError: the adder takes another number of arguments.
        """
        return CogroupedKStream(self.group.graph).cogroup(self, adder)

    @overload
    def windowed_by(self, windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> TimeWindowedKStream: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream: ...
    def windowed_by(self, windows: AnyWindows) -> TimeWindowedKStream | SessionWindowedKStream:
        """Groups the records by key and window.

        Raises:
            TopologyError: these are no windows.
        """
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self.group, windows)
        if not isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows):
            raise TopologyError(
                f"windowed_by() takes TimeWindows, UnlimitedWindows, SlidingWindows or SessionWindows, not {windows!r}."
            )
        return TimeWindowedKStream(self.group, windows)


@checks_arguments
class TimeWindowedKStream(MethodHints):
    """A stream grouped by key and window. Made by :meth:`KGroupedStream.windowed_by`.

    Records with a null key and late ones are dropped and counted; a null value is aggregated like any other, but by
    sliding windows dropped and counted as well.
    """

    def __init__(
        self,
        group: Group,
        windows: TimeWindows | UnlimitedWindows | SlidingWindows,
        emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE,
    ) -> None:
        self._group = group
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, emit_strategy: EmitStrategy) -> TimeWindowedKStream:
        """Sets when results are emitted (KIP-825).

        On window close each window gives one final result, once stream time is at its end and grace (of sliding
        windows beyond): by start, then key, with the headers of the record that closed it. Without newer records
        nothing is sent, whatever the clock says. Unlike Kafka Streams this never loses a window because stream time
        jumps by more than the store's retention.

        Raises:
            TopologyError: unlimited windows never close.
        """
        if emit_strategy is EmitStrategy.WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise TopologyError(
                "Unlimited windows never close, so nothing can be sent on their close.",
                remedy="use EmitStrategy.on_window_update()",
            )
        return TimeWindowedKStream(self._group, self._windows, emit_strategy)

    def count(self, materialized: Materialized | None = None, *, named: Named | str | None = None) -> KTable:
        """Counts the records of each key and window, as a 64-bit integer."""
        if not isinstance(self._windows, SlidingWindows):
            self._group.skip_store_index(materialized)
        return self._group.aggregate(CountAggregator(), self._windows, materialized, named, emit=self._emit)

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Reduces as :meth:`KGroupedStream.reduce`, for each window."""
        return self._group.aggregate(to_reducer(reducer), self._windows, materialized, named, emit=self._emit)

    def aggregate(
        self,
        initializer: Callable[[], Any] | BuiltInAggregator | StructAggregator,
        adder: Callable[[Any, Any, Any], Any] | None = None,
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Aggregates as :meth:`KGroupedStream.aggregate`, for each window."""
        aggregator = to_aggregator(initializer, adder)
        return self._group.aggregate(aggregator, self._windows, materialized, named, emit=self._emit)
