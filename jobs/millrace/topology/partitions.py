"""The numbers of partitions of repartition topics."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.errors import TopologyError
from millrace.topology.parts import SubTopology
from millrace.topology.topology import FrozenTopology


def repartition_partition_counts(topology: FrozenTopology, partitions: Mapping[str, int]) -> dict[str, int]:
    """Returns the number of partitions of each repartition topic, by its name without the application prefix.

    A topic gets the number that the user asked for; else that of the topics it is joined with; else as many as the
    inputs of the sub-topology that writes it have at most. As in Kafka Streams. Where topics feed each other in a
    circle, as those of foreign-key joins do, it is the most that comes into the circle.

    Args:
        topology: the topology.
        partitions: number of partitions of every input topic.

    Raises:
        TopologyError: an input topic is missing, topics that are joined have different numbers, or nothing known
            leads to a topic.
    """
    known = dict(partitions)
    internal = {spec.name for spec in topology.repartition_topics}
    inputs = {topic for part in topology.sub_topologies for topic in _topics(part)} - internal
    missing = sorted(inputs - known.keys())
    if missing:
        raise TopologyError(f"The number of partitions of these input topics is unknown: {', '.join(missing)}.")
    known |= {spec.name: spec.partitions for spec in topology.repartition_topics if spec.partitions is not None}
    group_of = {topic: group for group in topology.co_partition_groups for topic in group}
    unknown = internal - known.keys()
    while unknown:
        found = {topic: count for topic in unknown if (count := _count(topology, topic, group_of, known)) is not None}
        if not found:
            found = _counts_in_circles(topology, unknown, group_of, known)
        known |= found
        unknown -= found.keys()
    _check_groups(topology, known)
    return {topic: known[topic] for topic in sorted(internal)}


def _topics(part: SubTopology) -> set[str]:
    return {topic for source in part.sources for topic in source.topics}


def _count(
    topology: FrozenTopology, topic: str, group_of: Mapping[str, frozenset[str]], known: Mapping[str, int]
) -> int | None:
    """The number for ``topic`` as far as what is known already decides it."""
    group = group_of.get(topic, frozenset({topic}))
    decided = [known[other] for other in sorted(group) if other in known]
    if decided:
        return max(decided)
    counts = [_largest_input(topology, other, known) for other in group]
    return None if None in counts else max(count for count in counts if count is not None)


def _counts_in_circles(
    topology: FrozenTopology, unknown: set[str], group_of: Mapping[str, frozenset[str]], known: Mapping[str, int]
) -> dict[str, int]:
    """The numbers of topics none of which can be decided before the others: inputs that are not known do not count.

    Raises:
        TopologyError: nothing known comes into the circle.
    """
    counts: dict[str, int] = {}
    while undecided := [topic for part in topology.sub_topologies for topic in sorted(_topics(part) & unknown)]:
        progress = False
        for topic in undecided:
            inputs = _inputs_of_writers(topology, topic)
            candidates = [{**known, **counts}[other] for other in inputs if other in known or other in counts]
            if candidates:
                counts[topic] = max(candidates)
                unknown = unknown - {topic}
                progress = True
        if not progress:
            raise TopologyError(f"The number of partitions cannot be derived for {', '.join(sorted(unknown))}.")
    return {topic: max(counts[other] for other in group_of.get(topic, {topic}) if other in counts) for topic in counts}


def _inputs_of_writers(topology: FrozenTopology, topic: str) -> set[str]:
    writers = [part for part in topology.sub_topologies if any(sink.topic == topic for sink in part.sinks)]
    return {other for part in writers for other in _topics(part)}


def _largest_input(topology: FrozenTopology, topic: str, known: Mapping[str, int]) -> int | None:
    """The most partitions that an input of a sub-topology which writes ``topic`` has; ``None``: not yet known."""
    inputs = _inputs_of_writers(topology, topic)
    if not inputs or inputs - known.keys():
        return None
    return max(known[other] for other in inputs)


def _check_groups(topology: FrozenTopology, known: Mapping[str, int]) -> None:
    for group in topology.co_partition_groups:
        counts = {topic: known[topic] for topic in sorted(group)}
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
            raise TopologyError(
                f"Topics that are joined need the same number of partitions: {listed}.",
                remedy="create them with the same number, or send one through repartition() with the other's number",
            )
