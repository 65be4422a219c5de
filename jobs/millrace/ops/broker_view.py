"""What a broker says about the things that a preflight checks, read once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from millrace.config import StreamsConfig
from millrace.control.status import ApplicationStatus
from millrace.control.status_topic import read_statuses
from millrace.kafka.clients import kafka_error, translate
from millrace.ops.topics import admin_client

_LIMIT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class TopicView:
    """A topic as the broker has it.

    Args:
        name: its name.
        partitions: number of partitions.
        replicas: fewest replicas of a partition.
        min_insync_replicas: how many replicas must have a record before it counts as written.
    """

    name: str
    partitions: int
    replicas: int
    min_insync_replicas: int = 1


@dataclass(frozen=True, kw_only=True)
class BrokerView:
    """What the broker says.

    Args:
        brokers: number of brokers.
        topics: all topics by name; ``min_insync_replicas`` is read only for those that were asked for.
        settings: settings of one broker.
        group_members: the live members of the application's group, each in words.
        statuses: what drivers of this cluster have published, by application id.
    """

    brokers: int
    topics: Mapping[str, TopicView]
    settings: Mapping[str, str] = field(default_factory=dict)
    group_members: tuple[str, ...] = ()
    statuses: Mapping[str, ApplicationStatus] = field(default_factory=dict)


def view_broker(config: StreamsConfig, *, topics: Collection[str]) -> BrokerView:
    """Ask the broker; at most some tens of seconds.

    Args:
        config: the application's configuration.
        topics: topics whose settings matter.

    Raises:
        BrokerUnavailableError: no broker answered.
        PreflightError: the broker refused.
        OperationError: the broker failed.
    """
    admin = admin_client(config)
    try:
        metadata = admin.list_topics(timeout=_LIMIT_S)
        replicas = {
            name: min((len(partition.replicas) for partition in topic.partitions.values()), default=0)
            for name, topic in metadata.topics.items()
        }
        settings = _settings(admin, next(iter(metadata.brokers)), sorted(set(topics) & set(metadata.topics)))
        members = _members(admin, config.application_id)
    except KafkaException as error:
        raise translate(
            kafka_error(error),
            doing="describing the cluster for a preflight",
            bootstrap_servers=config.bootstrap_servers,
        ) from error
    return BrokerView(
        brokers=len(metadata.brokers),
        topics={
            name: TopicView(
                name=name,
                partitions=len(topic.partitions),
                replicas=replicas[name],
                min_insync_replicas=int(settings.get(name, {}).get("min.insync.replicas", "1")),
            )
            for name, topic in metadata.topics.items()
        },
        settings=settings[""],
        group_members=members,
        statuses=read_statuses(config.bootstrap_servers, client_settings=config.client_settings("admin.")),
    )


def _settings(admin: AdminClient, broker: int, topics: Collection[str]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ResourceType.BROKER, str(broker))]
    resources += [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    found: dict[str, dict[str, str]] = {}
    futures: dict[ConfigResource, Future[dict[str, Any]]] = admin.describe_configs(resources, request_timeout=_LIMIT_S)
    for resource, future in futures.items():
        name = "" if resource.restype == ResourceType.BROKER else str(resource.name)
        entries = future.result(timeout=2 * _LIMIT_S)
        found[name] = {key: entry.value for key, entry in entries.items() if entry.value is not None}
    return found


def _members(admin: AdminClient, group: str) -> tuple[str, ...]:
    # A group of another protocol (`streams`) is listed with its state, and cannot be described as a consumer group.
    listed = admin.list_consumer_groups(request_timeout=_LIMIT_S).result(timeout=2 * _LIMIT_S).valid
    mine = [each for each in listed if each.group_id == group]
    if not mine or mine[0].state in {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}:
        return ()
    try:
        described = admin.describe_consumer_groups([group], request_timeout=_LIMIT_S)[group].result(2 * _LIMIT_S)
    except KafkaException as error:
        return (f"a group in state {mine[0].state.name} that cannot be described ({kafka_error(error).name()})",)
    return tuple(f"{member.client_id} on {member.host}" for member in described.members)
