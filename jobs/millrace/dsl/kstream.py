"""``KStream``: a stream of records, each a fact of its own.

Callables get ``(key, value)``; value mappers and joiners may leave the key out (``millrace.topology.arity`` says how
that is decided). Where an operator takes a pyarrow expression, fields of a struct value are referred to by name
(``pc.field("amount") > 100``); see ``millrace.topology.expression_fields``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from millrace.dsl.callables import check_callable, check_mapper, mapper_of, value_mapper_of
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.method_hints import EndOfStream, MethodHints
from millrace.dsl.options import Grouped, Joined, Materialized, Named, Produced, Repartitioned, name_of
from millrace.dsl.output_topics import output_topic
from millrace.dsl.printed import Printed, PrintRecord
from millrace.dsl.processing import check_supplier, connected_stores
from millrace.dsl.stores import key_value_store
from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.topology import naming
from millrace.topology.arguments import checks_arguments
from millrace.topology.logical import Output, Process, Repartition, StreamInput
from millrace.topology.operators import (
    Filter,
    FlatMap,
    FlatMapValues,
    JoinKind,
    KeyMapper,
    Map,
    MapValues,
    Operator,
    PairMapper,
    PassThrough,
    Peek,
    Predicate,
    ProcessRecords,
    SelectKey,
    TableSource,
    ValueMapper,
)
from millrace.topology.processor_api import FixedKeyProcessorSupplier, ProcessorSupplier
from millrace.topology.topic_extractors import TopicNameExtractor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from millrace.dsl.branched import BranchedKStream
    from millrace.dsl.global_ktable import GlobalKTable
    from millrace.dsl.grouped import KGroupedStream
    from millrace.dsl.ktable import KTable
    from millrace.dsl.stream_joined import StreamJoined
    from millrace.topology.windows import JoinWindows

_UNCHANGED: Any = object()


@checks_arguments
class KStream(MethodHints):
    """A stream of records. Made by :meth:`StreamsBuilder.stream` and by its own methods."""

    def __init__(
        self,
        graph: GraphBuilder,
        name: str,
        *,
        key_serde: Serde | None,
        value_serde: Serde | None,
        sources: frozenset[str],
        key_changed: bool,
    ) -> None:
        self._graph = graph
        self._name = name
        self._key_serde = key_serde
        self._value_serde = value_serde
        self._sources = sources
        self._key_changed = key_changed
        self._join_repartition: Repartition | None = None

    def filter(self, predicate: Predicate, *, named: Named | str | None = None) -> KStream:
        """Keeps the records for which ``predicate`` is true: a callable ``(key, value)`` or an expression.

        Null is false.
        """
        check_mapper(predicate, what="predicate")
        return self._then(naming.STREAM_FILTER, named, Filter(predicate))

    def filter_not(self, predicate: Predicate, *, named: Named | str | None = None) -> KStream:
        """Keeps the records for which ``predicate`` is not true."""
        check_mapper(predicate, what="predicate")
        return self._then(naming.STREAM_FILTER, named, Filter(predicate, negated=True))

    def map(self, mapper: PairMapper, *, named: Named | str | None = None) -> KStream:
        """Replaces each record by the pair ``(key, value)`` that ``mapper(key, value)`` returns. May change the key."""
        check_callable(mapper, 2, what="mapper", takes="key, value")
        return self._then(naming.STREAM_MAP, named, Map(mapper), key_serde=None, value_serde=None, changes_key=True)

    def map_values(self, mapper: ValueMapper, *, named: Named | str | None = None) -> KStream:
        """Replaces the value of each record by what ``mapper`` gives: an expression, ``(value)`` or ``(key, value)``.

        Args:
            mapper: an expression, or a callable, whose parameters say whether it gets the key.
            named: name of the node.

        Raises:
            TopologyError: it is neither an expression nor callable with one or two arguments.
        """
        operator = MapValues(mapper_of(mapper, what="value mapper"))
        return self._then(naming.STREAM_MAP_VALUES, named, operator, value_serde=None, changes_value=True)

    def flat_map(self, mapper: Callable[[Any, Any], Any], *, named: Named | str | None = None) -> KStream:
        """Replaces each record by the pairs ``(key, value)`` that ``mapper(key, value)`` returns.

        May change the key.
        """
        check_callable(mapper, 2, what="mapper", takes="key, value")
        return self._then(
            naming.STREAM_FLAT_MAP, named, FlatMap(mapper), key_serde=None, value_serde=None, changes_key=True
        )

    def flat_map_values(
        self, mapper: Callable[[Any], Any] | Callable[[Any, Any], Any], *, named: Named | str | None = None
    ) -> KStream:
        """Replaces each record by one for each value of ``mapper(value)`` or ``mapper(key, value)``, under its key."""
        operator = FlatMapValues(value_mapper_of(mapper, what="value mapper"))
        return self._then(naming.STREAM_FLAT_MAP_VALUES, named, operator, value_serde=None, changes_value=True)

    def select_key(self, mapper: KeyMapper, *, named: Named | str | None = None) -> KStream:
        """Replaces the key of each record by what ``mapper`` gives: a callable ``(key, value)`` or an expression."""
        check_mapper(mapper, what="key mapper")
        return self._then(naming.STREAM_SELECT_KEY, named, SelectKey(mapper), key_serde=None, changes_key=True)

    def peek(self, action: Callable[[Any, Any], Any], *, named: Named | str | None = None) -> KStream:
        """Calls ``action(key, value)`` for each record, again when a batch is repeated, and forwards it unchanged."""
        check_callable(action, 2, what="action", takes="key, value")
        return self._then(naming.STREAM_PEEK, named, Peek(action))

    def foreach(self, action: Callable[[Any, Any], Any], *, named: Named | str | None = None) -> EndOfStream:
        """Ends the stream in ``action(key, value)``, which is called again when a batch is repeated."""
        check_callable(action, 2, what="action", takes="key, value")
        self._then(naming.STREAM_FOREACH, named, Peek(action, forwards=False))
        return EndOfStream("foreach(...)", self._name)

    def print(self, printed: Printed | None = None) -> EndOfStream:
        """Ends the stream in lines ``[label]: key, value`` on the standard output or in a file: to look at it.

        Args:
            printed: where, and how a record is written. Lines are written again when a batch is repeated.
        """
        options = printed or Printed()
        action = PrintRecord(self._name if options.label is None else options.label, options.path, options.mapper)
        self._then(naming.STREAM_PRINT, options.name, Peek(action, forwards=False))
        return EndOfStream("print(...)", self._name)

    def process(
        self, supplier: ProcessorSupplier, *state_store_names: str, named: Named | str | None = None
    ) -> KStream:
        """Processes the records by a processor of your own (KIP-820), which may change the key.

        Args:
            supplier: gives a new :class:`~millrace.topology.processor_api.Processor` at each call, for example its
                class. It is sent to the workers, so it must be picklable. Stores that it brings (``stores()``) are
                added and connected.
            state_store_names: names of stores to connect: those added to the builder, and those of named tables.
            named: name of the node.

        Raises:
            TopologyError: the supplier gives the same processor twice.
        """
        check_supplier(supplier, what="processor supplier")
        # As in Kafka Streams a name that is given leaves the counter alone.
        name = name_of(named) or self._graph.new_name(naming.STREAM_PROCESSOR)
        return self._processed(name, ProcessRecords(supplier), state_store_names)

    def process_values(
        self, supplier: FixedKeyProcessorSupplier, *state_store_names: str, named: Named | str | None = None
    ) -> KStream:
        """Processes the records as :meth:`process`, but the keys stay, so that nothing is repartitioned behind it.

        Args:
            supplier: gives a new :class:`~millrace.topology.processor_api.FixedKeyProcessor` at each call.
            state_store_names: as in :meth:`process`.
            named: name of the node.

        Raises:
            TopologyError: the supplier gives the same processor twice.
        """
        check_supplier(supplier, what="fixed-key processor supplier")
        # As in Kafka Streams a name that is given leaves the counter alone.
        name = name_of(named) or self._graph.new_name(naming.STREAM_PROCESS_VALUES)
        return self._processed(name, ProcessRecords(supplier, fixed_key=True), state_store_names)

    def _processed(self, name: str, operator: ProcessRecords, state_store_names: tuple[str, ...]) -> KStream:
        self._graph.add(
            Process(
                name=name,
                parents=(self._name,),
                operator=operator,
                reads=connected_stores(self._graph, operator.supplier, state_store_names),
                changes_key=not operator.fixed_key,
                changes_value=True,
            )
        )
        return KStream(
            self._graph,
            name,
            key_serde=self._key_serde if operator.fixed_key else None,
            value_serde=None,
            sources=self._sources,
            key_changed=self._key_changed or not operator.fixed_key,
        )

    def split(self, *, named: Named | str | None = None) -> BranchedKStream:
        """Sends each record to the first branch whose predicate is true; see :class:`BranchedKStream`."""
        from millrace.dsl.branched import BranchedKStream

        return BranchedKStream(self, name_of(named))

    def merge(self, other: KStream, *, named: Named | str | None = None) -> KStream:
        """Merges the records of both streams. The order between them is that of their tasks, not defined otherwise.

        Serdes are dropped, as the streams' may differ: name them where the result is written or grouped.
        """
        name = self._graph.new_name(naming.STREAM_MERGE, name_of(named))
        self._check_same_builder(other._graph)
        parents = tuple(dict.fromkeys((self._name, other._name)))
        self._graph.add(Process(name=name, parents=parents, operator=PassThrough(), merges=True))
        return KStream(
            self._graph,
            name,
            key_serde=None,
            value_serde=None,
            sources=self._sources | other._sources,
            key_changed=self._key_changed or other._key_changed,
        )

    def repartition(self, repartitioned: Repartitioned | None = None) -> KStream:
        """Sends the stream through a repartition topic and reads it back."""
        options = repartitioned or Repartitioned()
        given = options.name
        prefix = given if given is not None else self._graph.new_name(naming.STREAM_REPARTITION)
        key_serde = options.key_serde or self._key_serde
        value_serde = options.value_serde or self._value_serde
        node = self._graph.repartition_node(
            self._name,
            prefix,
            key_serde=key_serde,
            value_serde=value_serde,
            named=given is not None,
            mergeable=False,
        )
        self._graph.add(replace(node, partitions=options.number_of_partitions, partitioner=options.stream_partitioner))
        return self._behind(node)

    def to(self, topic: str | TopicNameExtractor, produced: Produced | None = None) -> EndOfStream:
        """Writes the stream to ``topic``, or each record to the topic that is chosen for it (KIP-303).

        Args:
            topic: the topic's name; or a callable ``(key, value, context) -> name``, whose context is a
                :class:`~millrace.topology.topic_extractors.RecordContext`; or a pyarrow expression. Topics must exist.
                A record for one that does not is left to the production exception handler, and stops the application
                unless that resumes.
            produced: name, serdes and partitioner.

        Raises:
            TopologyError: the topic's name is not legal, or the callable does not take these arguments.
        """
        options = produced or Produced()
        fixed, extractor = output_topic(topic)
        self._graph.add(
            Output(
                name=self._graph.new_name(naming.STREAM_SINK, options.name),
                parents=(self._name,),
                topic=fixed,
                key_serde=options.key_serde or self._key_serde,
                value_serde=options.value_serde or self._value_serde,
                partitioner=options.stream_partitioner,
                extractor=extractor,
            )
        )
        return EndOfStream("to(...)" if fixed is None else f"to({fixed!r})", self._name)

    def to_table(self, materialized: Materialized | None = None, *, named: Named | str | None = None) -> KTable:
        """Reads the stream as changes of a table: the latest value of each key; a null value deletes."""
        from millrace.dsl.ktable import KTable

        options = materialized or Materialized()
        given = name_of(named)
        name = self._graph.new_name(naming.STREAM_TO_TABLE, given)
        store_name = self._graph.new_store_name(naming.STREAM_TO_TABLE, options.name)
        key_serde = options.key_serde or self._key_serde
        value_serde = options.value_serde or self._value_serde
        parent, sources = self._name, self._sources
        if self._key_changed:
            repartition = self._graph.repartition_node(
                self._name, name, key_serde=key_serde, value_serde=value_serde, named=given is not None
            )
            self._graph.add(repartition)
            parent, sources = repartition.name, frozenset({repartition.name})
        store = key_value_store(store_name, options, key_serde=key_serde, value_serde=value_serde)
        self._graph.add(
            Process(
                name=name,
                parents=(parent,),
                operator=TableSource(store_name),
                store=store,
                store_optional=options.name is None,
            )
        )
        return KTable(
            self._graph, name, key_serde=key_serde, value_serde=value_serde, sources=sources, store=store_name
        )

    def group_by(self, mapper: KeyMapper, grouped: Grouped | None = None) -> KGroupedStream:
        """Groups the records by the key that ``mapper`` gives, through a repartition topic."""
        from millrace.dsl.grouped import KGroupedStream

        options = grouped or Grouped(value_serde=self._value_serde)
        check_mapper(mapper, what="key mapper")
        name = self._graph.new_name(naming.STREAM_SELECT_KEY, options.name)
        self._graph.add(Process(name=name, parents=(self._name,), operator=SelectKey(mapper), changes_key=True))
        return KGroupedStream(self._graph, name, options, sources=self._sources, key_changed=True)

    def group_by_key(self, grouped: Grouped | None = None) -> KGroupedStream:
        """Groups the records by their key; through a repartition topic only if the key may have changed."""
        from millrace.dsl.grouped import KGroupedStream

        options = grouped or Grouped(key_serde=self._key_serde, value_serde=self._value_serde)
        return KGroupedStream(self._graph, self._name, options, sources=self._sources, key_changed=self._key_changed)

    @overload
    def join(
        self,
        other: KStream,
        joiner: Callable[..., Any],
        windows: JoinWindows,
        stream_joined: StreamJoined | None = None,
        *,
        joiner_takes_key: bool | None = None,
    ) -> KStream: ...

    @overload
    def join(
        self,
        table: KTable,
        joiner: Callable[..., Any],
        joined: Joined | None = None,
        *,
        joiner_takes_key: bool | None = None,
    ) -> KStream: ...

    @overload
    def join(
        self,
        global_table: GlobalKTable,
        key_selector: KeyMapper,
        joiner: Callable[..., Any],
        *,
        named: Named | str | None = None,
        joiner_takes_key: bool | None = None,
        joiner_takes_selected_key: bool | None = None,
    ) -> KStream: ...

    def join(self, *arguments: Any, **options: Any) -> KStream:
        """With a table: each record whose key it holds. With a stream: each pair of records near enough in time.

        Two streams: records of one key, not further apart than ``windows`` says, give ``joiner(value, other value)``
        at the later one's timestamp. Nothing is dropped for being late: a record finds the partners of the other
        stream whose timestamp is above that stream's largest minus the window's size and grace. Null values, and here
        null keys, are dropped and counted.

        With a global table: each record with the row whose key the selector names; the record keeps its own key. The
        joiner is ``(value, row's value)``, ``(key, value, row's value)`` or ``(key, selected key, value, row's
        value)``. The row is that of the moment, not that of the record's time. Null values and null selected keys are
        dropped and counted (KIP-99).

        Args:
            other: a stream of the same builder, whose inputs need as many partitions as this stream's.
            table: a table, of which the same holds.
            global_table: a global table of the same builder; its topic may have any number of partitions.
            joiner: ``(value, other value)`` or ``(key, value, other value)``, as its parameters say.
            windows: how far apart the records of two streams may be.
            stream_joined: names, serdes and stores of a join of two streams.
            joined: name and serdes of a join with a table.
            key_selector: gives the key of the global table's row, a callable ``(key, value)`` or an expression.
            named: name of the node of a join with a global table.
            joiner_takes_key: whether the joiner gets the key, whatever its parameters; ``None`` leaves it to them.
            joiner_takes_selected_key: the same for both keys and the joiner of a global table.

        Raises:
            ArgumentError: the arguments are those of another of the three joins.
            TopologyError: the joiner does not fit, or the builders differ.
        """
        return self._joined(JoinKind.INNER, *arguments, **options)

    @overload
    def left_join(
        self,
        other: KStream,
        joiner: Callable[..., Any],
        windows: JoinWindows,
        stream_joined: StreamJoined | None = None,
        *,
        joiner_takes_key: bool | None = None,
    ) -> KStream: ...

    @overload
    def left_join(
        self,
        table: KTable,
        joiner: Callable[..., Any],
        joined: Joined | None = None,
        *,
        joiner_takes_key: bool | None = None,
    ) -> KStream: ...

    @overload
    def left_join(
        self,
        global_table: GlobalKTable,
        key_selector: KeyMapper,
        joiner: Callable[..., Any],
        *,
        named: Named | str | None = None,
        joiner_takes_key: bool | None = None,
        joiner_takes_selected_key: bool | None = None,
    ) -> KStream: ...

    def left_join(self, *arguments: Any, **options: Any) -> KStream:
        """As :meth:`join`; a record without a partner is joined with ``None``.

        With a stream that result comes at the record's timestamp once a later record shows that the window and its
        grace are over, or at once for a record whose window has passed already; a partner may still follow then. A
        null key gives it at once. With a global table a null selected key has no partner.
        """
        return self._joined(JoinKind.LEFT, *arguments, **options)

    def outer_join(
        self,
        other: KStream,
        joiner: Callable[..., Any],
        windows: JoinWindows,
        stream_joined: StreamJoined | None = None,
        *,
        joiner_takes_key: bool | None = None,
    ) -> KStream:
        """As :meth:`left_join` of two streams; the other stream's records without a partner give a result as well."""
        return self._joined(JoinKind.OUTER, other, joiner, windows, stream_joined, joiner_takes_key=joiner_takes_key)

    def transform_frame(self, function: Callable[[DataFrame], DataFrame]) -> KStream:
        """Runs ``function`` on the Spark ``DataFrame`` of the source, in Spark's plan, before the task sees its rows.

        Only narrow functions are allowed (no shuffle, no aggregation): rows must stay in their partitions. The whole
        application then runs in micro-batches, whose results come later than those of stream threads. Not in Kafka
        Streams.

        Raises:
            TopologyError: the stream is not a source, or something already hangs on it.
        """
        check_callable(function, 1, what="frame function", takes="frame")
        source = self._graph.node(self._name)
        if not isinstance(source, StreamInput) or self._graph.has_children(self._name):
            raise TopologyError(
                f"transform_frame() cannot be applied at {self._name!r}.",
                remedy="call it directly on what StreamsBuilder.stream() returns, before any other operator",
            )
        self._graph.replace(replace(source, frame_functions=(*source.frame_functions, function)))
        return self

    def _then(
        self,
        prefix: str,
        named: Named | str | None,
        operator: Operator,
        *,
        key_serde: Serde | None = _UNCHANGED,
        value_serde: Serde | None = _UNCHANGED,
        changes_key: bool = False,
        changes_value: bool = False,
    ) -> KStream:
        name = self._graph.new_name(prefix, name_of(named))
        self._graph.add(
            Process(
                name=name,
                parents=(self._name,),
                operator=operator,
                changes_key=changes_key,
                changes_value=changes_value,
            )
        )
        return KStream(
            self._graph,
            name,
            key_serde=self._key_serde if key_serde is _UNCHANGED else key_serde,
            value_serde=self._value_serde if value_serde is _UNCHANGED else value_serde,
            sources=self._sources,
            key_changed=self._key_changed or changes_key,
        )

    def _behind(self, repartition: Repartition) -> KStream:
        return KStream(
            self._graph,
            repartition.name,
            key_serde=repartition.key_serde,
            value_serde=repartition.value_serde,
            sources=frozenset({repartition.name}),
            key_changed=False,
        )

    def _joined(
        self, kind: JoinKind, other: KStream | KTable | GlobalKTable, *arguments: Any, **options: Any
    ) -> KStream:
        """The join that the other side's type stands for; its arguments are checked by the overloads."""
        from millrace.dsl.global_ktable import GlobalKTable, join_global_table
        from millrace.dsl.stream_joins import join_streams
        from millrace.dsl.table_joins import join_table

        if isinstance(other, GlobalKTable):
            return join_global_table(self, other, *arguments, kind=kind, **options)
        if isinstance(other, KStream):
            return join_streams(self, other, *arguments, kind=kind, **options)
        return join_table(self, other, *arguments, kind=kind, **options)

    def _check_same_builder(self, other: GraphBuilder) -> None:
        if other is not self._graph:
            raise TopologyError("Streams and tables of different StreamsBuilders cannot be combined.")
