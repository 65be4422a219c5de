"""The topics that the sources of a topology read: named ones, and those that match a pattern (KIP-105)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from millrace.errors import TopologyError
from millrace.topology.layout import ApplicationTopics
from millrace.topology.nodes import Node, SourceNode
from millrace.topology.parts import SubTopology
from millrace.topology.topology import FrozenTopology

_NOT_OF_USERS = ("__", "_millrace-")
"""How the topics begin that brokers and Millrace keep for themselves."""


def check_topic_pattern(pattern: re.Pattern[str]) -> None:
    """Refuses a pattern of bytes, which no name of a topic could match.

    Raises:
        TopologyError: it is one.
    """
    if not isinstance(pattern.pattern, str):
        raise TopologyError(f"{pattern!r} is a pattern of bytes.", remedy='use one of text: re.compile(r"...")')


def check_pattern(node: SourceNode, others: Iterable[SourceNode]) -> None:
    """Refuses a source whose topics another one reads as well, as far as that shows before the broker is asked.

    Args:
        node: the source.
        others: those before it.

    Raises:
        TopologyError: a pattern matches a topic that another source names, or stands at two sources.
    """
    for other in others:
        for one, named in ((node, other), (other, node)):
            taken = [topic for topic in named.topics if one.pattern is not None and one.pattern.fullmatch(topic)]
            if taken and not named.internal and one.pattern is not None:
                raise TopologyError(
                    f"The pattern {one.pattern.pattern!r} of source {one.name!r} matches the topic {taken[0]!r}, which "
                    f"{named.name!r} reads.",
                    remedy="read each topic once: narrow the pattern, or leave the name out",
                )
        if node.pattern is not None and other.pattern == node.pattern:
            raise TopologyError(
                f"The pattern {node.pattern.pattern!r} is read by both {other.name!r} and {node.name!r}.",
                remedy="read it once and use that stream twice",
            )


def literal_prefix(pattern: re.Pattern[str]) -> str:
    """Returns the common beginning of the names of all topics that the pattern matches; empty where it has none."""
    text = pattern.pattern
    if pattern.flags & re.IGNORECASE or "|" in text:
        return ""
    prefix = re.match(r"(?:[A-Za-z0-9_-]|\\[.-])*", text)
    assert prefix is not None
    found, remaining = prefix[0], text[prefix.end() :]
    if remaining[:1] in ("?", "*", "{"):
        # The last character need not be there.
        found = re.sub(r"\\?.$", "", found)
    return found.replace("\\", "")


def patterns_of(topology: FrozenTopology) -> tuple[SourceNode, ...]:
    """Returns the sources that read what matches a pattern."""
    return tuple(source for part in topology.sub_topologies for source in part.sources if source.pattern is not None)


def with_matched_topics(topology: FrozenTopology, existing: Iterable[str], application_id: str) -> FrozenTopology:
    """Returns the topology with its patterns replaced by the topics that exist.

    A pattern never matches what is the broker's or Millrace's own (names that begin with ``__`` or ``_millrace-``), nor
    the application's repartition and changelog topics, nor topics of global stores. As in Kafka Streams it may match a
    topic that the application itself writes.

    Args:
        topology: the topology.
        existing: names of the topics on the broker.
        application_id: the application.

    Raises:
        TopologyError: two patterns match one topic, or one matches none.
    """
    sources = patterns_of(topology)
    if not sources:
        return topology
    own = ApplicationTopics(topology, application_id).own
    candidates = sorted(
        name for name in {*existing} - own - topology.global_topics if not name.startswith(_NOT_OF_USERS)
    )
    matched: dict[str, tuple[str, ...]] = {}
    source_of: dict[str, SourceNode] = {}
    for source in sources:
        assert source.pattern is not None
        found = tuple(name for name in candidates if source.pattern.fullmatch(name))
        if not found:
            raise TopologyError(
                f"The pattern {source.pattern.pattern!r} of source {source.name!r} matches no topic of the broker.",
                remedy="create a topic that it matches (millrace topics create), or correct it: it must match the "
                "whole name",
            )
        for topic in found:
            other = source_of.setdefault(topic, source)
            if other is not source and other.pattern is not None:
                raise TopologyError(
                    f"Topic {topic!r} matches both {other.pattern.pattern!r} and {source.pattern.pattern!r}.",
                    remedy="narrow one of the patterns: a topic is read once",
                )
        matched[source.name] = found

    def resolved(part: SubTopology) -> SubTopology:
        nodes = tuple(
            replace(node, topics=matched[node.name]) if isinstance(node, SourceNode) and node.name in matched else node
            for node in part.nodes
        )
        return replace(part, nodes=nodes)

    parts = tuple(resolved(part) for part in topology.sub_topologies)
    by_name = {node.name: node for part in parts for node in part.nodes}
    return replace(
        topology,
        sub_topologies=parts,
        co_partition_groups=co_partition_groups(topology.co_partitioned_sources, by_name),
    )


def co_partition_groups(sources: Sequence[frozenset[str]], nodes: Mapping[str, Node]) -> tuple[frozenset[str], ...]:
    """Groups of topics that need the same number of partitions, united where they share one.

    Args:
        sources: groups of names of source nodes.
        nodes: the nodes by name.
    """
    groups: list[frozenset[str]] = []
    for names in sources:
        group = frozenset(
            topic for name in names if isinstance(node := nodes.get(name), SourceNode) for topic in node.topics
        )
        touching = [other for other in groups if other & group]
        groups = [other for other in groups if not other & group]
        groups.append(group.union(*touching))
    return tuple(sorted((group for group in groups if len(group) > 1), key=sorted))
