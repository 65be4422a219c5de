"""``CogroupedKStream``: several grouped streams that are aggregated into one table (KIP-150)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from millrace.dsl.callables import check_callable
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.ktable import KTable
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import Materialized, Named, name_of
from millrace.dsl.windowing import AnyWindows, Merger, aggregate_operator, aggregate_store, table_key_serde
from millrace.errors import TopologyError
from millrace.topology import naming
from millrace.topology.aggregators import CallableAggregator
from millrace.topology.arguments import checks_arguments
from millrace.topology.logical import Process
from millrace.topology.operators import (
    CogroupAggregate,
    CogroupMerge,
    SessionAggregate,
    SlidingAggregate,
    StreamAggregate,
    WindowedAggregate,
)
from millrace.topology.session_windows import SessionWindows
from millrace.topology.sliding_windows import SlidingWindows
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.windows import TimeWindows

if TYPE_CHECKING:
    from millrace.dsl.grouped import Group, KGroupedStream

Adder = Callable[[Any, Any, Any], Any]
"""``(key, value, aggregate) -> aggregate``."""


class Cogroup:
    """The inputs of one cogroup, and what its aggregations share."""

    def __init__(self, graph: GraphBuilder) -> None:
        self._graph = graph
        self._inputs: dict[Group, Adder] = {}
        self._repartitions: dict[Group, str] = {}

    def add(self, group: Group, adder: Adder) -> None:
        """Adds an input, or gives the one that is there another adder."""
        check_callable(adder, 3, what="adder", takes="key, value, aggregate")
        if group.graph is not self._graph:
            raise TopologyError("Streams and tables of different StreamsBuilders cannot be combined.")
        self._inputs[group] = adder

    def aggregate(
        self,
        initializer: Callable[[], Any],
        windows: AnyWindows | None,
        materialized: Materialized | None,
        named: Named | str | None,
        *,
        merger: Merger | None = None,
    ) -> KTable:
        """Appends an aggregation of all inputs and what it needs in front of it.

        Raises:
            TopologyError: a name is taken, two inputs would share a repartition topic, or the retention is shorter
                than the windows need.
        """
        check_callable(initializer, 0, what="initializer", takes="")
        options, given = materialized or Materialized(), name_of(named)
        store_name = self._graph.new_store_name(naming.COGROUP_AGGREGATE, options.name)
        key_serde = options.key_serde or next(
            (group.options.key_serde for group in self._inputs if group.options.key_serde is not None), None
        )
        store = aggregate_store(store_name, windows, options, key_serde=key_serde, value_serde=options.value_serde)
        parents = self._parents(store_name, store_named=options.name is not None)
        names = [
            self._graph.new_name(naming.COGROUP_AGGREGATE, given and f"{given}-cogroup-agg-{index}")
            for index in range(len(parents))
        ]
        name = self._graph.new_name(naming.COGROUP_MERGE, given and f"{given}-cogroup-merge")
        for index, adder in enumerate(self._inputs.values()):
            operator = aggregate_operator(store_name, windows, CallableAggregator(initializer, adder), merger)
            assert isinstance(operator, StreamAggregate | WindowedAggregate | SlidingAggregate | SessionAggregate)
            self._graph.add(
                Process(
                    name=names[index],
                    parents=(parents[index],),
                    operator=CogroupAggregate(name, index, operator),
                    store=store if index == 0 else None,
                    reads=() if index == 0 else (store_name,),
                )
            )
        self._graph.add(Process(name=name, parents=tuple(names), operator=CogroupMerge(store_name)))
        return KTable(
            self._graph,
            name,
            key_serde=table_key_serde(key_serde, windows),
            value_serde=options.value_serde,
            sources=self._sources(),
            store=store_name,
        )

    def _parents(self, store: str, *, store_named: bool) -> list[str]:
        """The node behind which each input is aggregated: its own, or that of its repartition topic."""
        unnamed = [group.name for group in self._inputs if group.key_changed and group.options.name is None]
        if len(unnamed) > 1:
            raise TopologyError(
                f"The inputs {', '.join(unnamed)} of a cogroup go through repartition topics, which would all be named "
                f"{naming.repartition_topic_name(store)!r}.",
                remedy="name them in their Grouped; one of them may go without a name",
            )
        for group in self._inputs:
            if group.key_changed:
                made = group.repartitioned(store, store_named=store_named, again=group in self._repartitions)
                self._repartitions.setdefault(group, made)
        self._graph.co_partition(self._sources())
        return [self._repartitions.get(group, group.name) for group in self._inputs]

    def _sources(self) -> frozenset[str]:
        return frozenset[str]().union(
            *(
                frozenset({self._repartitions[group]}) if group in self._repartitions else group.sources
                for group in self._inputs
            )
        )


@checks_arguments
class CogroupedKStream(MethodHints):
    """Grouped streams whose records are aggregated together. Made by :meth:`KGroupedStream.cogroup`.

    Their records are taken in their common order. Keys must be of one type, values need not be: each stream has its
    own adder. The streams have the same number of partitions.
    """

    def __init__(self, graph: GraphBuilder) -> None:
        self._cogroup = Cogroup(graph)

    def cogroup(self, grouped: KGroupedStream, adder: Adder) -> CogroupedKStream:
        """This one, with one more stream.

        Args:
            grouped: the stream; one that is there already gets the other adder and keeps its position.
            adder: ``adder(key, value, aggregate) -> aggregate`` for its records.

        Raises:
            TopologyError: the adder takes another number of arguments, or the stream is of another builder.
        """
        self._cogroup.add(grouped.group, adder)
        return self

    def aggregate(
        self,
        initializer: Callable[[], Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Aggregates the records of all streams by key; those with a null key or value are dropped.

        Args:
            initializer: ``initializer() -> aggregate`` of nothing.
            materialized: the store. Without a key serde it takes the first that one of the streams was grouped with,
                without a value serde the configuration's.
            named: beginning of the nodes' names: ``<name>-cogroup-agg-<index>`` of the streams in their order and
                ``<name>-cogroup-merge``.

        Raises:
            TopologyError: a name is taken, or the keys of several streams were changed and their ``Grouped`` have no
                names for the repartition topics.
        """
        return self._cogroup.aggregate(initializer, None, materialized, named)

    @overload
    def windowed_by(self, windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> TimeWindowedCogroupedKStream: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream: ...
    def windowed_by(self, windows: AnyWindows) -> TimeWindowedCogroupedKStream | SessionWindowedCogroupedKStream:
        """Groups the records by key and window.

        Raises:
            TopologyError: these are no windows.
        """
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._cogroup, windows)
        if not isinstance(windows, TimeWindows | UnlimitedWindows | SlidingWindows):
            raise TopologyError(
                f"windowed_by() takes TimeWindows, UnlimitedWindows, SlidingWindows or SessionWindows, not {windows!r}."
            )
        return TimeWindowedCogroupedKStream(self._cogroup, windows)


