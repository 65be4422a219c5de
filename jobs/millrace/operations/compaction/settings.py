"""The topic settings that make the cleaner run now, and how they are put back whatever happens.

Measured on Kafka 4.4: the cleaner never touches the active segment, and a segment is rolled only by an append, so that
on a quiet topic a lowered ``segment.ms`` alone does nothing. With it, the next append rolls; the cleaner, which looks
every ``log.cleaner.backoff.ms`` (15 s), then takes the log within that time if ``min.cleanable.dirty.ratio`` allows.
``min.compaction.lag.ms`` stays: the history of versioned stores is restored from what it protects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millrace.install.home import ApplicationDirectory
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import changelog_topic
from millrace.operations.journal import operations_of
from millrace.topology.topology import FrozenTopology

COMPACT = "compact"
TEMPORARY: Mapping[str, str] = {"min.cleanable.dirty.ratio": "0.001", "segment.ms": "1001"}
"""Values that no other process sets: a topic that has one has it from a compaction."""

Settings = dict[str, str | None]
"""Own settings of a topic; ``None`` where it has the broker's default."""


def original_settings(admin: KafkaAdmin, topic: str, left_behind: Mapping[str, str | None]) -> Settings:
    """What is to be put back after a compaction.

    Args:
        admin: of the cluster.
        topic: name of the topic.
        left_behind: what an earlier compaction should have put back.
    """
    own = admin.own_topic_settings(topic)
    return {name: left_behind.get(name, own.get(name)) for name in TEMPORARY}


def left_behind(
    admin: KafkaAdmin, directory: ApplicationDirectory, topology: FrozenTopology, topics: Iterable[str]
) -> dict[str, Settings]:
    """Settings of a compaction that was abandoned, with the values that belong there.

    They come from its journal; where that is gone, from the topology, as when the topic was created.
    """
    found: dict[str, Settings] = {}
    journaled: dict[str, Settings] = {}
    for record in operations_of(directory):
        if record.plan.operation == COMPACT:
            journaled |= record.plan.decisions["settings"]
    created: dict[str, Settings] = {}
    for part in topology.sub_topologies:
        for store in part.stores:
            spec = changelog_topic(store, directory.application, partitions=1)
            if spec is not None:
                created[spec.name] = {name: spec.settings.get(name) for name in TEMPORARY}
    for topic in topics:
        own = admin.own_topic_settings(topic)
        wrong = [name for name, value in TEMPORARY.items() if own.get(name) == value]
        if wrong:
            known = journaled.get(topic, created.get(topic, {}))
            found[topic] = {name: known.get(name) for name in wrong}
    return found


def put_back(admin: KafkaAdmin, settings: Mapping[str, Mapping[str, str | None]]) -> None:
    """Give topics their settings back."""
    for topic, originals in settings.items():
        admin.change_topic_settings(topic, originals)


def differing(admin: KafkaAdmin, settings: Mapping[str, Mapping[str, str | None]]) -> list[str]:
    """Topics that do not have these settings."""
    wrong = []
    for topic, originals in settings.items():
        own = admin.own_topic_settings(topic)
        if any(own.get(name) != value for name, value in originals.items()):
            wrong.append(topic)
    return wrong
