"""The topics that an application's specification declares."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from millrace.config import StreamsConfig
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.ops.spec import ApplicationSpec

_LIMIT_S = 30.0


def admin_client(config: StreamsConfig) -> AdminClient:
    """An admin client with the application's settings for it (``admin.*``)."""
    return AdminClient(base_settings(config.bootstrap_servers, config.client_settings("admin.")))


def missing_topics(spec: ApplicationSpec) -> tuple[str, ...]:
    """Names of the declared topics that the broker does not have, in the order of the specification.

    Raises:
        BrokerUnavailableError: no broker answered.
        PreflightError: the broker refused.
    """
    if not spec.topics:
        return ()
    config = spec.streams_config()
    try:
        existing = admin_client(config).list_topics(timeout=_LIMIT_S).topics
    except KafkaException as error:
        raise translate(
            kafka_error(error), doing="listing topics", bootstrap_servers=config.bootstrap_servers
        ) from error
    return tuple(topic.name for topic in spec.topics if topic.name not in existing)


def create_topics(spec: ApplicationSpec) -> tuple[str, ...]:
    """Create the declared topics that are missing; those that exist are left as they are.

    Returns:
        Names of the topics that were created.

    Raises:
        BrokerUnavailableError: no broker answered.
        PreflightError: the broker refused.
        OperationError: a topic could not be created; the message names it.
    """
    missing = missing_topics(spec)
    if not missing:
        return ()
    config = spec.streams_config()
    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=topic.settings_text(),
        )
        for topic in spec.topics
        if topic.name in missing
    ]
    created = []
    futures = admin_client(config).create_topics(new, operation_timeout=_LIMIT_S, request_timeout=_LIMIT_S)
    for name, future in futures.items():
        try:
            future.result(timeout=2 * _LIMIT_S)
        except KafkaException as error:
            problem = kafka_error(error)
            # Somebody else created it between our two requests.
            if problem.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise translate(
                    problem, doing=f"creating topic {name}", bootstrap_servers=config.bootstrap_servers
                ) from error
        else:
            created.append(name)
    return tuple(created)