@checks_arguments
class TimeWindowedCogroupedKStream(MethodHints):
    """Cogrouped streams by key and window. Made by :meth:`CogroupedKStream.windowed_by`.

    A record is late by the stream time of its own stream only. Null keys and values are treated as by
    :class:`TimeWindowedKStream`.
    """

    def __init__(self, cogroup: Cogroup, windows: TimeWindows | UnlimitedWindows | SlidingWindows) -> None:
        self._cogroup = cogroup
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Aggregates as :meth:`CogroupedKStream.aggregate`, for each window."""
        return self._cogroup.aggregate(initializer, self._windows, materialized, named)


@checks_arguments
class SessionWindowedCogroupedKStream(MethodHints):
    """Cogrouped streams by key and session. Made by :meth:`CogroupedKStream.windowed_by`.

    A session is made of the records of all streams; a record is late by the stream time of its own stream only.
    Null keys and values are treated as by :class:`SessionWindowedKStream`.
    """

    def __init__(self, cogroup: Cogroup, windows: SessionWindows) -> None:
        self._cogroup = cogroup
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], Any],
        merger: Merger,
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Aggregates as :meth:`CogroupedKStream.aggregate`, for each session.

        Args:
            initializer: as there; the same for ``materialized`` and ``named``.
            merger: ``merger(key, aggregate, session's aggregate) -> aggregate``, called for each session that a record
                joins, the one with the oldest end first, before the adder.
        """
        check_callable(merger, 3, what="merger", takes="key, aggregate, other")
        return self._cogroup.aggregate(initializer, self._windows, materialized, named, merger=merger)
