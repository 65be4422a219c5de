"""What belongs to an application: what it reads, writes and keeps, by the names in its topology, never by a prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from millrace.control.status import ApplicationStatus
from millrace.topology.summary import numbered_parts, summarize
from millrace.topology.topology import Topology


@dataclass(frozen=True, kw_only=True)
class TaskGroup:
    """The tasks of one sub-topology.

    Args:
        number: number of the sub-topology.
        inputs: topics that it reads, internal ones included; full names.
        changelogs: changelog topic of each of its stores that has one of its own.
    """

    number: int
    inputs: frozenset[str]
    changelogs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Belongings:
    """What one topology of an application reads, writes and keeps; topics by their full names.

    Args:
        inputs: topics of others that its tasks read.
        outputs: topics of others that it writes.
        global_topics: topics of global stores, of which the group commits nothing.
        repartition_topics: topics between its sub-topologies.
        changelogs: topics that back its stores, other than input topics that do so.
        groups: its sub-topologies.
    """

    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    global_topics: frozenset[str] = frozenset()
    repartition_topics: frozenset[str] = frozenset()
    changelogs: frozenset[str] = frozenset()
    groups: tuple[TaskGroup, ...] = ()

    @property
    def internal(self) -> frozenset[str]:
        """The topics that are the application's own. What it reads or writes for others never is, whatever its name."""
        return (self.repartition_topics | self.changelogs) - self.inputs - self.outputs - self.global_topics

    def __or__(self, other: Belongings) -> Belongings:
        """What belongs to either topology; the sub-topologies are those of the first that has any."""
        return Belongings(
            inputs=self.inputs | other.inputs,
            outputs=self.outputs | other.outputs,
            global_topics=self.global_topics | other.global_topics,
            repartition_topics=self.repartition_topics | other.repartition_topics,
            changelogs=self.changelogs | other.changelogs,
            groups=self.groups or other.groups,
        )


def belongings(application_id: str, topology: Topology | None, status: ApplicationStatus | None) -> Belongings:
    """What belongs to an application, as its topology says and the one that ran last.

    Args:
        application_id: the prefix of its internal topics.
        topology: of its specification, where there is one.
        status: the record in the status topic, where there is one.
    """
    found: list[Belongings] = []
    if topology is not None:
        found.append(_of_summary(application_id, summarize(topology)))
    if status is not None:
        found.append(_of_summary(application_id, status.topology_summary))
        if not status.topology_summary:
            # After a reset nothing of the last topology is left but where its inputs begin.
            found.append(Belongings(inputs=frozenset(status.partitions)))
    return reduce(Belongings.__or__, found, Belongings())


def _of_summary(application_id: str, summary: Mapping[str, Any]) -> Belongings:
    repartition = set(summary.get("repartition_topics", ()))
    stores: Mapping[str, Mapping[str, Any]] = summary.get("stores", {})
    own = {
        name: f"{application_id}-{name}-changelog"
        for name, store in stores.items()
        if store["logged"] and store["source_topic"] is None
    }

    def full(topics: Iterable[str]) -> frozenset[str]:
        return frozenset(f"{application_id}-{topic}" if topic in repartition else topic for topic in topics)

    global_stores = summary.get("global_stores", {}).values()
    groups, inputs, outputs = [], set[str](), set[str]()
    for number, nodes in numbered_parts(summary):
        read = {topic for node in nodes if node["kind"] == "Source" for topic in node["topics"]}
        inputs |= read - repartition
        # A sink that chooses its topic for each record has none here.
        outputs |= {node["topic"] for node in nodes if node["kind"] == "Sink" and "topic" in node} - repartition
        changelogs = {name: own[name] for name in own if stores[name]["sub_topology"] == number}
        groups.append(TaskGroup(number=number, inputs=full(read), changelogs=changelogs))
    return Belongings(
        inputs=frozenset(inputs),
        outputs=frozenset(outputs),
        global_topics=frozenset(each["topic"] for each in global_stores),
        repartition_topics=full(repartition),
        changelogs=frozenset(own.values()),
        groups=tuple(groups),
    )
