"""``GlobalKTable``: a topic that every task has wholly, for joins by any key (KIP-99)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.dsl.callables import arguments_of, check_mapper
from millrace.dsl.graph import GraphBuilder
from millrace.dsl.method_hints import MethodHints
from millrace.dsl.options import Consumed, Materialized, Named, name_of
from millrace.dsl.processing import check_supplier
from millrace.dsl.stores import key_value_store
from millrace.errors import TopologyError
from millrace.topology import naming
from millrace.topology.arguments import checks_arguments
from millrace.topology.logical import GlobalStoreInput, Process
from millrace.topology.operators import JoinKind, KeyMapper, ProcessRecords, StreamGlobalTableJoin, TableSource
from millrace.topology.processor_api import ProcessorSupplier
from millrace.topology.store_builders import StoreBuilder
from millrace.topology.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from millrace.dsl.kstream import KStream


@checks_arguments
class GlobalKTable(MethodHints):
    """A table of a whole topic in every task. Made by :meth:`StreamsBuilder.global_table`; only streams join it."""

    def __init__(self, graph: GraphBuilder, store: str) -> None:
        self._graph = graph
        self._store = store

    @property
    def queryable_store_name(self) -> str:
        """Name of the store that holds the table; it always has one."""
        return self._store


def add_global_table(
    graph: GraphBuilder, topic: str, consumed: Consumed | None, materialized: Materialized | None
) -> GlobalKTable:
    """Appends what :meth:`StreamsBuilder.global_table` stands for.

    Raises:
        TopologyError: the topic's name is not legal, or the store is versioned.
    """
    naming.check_name(topic, what="topic")
    store_options = materialized or Materialized()
    if store_options.supplier is not None:
        raise TopologyError(
            f"The global table of topic {topic!r} cannot be versioned.",
            remedy="materialize it in a store by its name; its joins see the newest rows",
        )
    options = consumed or Consumed.with_(store_options.key_serde, store_options.value_serde)
    store_name = graph.new_store_name(f"{topic}-", store_options.name)
    suffixed = None if options.name is None else options.name + naming.TABLE_SOURCE_SUFFIX
    source_name = graph.new_name(naming.STREAM_SOURCE, suffixed)
    name = graph.new_name(naming.TABLE_SOURCE, options.name)
    store = key_value_store(
        store_name,
        store_options.with_logging_disabled(),
        key_serde=options.key_serde,
        value_serde=options.value_serde,
    )
    graph.add(
        GlobalStoreInput(
            name=name,
            source_name=source_name,
            topic=topic,
            store=store,
            operator=TableSource(store_name),
            key_serde=options.key_serde,
            value_serde=options.value_serde,
            timestamp_extractor=options.timestamp_extractor,
        )
    )
    return GlobalKTable(graph, store_name)


def add_global_store(
    graph: GraphBuilder, builder: StoreBuilder, topic: str, consumed: Consumed, supplier: ProcessorSupplier
) -> None:
    """Appends what :meth:`StreamsBuilder.add_global_store` stands for.

    Raises:
        TopologyError: the topic's name is not legal, the supplier gives the same processor twice, or the store is no
            key-value store.
    """
    naming.check_name(topic, what="topic")
    check_supplier(supplier, what="state update supplier")
    suffixed = None if consumed.name is None else consumed.name + naming.TABLE_SOURCE_SUFFIX
    source_name = graph.new_name(naming.STREAM_SOURCE, suffixed)
    graph.add(
        GlobalStoreInput(
            name=graph.new_name(naming.TABLE_SOURCE, consumed.name),
            source_name=source_name,
            topic=topic,
            store=global_store_spec(builder),
            operator=ProcessRecords(supplier),
            key_serde=consumed.key_serde,
            value_serde=consumed.value_serde,
            timestamp_extractor=consumed.timestamp_extractor,
        )
    )


def global_store_spec(builder: StoreBuilder) -> StoreSpec:
    """Returns the store of a global topic, which is never logged.

    Raises:
        TopologyError: it is no key-value store.
    """
    spec = builder.with_logging_disabled().spec
    if spec.kind is not StoreKind.KEY_VALUE:
        raise TopologyError(
            f"The global store {spec.name!r} is a {spec.kind} store.", remedy="make it a key-value store"
        )
    return spec


def join_global_table(
    stream: KStream,
    table: GlobalKTable,
    key_selector: KeyMapper,
    joiner: Callable[..., Any],
    *,
    kind: JoinKind,
    named: Named | str | None = None,
    joiner_takes_key: bool | None = None,
    joiner_takes_selected_key: bool | None = None,
) -> KStream:
    """Appends what ``KStream.join`` and ``left_join`` with a global table stand for.

    Raises:
        TopologyError: the joiner does not fit, or stream and table are of different builders.
    """
    from millrace.dsl.kstream import KStream

    check_mapper(key_selector, what="key selector")
    choices = {2: "value, table_value", 3: "key, value, table_value", 4: "key, selected_key, value, table_value"}
    if joiner_takes_selected_key:
        choices = {4: choices[4]}
    elif joiner_takes_key:
        choices = {3: choices[3]}
    else:
        refused = {3: joiner_takes_key is False, 4: joiner_takes_selected_key is False}
        choices = {number: names for number, names in choices.items() if not refused.get(number)}
    taken = arguments_of(joiner, choices, undecided=min(choices), what="joiner")
    stream._check_same_builder(table._graph)
    # Kafka Streams takes this prefix for inner joins as well.
    name = stream._graph.new_name(naming.STREAM_LEFT_JOIN, name_of(named))
    stream._graph.add(
        Process(
            name=name,
            parents=(stream._name,),
            operator=StreamGlobalTableJoin(
                store=table._store,
                kind=kind,
                key_selector=key_selector,
                joiner=joiner,
                joiner_takes_key=taken == 3,
                joiner_takes_selected_key=taken == 4,
            ),
            keeps_null_keys=kind is JoinKind.LEFT,
        )
    )
    return KStream(
        stream._graph,
        name,
        key_serde=stream._key_serde,
        value_serde=None,
        sources=stream._sources,
        key_changed=stream._key_changed,
    )
