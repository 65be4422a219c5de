"""What a broker says about the things that a preflight checks, read once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from millrace.config import StreamsConfig
from millrace.driver.status import ApplicationStatus
from millrace.driver.status_topic import read_statuses
from millrace.install.connection import admin_of
from millrace.kafka.groups import live_members


@dataclass(frozen=True, kw_only=True)
class TopicView:
    """A topic as the broker has it.

    Args:
        name: its name.
        partitions: number of partitions.
        replicas: replicas of a partition.
        min_insync_replicas: how many replicas must have a record before it counts as written.
        settings: all its settings.
    """

    name: str
    partitions: int
    replicas: int
    min_insync_replicas: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BrokerView:
    """What the broker says.

    Args:
        brokers: number of brokers.
        topics: those of the topics that were asked for that exist, by name.
        names: names of all topics.
        settings: settings of one broker.
        group_members: who is in the application's group, in words; empty if nobody.
        statuses: what drivers of this cluster have published, by application id.
    """

    brokers: int
    topics: Mapping[str, TopicView]
    names: frozenset[str] = frozenset()
    settings: Mapping[str, str] = field(default_factory=dict)
    group_members: str = ""
    statuses: Mapping[str, ApplicationStatus] = field(default_factory=dict)


def view_broker(config: StreamsConfig, *, topics: Collection[str]) -> BrokerView:
    """Ask the broker; each question takes at most some seconds.

    Args:
        config: the application's configuration.
        topics: topics that matter.

    Raises:
        BrokerUnavailableError: no broker answered.
        PreflightError: the broker refused.
        OperationError: the broker failed.
    """
    admin = admin_of(config)
    brokers = admin.number_of_brokers()
    described = admin.describe_topics(sorted(topics))
    settings = admin.settings_of_topics(described)
    members = live_members(admin, config.application_id)
    return BrokerView(
        brokers=brokers,
        topics={
            name: TopicView(
                name=name,
                partitions=topic.partitions,
                replicas=topic.replication_factor,
                min_insync_replicas=int(settings[name].get("min.insync.replicas", "1")),
                settings=settings[name],
            )
            for name, topic in described.items()
        },
        names=admin.topic_names(),
        settings=admin.broker_settings(),
        group_members=str(members) if members.is_live else "",
        statuses=read_statuses(config.bootstrap_servers, client_settings=config.client_settings("admin.")),
    )
