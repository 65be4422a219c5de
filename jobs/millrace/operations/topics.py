"""The topics that an application's specification declares."""

from __future__ import annotations

from millrace.install.connection import admin_of
from millrace.install.spec import ApplicationSpec
from millrace.kafka.topics import TopicSpec


def missing_topics(spec: ApplicationSpec) -> tuple[str, ...]:
    """Names of the declared topics that the broker does not have, in the order of the specification.

    Raises:
        BrokerUnavailableError: no broker answered.
        PreflightError: the broker refused.
    """
    if not spec.topics:
        return ()
    existing = admin_of(spec.streams_config()).describe_topics([topic.name for topic in spec.topics])
    return tuple(topic.name for topic in spec.topics if topic.name not in existing)


def create_topics(spec: ApplicationSpec) -> tuple[str, ...]:
    """Create the declared topics that are missing; those that exist are left as they are.

    Returns:
        Names of the topics that were created.

    Raises:
        BrokerUnavailableError: no broker answered.
        PreflightError: the broker refused, or a topic exists with another number of partitions.
    """
    if not spec.topics:
        return ()
    return admin_of(spec.streams_config()).create_missing(
        TopicSpec(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            settings=topic.settings_text(),
        )
        for topic in spec.topics
    )
