"""The resources of an application: what it reads, writes and keeps, by the names in its topology, never by a prefix."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from millrace.driver.status import ApplicationStatus
from millrace.topology.layout import ApplicationTopics, SubTopologyLayout, layouts_of_summary
from millrace.topology.parts import full_topic_name
from millrace.topology.summary import numbered_parts
from millrace.topology.topology import FrozenTopology


@dataclass(frozen=True, kw_only=True)
class ApplicationResources:
    """The resources of one topology of an application: what it reads, writes and keeps; topics by their full names.

    Args:
        inputs: topics of others that its tasks read.
        outputs: topics of others that it writes.
        global_topics: topics of global stores, of which the group commits nothing.
        repartition_topics: topics between its sub-topologies.
        changelogs: topics that back its stores, other than input topics that do so.
        sub_topologies: the topics of each.
    """

    inputs: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()
    global_topics: frozenset[str] = frozenset()
    repartition_topics: frozenset[str] = frozenset()
    changelogs: frozenset[str] = frozenset()
    sub_topologies: tuple[SubTopologyLayout, ...] = ()

    @property
    def internal(self) -> frozenset[str]:
        """The topics that are the application's own. What it reads or writes for others never is, whatever its name."""
        return (self.repartition_topics | self.changelogs) - self.inputs - self.outputs - self.global_topics

    def __or__(self, other: ApplicationResources) -> ApplicationResources:
        """Returns the resources of either topology; the sub-topologies are those of the first that has any."""
        return ApplicationResources(
            inputs=self.inputs | other.inputs,
            outputs=self.outputs | other.outputs,
            global_topics=self.global_topics | other.global_topics,
            repartition_topics=self.repartition_topics | other.repartition_topics,
            changelogs=self.changelogs | other.changelogs,
            sub_topologies=self.sub_topologies or other.sub_topologies,
        )


def resources_of(
    application_id: str, topology: FrozenTopology | None, status: ApplicationStatus | None
) -> ApplicationResources:
    """Returns the resources of an application, by its topology and the one that ran last.

    Args:
        application_id: the prefix of its internal topics.
        topology: of its specification, where there is one.
        status: the record in the status topic, where there is one.
    """
    found: list[ApplicationResources] = []
    if topology is not None:
        found.append(_of_topology(ApplicationTopics(topology, application_id)))
    if status is not None:
        found.append(_of_summary(application_id, status.topology_summary, read=frozenset(status.partitions)))
        if not status.topology_summary:
            # After a reset nothing of the last topology is left but where its inputs begin.
            found.append(ApplicationResources(inputs=frozenset(status.partitions)))
    return reduce(ApplicationResources.__or__, found, ApplicationResources())


def _of_topology(topics: ApplicationTopics) -> ApplicationResources:
    return ApplicationResources(
        inputs=topics.inputs - topics.repartition_topics.keys(),
        outputs=topics.topology.external_outputs,
        global_topics=topics.topology.global_topics,
        repartition_topics=frozenset(topics.repartition_topics),
        changelogs=frozenset(topics.own_changelogs.values()),
        sub_topologies=topics.sub_topologies,
    )


def _of_summary(application_id: str, summary: Mapping[str, Any], *, read: frozenset[str]) -> ApplicationResources:
    """What belongs to a topology of which only a summary is left, which has patterns in place of what they match.

    Args:
        application_id: the prefix of its internal topics.
        summary: of the topology.
        read: the topics that its tasks read.
    """
    repartition = set(summary.get("repartition_topics", ()))
    full = {full_topic_name(topic, application_id, internal=True) for topic in repartition}
    layouts = tuple(_with_matched(layout, read) for layout in layouts_of_summary(summary, application_id))
    nodes = [node for _, of_part in numbered_parts(summary) for node in of_part]
    return ApplicationResources(
        inputs=frozenset(topic for layout in layouts for topic in layout.inputs) - full,
        # A sink that chooses its topic for each record has none here.
        outputs=frozenset(each["topic"] for each in nodes if each["kind"] == "Sink" and "topic" in each) - repartition,
        global_topics=frozenset(each["topic"] for each in summary.get("global_stores", {}).values()),
        repartition_topics=frozenset(full),
        changelogs=frozenset(topic for layout in layouts for topic in layout.own_changelogs.values()),
        sub_topologies=layouts,
    )


def _with_matched(layout: SubTopologyLayout, read: frozenset[str]) -> SubTopologyLayout:
    """The sub-topology with the topics that it read where the summary has the pattern that they matched."""
    if read.issuperset(layout.inputs):
        return layout
    matched = (
        {name} if name in read else {topic for topic in read if re.fullmatch(name, topic)} or {name}
        for name in layout.inputs
    )
    return replace(layout, inputs=tuple(sorted(set().union(*matched))))
