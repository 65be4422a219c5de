"""The settings of topics that have to exist: those of users, and the internal ones as Kafka Streams creates them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from millrace.kafka.record_limits import AFTER_MAX, BEFORE_MAX, DEFAULT_MAX_MESSAGE_BYTES, DIFFERENCE_MAX
from millrace.topology.nodes import RepartitionTopicSpec
from millrace.topology.stores import StoreKind, StoreSpec

STATUS_TOPIC = "_millrace-status"
"""Where drivers publish the status of their applications."""

BROKER_DEFAULT = -1
"""As partition count or replication factor: the broker's own default."""

_MAX_LONG = 2**63 - 1
_COMPACTION_LAG_BEYOND_HISTORY_MS = 86_400_000
_INTERNAL = {"message.timestamp.type": "CreateTime"}
_ROOM_BYTES = 65_536
"""What keys of windows, wrappers of joins and the like add to a value."""

_REPARTITION = {"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1"}


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """A topic that has to exist.

    Args:
        name: topic name.
        partitions: number of partitions; -1 takes the broker's default, and is not compared with an existing topic.
        replication_factor: -1 takes the broker's default.
        settings: topic settings that differ from the broker's.
    """

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TopicDescription:
    """A topic that exists.

    Args:
        name: topic name.
        topic_id: its UUID in Kafka's own text form; a topic that is deleted and created again has another one.
        partitions: number of partitions.
        replication_factor: replicas of its first partition.
        leaderless: partitions without a leader now.
        internal: whether it is one of Kafka's own topics.
    """

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    leaderless: tuple[int, ...] = ()
    internal: bool = False

    @property
    def topic_partitions(self) -> list[tuple[str, int]]:
        """The partitions of the topic, each with the topic's name."""
        return [(self.name, partition) for partition in range(self.partitions)]


def changelog_topic(
    store: StoreSpec,
    application_id: str,
    *,
    partitions: int,
    replication_factor: int = BROKER_DEFAULT,
    additional_retention_ms: int = 86_400_000,
    defaults: Mapping[str, str] | None = None,
) -> TopicSpec | None:
    """Returns the specification of the changelog topic of a store, which is compacted.

    For windows and sessions, records beyond the retention are deleted as well.

    That of a store which retains duplicates only does the latter; that of a versioned store is compacted only what is
    older than its history.

    Args:
        store: the store.
        application_id: prefix of the topic name.
        partitions: as many as the sub-topology has tasks.
        replication_factor: of the configuration.
        additional_retention_ms: ``windowstore.changelog.additional.retention.ms``, added to the store's retention
            since brokers go by the wall clock and stores by stream time.
        defaults: ``topic.*`` settings of the configuration; the store's own settings win over them.

    Returns:
        ``None`` for a store that is not logged or whose changelog is an input topic, which is not ours to create.
    """
    name = store.own_changelog_topic(application_id)
    if name is None:
        return None
    own = dict(store.changelog_settings)
    windowed = store.kind in (StoreKind.WINDOW, StoreKind.SESSION)
    settings = {**_INTERNAL, "cleanup.policy": "compact,delete" if windowed else "compact", **(defaults or {}), **own}
    if store.retains_duplicates and not store.supplied:
        # Compaction has nothing to remove where no key comes twice; as in Kafka Streams no setting changes that.
        settings["cleanup.policy"] = "delete"
    if windowed and "retention.ms" not in own:
        settings["retention.ms"] = str(min(store.retention_ms + additional_retention_ms, _MAX_LONG))
    if store.kind is StoreKind.VERSIONED and "min.compaction.lag.ms" not in own:
        # History is restored from the changelog, so compaction must leave it alone; brokers go by the wall clock.
        lag_ms = store.history_retention_ms + _COMPACTION_LAG_BEYOND_HISTORY_MS
        settings["min.compaction.lag.ms"] = str(min(lag_ms, _MAX_LONG))
    return TopicSpec(name=name, partitions=partitions, replication_factor=replication_factor, settings=settings)


def repartition_topic(
    repartition: RepartitionTopicSpec,
    application_id: str,
    *,
    partitions: int,
    replication_factor: int = BROKER_DEFAULT,
    defaults: Mapping[str, str] | None = None,
) -> TopicSpec:
    """Returns the specification of a repartition topic between two sub-topologies.

    Nothing in it expires: the application deletes what it has processed.

    Args:
        repartition: the topic without its prefix.
        application_id: prefix of the topic name.
        partitions: used where the topic says no number of its own.
        replication_factor: of the configuration.
        defaults: ``topic.*`` settings of the configuration.
    """
    return TopicSpec(
        name=f"{application_id}-{repartition.name}",
        partitions=repartition.partitions or partitions,
        replication_factor=replication_factor,
        settings={**_INTERNAL, **_REPARTITION, **(defaults or {})},
    )


def with_limits_of_inputs(
    topic: TopicSpec, inputs: Collection[Mapping[str, str]], *, values: int = 1, broker_max_message_bytes: int = 0
) -> TopicSpec:
    """Returns an internal topic that accepts every record that the inputs' limits accept; limits set by the user stay.

    Kafka Streams leaves them at the broker's defaults, so that a record which an input has taken may be refused midway:
    one that is more than an hour ahead of the broker's clock, or as large as a record may be.

    Args:
        topic: the topic.
        inputs: settings of the topics that the application reads and that are not its own.
        values: how many values of inputs one record may have: 2 for the change of a table, which has the old one, too.
        broker_max_message_bytes: ``message.max.bytes`` of the brokers, which topics have that say nothing else.
    """
    limits: dict[str, str] = {}
    known = {key for settings in inputs for key in settings}
    for key in (BEFORE_MAX, AFTER_MAX) if AFTER_MAX in known else {DIFFERENCE_MAX} & known:
        limits[key] = str(_MAX_LONG)
    largest = max((int(settings.get("max.message.bytes", 0)) for settings in inputs), default=0)
    needed = values * (largest or DEFAULT_MAX_MESSAGE_BYTES) + _ROOM_BYTES
    if needed > broker_max_message_bytes:
        limits["max.message.bytes"] = str(needed)
    settings = {**limits, **topic.settings}
    if int(settings.get("segment.bytes", needed)) < needed:
        settings["segment.bytes"] = str(needed)
    return replace(topic, settings=settings)


def lower_limits(topic: TopicSpec, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the limits of an existing internal topic that are too low, with the values that are needed."""
    return {
        key: topic.settings[key]
        for key in (BEFORE_MAX, AFTER_MAX, DIFFERENCE_MAX, "max.message.bytes", "segment.bytes")
        if key in topic.settings and int(settings.get(key, topic.settings[key])) < int(topic.settings[key])
    }


def damaging_settings(name: str, settings: Mapping[str, str], *, wanted_timestamp_type: str = "CreateTime") -> str:
    """Returns how a setting of an existing internal topic damages its records, in words; empty where none does.

    Args:
        name: its name, which tells repartition topics and changelogs apart.
        settings: as they are.
        wanted_timestamp_type: ``CreateTime``, unless the configuration says something else.
    """
    found = settings.get("message.timestamp.type", wanted_timestamp_type)
    if found != wanted_timestamp_type:
        return f"{name} has message.timestamp.type={found}, so that records lose their event times"
    if not name.endswith("-changelog") and "compact" in settings.get("cleanup.policy", ""):
        return f"{name} has cleanup.policy={settings['cleanup.policy']}, so that records are lost between two tasks"
    return ""
