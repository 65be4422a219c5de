"""The internal topics of an application: their required settings, and the check of those that exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import structlog

from millrace.config import StreamsConfig
from millrace.errors import PreflightError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.topics import (
    TopicSpec,
    changelog_topic,
    damaging_settings,
    lower_limits,
    repartition_topic,
    with_limits_of_inputs,
)
from millrace.serdes.changes import ChangeSerde
from millrace.topology.layout import TopologyLayout
from millrace.topology.stores import StoreKind
from millrace.topology.topology import FrozenTopology

log = structlog.get_logger(__name__)

_VALUES_OF_A_CHANGE = 2
_VALUES_OF_A_BUFFERED_CHANGE = 3
"""Old and new one, and what was sent downstream before."""


def internal_topics(
    topology: FrozenTopology,
    config: StreamsConfig,
    partitions: Mapping[str, int],
    *,
    inputs: Collection[Mapping[str, str]] = (),
    broker_max_message_bytes: int = 0,
) -> list[TopicSpec]:
    """Returns the repartition and changelog topics that the application needs.

    Args:
        topology: the topology.
        config: the application's configuration.
        partitions: number of partitions of the topics that are not its own.
        inputs: settings of those of them that it reads.
        broker_max_message_bytes: ``message.max.bytes`` of the brokers.
    """
    application_id = config.application_id
    layout = TopologyLayout.over_inputs(topology, application_id, partitions)
    sinks = [sink for part in topology.sub_topologies for sink in part.sinks]
    changes = {sink.topic for sink in sinks if isinstance(sink.value_serde, ChangeSerde)}
    specs: list[TopicSpec] = []

    def add(topic: TopicSpec, values: int) -> None:
        specs.append(
            with_limits_of_inputs(topic, inputs, values=values, broker_max_message_bytes=broker_max_message_bytes)
            if inputs
            else topic
        )

    for spec in topology.repartition_topics:
        topic = repartition_topic(
            spec,
            application_id,
            partitions=layout.partitions[f"{application_id}-{spec.name}"],
            replication_factor=config.replication_factor,
            defaults=config.client_settings("topic."),
        )
        add(topic, _VALUES_OF_A_CHANGE if spec.name in changes else 1)
    for part in topology.sub_topologies:
        for store in part.stores:
            changelog = changelog_topic(
                store,
                application_id,
                partitions=layout.task_counts[part.number],
                replication_factor=config.replication_factor,
                additional_retention_ms=config.windowstore_changelog_additional_retention_ms,
                defaults=config.client_settings("topic."),
            )
            if changelog is not None:
                add(changelog, _VALUES_OF_A_BUFFERED_CHANGE if store.kind is StoreKind.BUFFER else 1)
    return specs


def check_existing(admin: KafkaAdmin, specs: Collection[TopicSpec], application_id: str) -> None:
    """Raises too low limits of existing internal topics; refuses topics that would damage their records.

    A limit that the application may not raise is logged: what it then refuses goes to the production exception handler.

    Raises:
        PreflightError: a topic replaces timestamps, or a repartition topic is compacted.
    """
    found = admin.settings_of_topics([spec.name for spec in specs])
    damaging = [
        problem
        for spec in specs
        if (
            problem := damaging_settings(
                spec.name,
                found[spec.name],
                wanted_timestamp_type=spec.settings.get("message.timestamp.type", "CreateTime"),
            )
        )
    ]
    if damaging:
        raise PreflightError(
            f"Internal topics of {application_id} would damage their records: {'; '.join(damaging)}.",
            remedy="correct the settings of the topics (kafka-configs.sh --alter)",
        )
    for spec in specs:
        limits = lower_limits(spec, found[spec.name])
        if not limits:
            continue
        try:
            admin.change_topic_settings(spec.name, limits)
        except PreflightError as error:
            log.warning("limits not raised", topic=spec.name, limits=limits, problem=error.message)
        else:
            log.info("limits raised", topic=spec.name, limits=limits)
