"""A table's input topic serves as the changelog of its store (``reuse.ktable.source.topics`` of Kafka Streams)."""

from __future__ import annotations

from dataclasses import replace

from millrace.topology.logical import LogicalGraph, TableInput


def reuse_source_topic(graph: LogicalGraph) -> LogicalGraph:
    """Removes the changelog of each table that is read from a topic; its topic must be compacted."""
    return graph.with_nodes(
        tuple(replace(node, reuse_source_topic=True) if isinstance(node, TableInput) else node for node in graph.nodes)
    )
