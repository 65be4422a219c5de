"""Joins of two tables by a foreign key: what the DSL appends for one (KIP-213)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.dsl.callables import mapper_of, table_joiner_of
from millrace.dsl.options import Materialized
from millrace.dsl.stores import key_value_store
from millrace.dsl.table_joined import TableJoined
from millrace.errors import TopologyError
from millrace.serdes import Serde
from millrace.serdes.subscriptions import CombinedKeySerde, ResponseSerde, SubscriptionSerde
from millrace.topology import naming
from millrace.topology.foreign_key_join import (
    ForeignTableJoin,
    PartitionedAsPrimary,
    PartitionedByKey,
    ResponseJoin,
    SubscribeAgain,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from millrace.topology.logical import ForeignKeyTopic, Process
from millrace.topology.operators import TableSource
from millrace.topology.stores import StoreKind, StoreSpec

if TYPE_CHECKING:
    from millrace.dsl.ktable import KTable


def join_on_foreign_key(
    this: KTable,
    other: KTable,
    extractor: Any,
    joiner: Callable[..., Any],
    *,
    left_join: bool,
    options: TableJoined | None,
    materialized: Materialized | None,
) -> KTable:
    """Joins ``this`` with the rows of ``other`` whose keys its own rows name.

    Raises:
        TopologyError: the extractor or joiner does not fit, the tables are of different builders, or a name is used
            twice.
    """
    by_values = table_joiner_of(joiner)
    if other._graph is not this._graph:
        raise TopologyError("Streams and tables of different StreamsBuilders cannot be combined.")
    joined, result_options, graph = options or TableJoined(), materialized or Materialized(), this._graph
    partitioners = [
        None if user is None else PartitionedByKey(user) for user in (joined.other_partitioner, joined.partitioner)
    ]

    def new_name(prefix: str, suffix: str) -> str:
        return graph.new_name(prefix, None if joined.name is None else joined.name + suffix)

    # Kafka Streams draws the numbers in this order.
    topic = new_name(naming.FOREIGN_KEY_JOIN_SUBSCRIPTION, "-subscription-registration")
    send = new_name(naming.FOREIGN_KEY_JOIN_SUBSCRIPTION, "-subscription-registration-processor")
    sink = new_name(naming.TABLE_SINK, "-subscription-registration-sink")
    source = new_name(naming.TABLE_SOURCE, "-subscription-registration-source")
    store = _subscription_store(this, other, new_name(naming.FOREIGN_KEY_JOIN_STORE, "-subscription-store"))
    receive = new_name(naming.FOREIGN_KEY_JOIN_PROCESSOR, "-subscription-receive")
    respond = new_name(naming.FOREIGN_KEY_JOIN_PROCESSOR, "-subscription-join-foreign")
    foreign = new_name(naming.FOREIGN_KEY_JOIN_PROCESSOR, "-foreign-join-subscription")
    response_topic = new_name(naming.FOREIGN_KEY_JOIN_RESPONSE, "-subscription-response")
    response_sink = new_name(naming.TABLE_SINK, "-subscription-response-sink")
    response_source = new_name(naming.TABLE_SOURCE, "-subscription-response-source")
    resolver = new_name(naming.FOREIGN_KEY_JOIN_RESOLVER, "-subscription-response-resolver")
    result = new_name(naming.FOREIGN_KEY_JOIN_OUTPUT, "-result")
    result_store = graph.new_store_name(naming.FOREIGN_KEY_JOIN_OUTPUT, result_options.name)
    if joined.name is None:
        graph.mark_generated_store(store.name)

    by_key_and_value = mapper_of(extractor, what="foreign-key extractor")
    sending = SubscriptionSend(
        by_key_and_value,
        other._name,
        left_join,
        foreign_key_serde=other._key_serde,
        value_serde=this._value_serde,
    )
    graph.add(Process(name=send, parents=(this._name,), operator=sending))
    graph.add(
        ForeignKeyTopic(
            name=source,
            parents=(send,),
            sink_name=sink,
            topic=topic + naming.FOREIGN_KEY_TOPIC_SUFFIX,
            key_serde=other._key_serde,
            value_serde=SubscriptionSerde(this._key_serde),
            partitioner=partitioners[0],
            generated=joined.name is None,
        )
    )
    graph.co_partition(other._sources | {source})
    receiving = SubscriptionReceive(
        joint=receive,
        store=store.name,
        foreign_key_serde=other._key_serde,
        primary_key_serde=this._key_serde,
    )
    graph.add(Process(name=receive, parents=(source,), operator=receiving, store=store))
    graph.add(Process(name=respond, parents=(receive,), operator=SubscriptionJoin(other._name)))
    graph.add(
        Process(
            name=foreign,
            parents=(other._name,),
            operator=ForeignTableJoin(joint=receive, store=store.name),
            reads=(store.name,),
        )
    )
    graph.add(
        ForeignKeyTopic(
            name=response_source,
            parents=(respond, foreign),
            sink_name=response_sink,
            topic=response_topic + naming.FOREIGN_KEY_TOPIC_SUFFIX,
            key_serde=this._key_serde,
            value_serde=ResponseSerde(other._value_serde),
            partitioner=partitioners[1] or PartitionedAsPrimary(),
            generated=joined.name is None,
        )
    )
    sources = this._sources | {response_source}
    graph.co_partition(sources)
    resolving = ResponseJoin(
        this._name,
        by_values,
        left_join,
        result,
        key_serde=this._key_serde,
        value_serde=this._value_serde,
        again=SubscribeAgain(by_key_and_value, sink),
    )
    graph.add(Process(name=resolver, parents=(response_source,), operator=resolving))
    return _result(this, resolver, result, store_name=result_store, options=result_options, sources=sources)


def _result(
    this: KTable, parent: str, name: str, *, store_name: str, options: Materialized, sources: frozenset[str]
) -> KTable:
    """The table of the results, which is stored where it was named or something reads it."""
    from millrace.dsl.ktable import KTable

    key_serde: Serde | None = options.key_serde or this._key_serde
    this._graph.add(
        Process(
            name=name,
            parents=(parent,),
            operator=TableSource(store_name),
            store=key_value_store(store_name, options, key_serde=key_serde, value_serde=options.value_serde),
            store_optional=options.name is None,
        )
    )
    return KTable(
        this._graph,
        name,
        key_serde=this._key_serde,
        value_serde=options.value_serde,
        sources=sources,
        store=store_name,
    )


def _subscription_store(this: KTable, other: KTable, name: str) -> StoreSpec:
    """The store of the subscriptions: logged and never cached, as in Kafka Streams."""
    return StoreSpec(
        name=name,
        kind=StoreKind.KEY_VALUE,
        key_serde=CombinedKeySerde(other._key_serde, this._key_serde),
        value_serde=SubscriptionSerde(this._key_serde),
        cached=False,
    )
