"""The check that the changelog topics still have the records that the committed offsets refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millrace.errors import StateError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import committed_offsets, end_offsets
from millrace.kafka.topics import TopicDescription
from millrace.task.input_topics import LOST_CHANGELOG_REMEDY
from millrace.task.signature import Signature
from millrace.topology.layout import ApplicationTopics, SubTopologyLayout
from millrace.topology.topology import FrozenTopology

_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Changelog:
    """A changelog topic, as recorded in the commits and as found on the broker.

    Args:
        topic: full name.
        recorded: end offset by partition that stands beside the committed offsets of its tasks.
        ends: end offset by partition on the broker; empty where the topic is gone.
        topic_id: the broker's UUID of it; empty where the topic is gone.
        last_id: its UUID in the run before; empty where that is not known.
    """

    topic: str
    recorded: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    topic_id: str = ""
    last_id: str = ""


def recorded_changelogs(
    admin: KafkaAdmin,
    topology: FrozenTopology,
    topics: Mapping[str, TopicDescription],
    *,
    last_ids: Mapping[str, str],
    application_id: str,
) -> list[Changelog]:
    """Returns the changelogs that the committed offsets refer to, without those that are also an input topic.

    Args:
        admin: the cluster.
        topology: the application's topology.
        topics: the input and internal topics that exist.
        last_ids: UUID of each changelog topic in the run before.
        application_id: the group.

    Raises:
        MillraceError: the broker could not be asked.
    """
    recorded: dict[str, dict[int, int]] = {}
    for part in ApplicationTopics(topology, application_id).sub_topologies:
        for topic, of_tasks in _recorded(admin, part, topics).items():
            recorded.setdefault(topic, {}).update(of_tasks)
    here = [(name, number) for name, of in recorded.items() if name in topics for number in of]
    ends = end_offsets(
        admin,
        [topic_partition for topic_partition in here if topic_partition[1] < topics[topic_partition[0]].partitions],
    )
    return [
        Changelog(
            topic=name,
            recorded=of,
            ends={number: ends[name, number] for number in of if (name, number) in ends},
            topic_id=topics[name].topic_id if name in topics else "",
            last_id=last_ids.get(name, ""),
        )
        for name, of in recorded.items()
    ]


def check_changelogs(changelogs: Sequence[Changelog], application_id: str) -> None:
    """Refuses to start with a changelog that has lost records.

    The stores on disk may be whole, so nothing would be missed at first. The next host that has to restore them would
    find a part of their entries and take it for all.

    Raises:
        StateError: a topic was deleted, perhaps created again, or ends before what was committed.
    """
    lost = [problem for each in changelogs if (problem := _problem(each))]
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        raise StateError(
            f"Changelog topics of {application_id} have lost records: {'; '.join(lost[:_SHOWN])}{more}.",
            remedy=LOST_CHANGELOG_REMEDY,
        )


def _problem(changelog: Changelog) -> str:
    recorded = {partition: end for partition, end in changelog.recorded.items() if end > 0}
    if not recorded:
        return ""  # nothing was ever written to it, or a reset has forgotten it
    if not changelog.topic_id:
        return f"{changelog.topic} is gone"
    if changelog.last_id and changelog.last_id != changelog.topic_id:
        return f"{changelog.topic} was {changelog.last_id}, is {changelog.topic_id}"
    for partition, end in sorted(recorded.items()):
        if changelog.ends.get(partition, 0) < end:
            return (
                f"{changelog.topic}-{partition} ends at offset {changelog.ends.get(partition, 0)}, and offset {end} "
                "was committed"
            )
    return ""


def _recorded(
    admin: KafkaAdmin, part: SubTopologyLayout, topics: Mapping[str, TopicDescription]
) -> dict[str, dict[int, int]]:
    """Returns the end offsets that a sub-topology's tasks have committed, by changelog and partition."""
    partitions = {name: topic.partitions for name, topic in topics.items()}
    tasks = part.within(topics).tasks(partitions) if part.own_changelogs else ()
    if not tasks:
        return {}
    commits = committed_offsets(
        admin, part.application_id, [topic_partition for task in tasks for topic_partition in task.inputs]
    )
    recorded: dict[str, dict[int, int]] = {}
    for task in tasks:
        # A partition of a new topic has no commit yet; one of another process's is refused later, with the rest.
        signature = Signature.of(
            {topic_partition: commits[topic_partition] for topic_partition in task.inputs if topic_partition in commits}
        )
        for store, end in (signature.changelogs if signature is not None else {}).items():
            if store in task.own_changelogs:
                topic, number = task.own_changelogs[store]
                recorded.setdefault(topic, {})[number] = end
    return recorded
