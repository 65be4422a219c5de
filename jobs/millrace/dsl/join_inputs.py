"""The inputs of stream joins: repartitioning puts each key where the other side looks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.serdes import Serde

if TYPE_CHECKING:
    from millrace.dsl.kstream import KStream


def repartitioned_for_join(
    stream: KStream, name: str | None, key_serde: Serde | None, value_serde: Serde | None
) -> KStream:
    """Returns the stream or, where its key may have changed, the one behind a repartition topic called ``name``.

    Joins that give no name share one topic of the stream, as in Kafka Streams.
    """
    if not stream._key_changed:
        return stream
    prefix = name if name is not None else stream._name
    node = stream._graph.repartition_node(
        stream._name,
        prefix,
        key_serde=key_serde or stream._key_serde,
        value_serde=value_serde or stream._value_serde,
        named=name is not None,
    )
    if stream._join_repartition is None or prefix != stream._name:
        stream._join_repartition = stream._graph.add(node)
    return stream._behind(stream._join_repartition)
