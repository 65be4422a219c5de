"""What topics an application needs, with the settings that Kafka Streams gives them. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.topology.nodes import RepartitionTopicSpec
from millrace.topology.stores import StoreKind, StoreSpec

_SEGMENT_BYTES = str(50 * 1024 * 1024)


@dataclass(frozen=True, kw_only=True)
class TopicSpec:
    """A topic to create.

    Args:
        name: the broker's name.
        partitions: number of partitions.
        replication_factor: -1 takes the broker's default.
        settings: topic settings that differ from the broker's defaults.
    """

    name: str
    partitions: int
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)


def changelog_topic(
    store: StoreSpec,
    application_id: str,
    *,
    partitions: int,
    replication_factor: int = -1,
    additional_retention_ms: int = 86_400_000,
) -> TopicSpec | None:
    """The changelog topic of a store, ``None`` where it has none of its own.

    Key-value changelogs are compacted; windowed ones also delete what is older than the store keeps, with a margin
    (``windowstore.changelog.additional.retention.ms``), and always by the time of the record.

    Args:
        store: the store.
        application_id: prefix of the name.
        partitions: number of tasks.
        replication_factor: -1 takes the broker's default.
        additional_retention_ms: the margin, milliseconds.
    """
    if not store.logged or store.source_topic is not None:
        return None
    name = store.changelog_topic(application_id)
    assert name is not None
    settings = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact"}
    if store.kind is StoreKind.WINDOW:
        settings["cleanup.policy"] = "compact,delete"
        settings["retention.ms"] = str(store.retention_ms + additional_retention_ms)
    return TopicSpec(
        name=name,
        partitions=partitions,
        replication_factor=replication_factor,
        settings={**settings, **dict(store.changelog_settings)},
    )


def repartition_topic(
    spec: RepartitionTopicSpec, application_id: str, *, partitions: int, replication_factor: int = -1
) -> TopicSpec:
    """A repartition topic: its records stay until the application has committed them, however old they are.

    Args:
        spec: what the topology says.
        application_id: prefix of the name.
        partitions: number of partitions.
        replication_factor: -1 takes the broker's default.
    """
    return TopicSpec(
        name=f"{application_id}-{spec.name}",
        partitions=partitions,
        replication_factor=replication_factor,
        settings={
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "segment.bytes": _SEGMENT_BYTES,
            "message.timestamp.type": "CreateTime",
        },
    )
