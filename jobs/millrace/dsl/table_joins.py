"""Joins of a stream with a table: what ``KStream.join`` and ``left_join`` with a ``KTable`` append to the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millrace.dsl.callables import joiner_takes_key as takes_key
from millrace.dsl.join_inputs import repartitioned_for_join
from millrace.dsl.options import Joined
from millrace.dsl.stores import grace_buffer
from millrace.topology import naming
from millrace.topology.logical import Process
from millrace.topology.operators import JoinKind, StreamTableJoin

if TYPE_CHECKING:
    from millrace.dsl.kstream import KStream
    from millrace.dsl.ktable import KTable


def join_table(
    stream: KStream,
    table: KTable,
    joiner: Callable[..., Any],
    joined: Joined | None = None,
    *,
    kind: JoinKind,
    joiner_takes_key: bool | None = None,
) -> KStream:
    """Joins a stream with a table; the stream goes through a repartition topic where its key may have changed.

    Raises:
        TopologyError: the joiner does not fit, stream and table are of different builders, or a name is used twice.
    """
    from millrace.dsl.kstream import KStream

    with_key = takes_key(joiner, "value, table_value", asked=joiner_takes_key)
    stream._check_same_builder(table._graph)
    graph, options = stream._graph, joined or Joined()
    left = repartitioned_for_join(stream, options.name, options.key_serde, options.value_serde)
    sources = left._sources | table._sources
    graph.co_partition(sources)
    prefix = naming.STREAM_JOIN if kind is JoinKind.INNER else naming.STREAM_LEFT_JOIN
    name = graph.new_name(prefix, options.name)
    key_serde = options.key_serde or left._key_serde
    value_serde = options.value_serde or left._value_serde
    buffer = None
    if options.grace_ms is not None:
        buffer_name = name + naming.BUFFER_SUFFIX
        if options.name is None:
            graph.mark_generated_store(buffer_name)
        buffer = grace_buffer(buffer_name, key_serde=key_serde, value_serde=value_serde)
    graph.add(
        Process(
            name=name,
            parents=(left._name,),
            operator=StreamTableJoin(
                table._name,
                kind,
                joiner,
                with_key,
                buffer=None if buffer is None else buffer.name,
                grace_ms=options.grace_ms,
            ),
            store=buffer,
            keeps_null_keys=kind is JoinKind.LEFT,
        )
    )
    return KStream(graph, name, key_serde=key_serde, value_serde=None, sources=sources, key_changed=False)
