"""``SessionWindowedKStream``: aggregations of a stream grouped by key and session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.dsl.aggregation import to_aggregator, to_reducer
from millrace.dsl.callables import check_callable
from millrace.dsl.ktable import KTable
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import Materialized, Named
from millrace.dsl.windowing import Merger
from millrace.errors import TopologyError
from millrace.topology.aggregators import BuiltInAggregator, CallableAggregator, CountAggregator, StructAggregator
from millrace.topology.arguments import checks_arguments
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.session_windows import SessionWindows

if TYPE_CHECKING:
    from millrace.dsl.grouped import Group


@checks_arguments
class SessionWindowedKStream(MethodHints):
    """A stream grouped by key and session. Made by :meth:`KGroupedStream.windowed_by`.

    The keys of its tables are :class:`~millrace.serdes.Windowed` with the timestamps of a session's first and last
    record, and so is each result's timestamp that of the last. A session that another record makes longer, or that is
    merged with another one, gets a tombstone first. Records with a null key and late ones are dropped and counted; a
    null value is aggregated like any other.
    """

    def __init__(self, group: Group, windows: SessionWindows, emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE) -> None:
        self._group = group
        self._windows = windows
        self._emit = emit

    def emit_strategy(self, emit_strategy: EmitStrategy) -> SessionWindowedKStream:
        """Sets when results are emitted (KIP-825).

        On window close each session gives one final result, once stream time is beyond its end, the inactivity gap and
        the grace: by end, then start, then key, with the headers of the record that closed it, and without tombstones
        before. As in Kafka Streams a record that is not late may join a session that has closed already, if it lies
        within the gap; the longer session is sent as well then.
        """
        return SessionWindowedKStream(self._group, self._windows, emit_strategy)

    def count(self, materialized: Materialized | None = None, *, named: Named | str | None = None) -> KTable:
        """Counts the records of each session, as a 64-bit integer."""
        self._group.skip_store_index(materialized)
        return self._group.aggregate(CountAggregator(), self._windows, materialized, named, emit=self._emit)

    def reduce(
        self,
        reducer: Callable[[Any, Any], Any],
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Reduces the values of each session by ``reducer(aggregate, value)``.

        It also merges the aggregates of sessions that become one.
        """
        return self._group.aggregate(to_reducer(reducer), self._windows, materialized, named, emit=self._emit)

    def aggregate(
        self,
        initializer: Callable[[], Any] | BuiltInAggregator | StructAggregator,
        adder: Callable[[Any, Any, Any], Any] | None = None,
        merger: Merger | None = None,
        materialized: Materialized | None = None,
        *,
        named: Named | str | None = None,
    ) -> KTable:
        """Aggregates the values of each session: ``initializer()``, the sessions that become one, then the record.

        Args:
            initializer: the callable, or instead of all three a built-in aggregator of ``millrace.dsl.aggregators``.
            adder: ``adder(key, value, aggregate) -> aggregate``.
            merger: ``merger(key, aggregate, session's aggregate) -> aggregate``, called for each session that a record
                joins, the one with the oldest end first, before the adder.
            materialized: the store; its serdes as for :meth:`KGroupedStream.aggregate`.
            named: name of the node.

        Raises:
            TopologyError: a callable is missing or takes another number of arguments.
        """
        aggregator = to_aggregator(initializer, adder)
        if isinstance(aggregator, CallableAggregator):
            check_callable(merger, 3, what="merger", takes="key, aggregate, other")
        elif merger is not None:
            raise TopologyError("A built-in aggregator takes no merger.", remedy="pass either of them")
        return self._group.aggregate(aggregator, self._windows, materialized, named, merger=merger, emit=self._emit)
