"""The rewrites by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from millrace.errors import TopologyError
from millrace.rewrites.merge_repartition_topics import merge_repartition_topics
from millrace.rewrites.reuse_source_topic import reuse_source_topic
from millrace.rewrites.single_store_self_join import single_store_self_join
from millrace.topology.logical import LogicalGraph

Rewrite = Callable[[LogicalGraph], LogicalGraph]

REWRITES: Mapping[str, Rewrite] = {
    "reuse-source-topic": reuse_source_topic,
    "merge-repartition-topics": merge_repartition_topics,
    "single-store-self-join": single_store_self_join,
}


def apply_rewrites(graph: LogicalGraph, names: Sequence[str]) -> LogicalGraph:
    """Returns ``graph`` after the rewrites called ``names``, in their order.

    Raises:
        TopologyError: a name is unknown.
    """
    for name in names:
        if name not in REWRITES:
            raise TopologyError(f"There is no rewrite {name!r}. Known: {', '.join(REWRITES)}.")
        graph = REWRITES[name](graph)
    return graph
