"""Asking the broker about topics, and changing them. Every call ends within its time limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from millrace.errors import PreflightError
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.kafka.topics import TopicSpec

DEFAULT_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class TopicDescription:
    """A topic as the broker has it.

    Args:
        name: its name.
        partitions: number of partitions.
        topic_id: the broker's UUID of it: another one after the topic was deleted and created again.
        replication_factor: replicas of partition 0.
    """

    name: str
    partitions: int
    topic_id: str
    replication_factor: int


class KafkaAdmin:
    """The administrative calls that Millrace makes.

    Args:
        bootstrap_servers: comma-separated ``host:port``.
        settings: client settings of the user (security).
        timeout_s: longest time of one call, seconds.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._timeout_s = timeout_s
        self._client = AdminClient(base_settings(bootstrap_servers, settings))

    def topic_names(self) -> list[str]:
        """All topics of the cluster, sorted.

        Raises:
            BrokerUnavailableError: no broker answered in time.
        """
        try:
            return sorted(self._client.list_topics(timeout=self._timeout_s).topics)
        except KafkaException as error:
            raise self._translated(error, "listing topics") from error

    def broker_count(self) -> int:
        """Number of brokers; raises as :meth:`topic_names`."""
        try:
            return len(self._client.list_topics(timeout=self._timeout_s).brokers)
        except KafkaException as error:
            raise self._translated(error, "listing brokers") from error

    def describe(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Those of the topics that exist; raises as :meth:`topic_names`."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        found = {}
        for name, future in self._described(wanted).items():
            try:
                topic = future.result(self._timeout_s + 1)
            except KafkaException as error:
                if kafka_error(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._translated(error, f"describing topic {name}") from error
            found[name] = TopicDescription(
                name, len(topic.partitions), str(topic.topic_id), len(topic.partitions[0].replicas)
            )
        return found

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Creates the topics that are missing, and returns their names.

        Raises:
            PreflightError: one exists with another number of partitions, or the broker refused.
            BrokerUnavailableError: no broker answered in time.
        """
        existing = self.describe(spec.name for spec in specs)
        wrong = [
            f"{spec.name}: expected: {spec.partitions}, actual: {existing[spec.name].partitions}"
            for spec in specs
            if spec.name in existing and existing[spec.name].partitions != spec.partitions
        ]
        if wrong:
            raise PreflightError(
                f"Topics exist with another number of partitions than the application needs; {', '.join(wrong)}.",
                remedy="reset the application if its input was re-partitioned, or give the topic the number it needs",
            )
        missing = [spec for spec in specs if spec.name not in existing]
        if not missing:
            return []
        futures = self._client.create_topics(
            [
                NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.settings))
                for spec in missing
            ],
            operation_timeout=self._timeout_s,
            request_timeout=self._timeout_s,
        )
        for name, future in futures.items():
            try:
                future.result(self._timeout_s + 1)
            except KafkaException as error:
                if kafka_error(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._translated(error, f"creating topic {name}") from error
        return [spec.name for spec in missing]

    def delete(self, names: Sequence[str]) -> None:
        """Deletes topics; those that do not exist are no error."""
        if not names:
            return
        for name, future in self._client.delete_topics(list(names), operation_timeout=self._timeout_s).items():
            try:
                future.result(self._timeout_s + 1)
            except KafkaException as error:
                if kafka_error(error).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._translated(error, f"deleting topic {name}") from error

    def settings_of(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """All settings in force of topics that exist."""
        return self._settings(ConfigResource.Type.TOPIC, list(names))

    def broker_settings(self) -> dict[str, str]:
        """All settings in force of one of the brokers."""
        try:
            brokers = self._client.list_topics(timeout=self._timeout_s).brokers
        except KafkaException as error:
            raise self._translated(error, "listing brokers") from error
        broker = str(min(brokers))
        return self._settings(ConfigResource.Type.BROKER, [broker])[broker]

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Deletes the records of partitions in front of an offset each."""
        asked = [TopicPartition(topic, partition, offset) for (topic, partition), offset in before.items()]
        if not asked:
            return
        for place, future in self._client.delete_records(asked, request_timeout=self._timeout_s).items():
            try:
                future.result(self._timeout_s + 1)
            except KafkaException as error:
                raise self._translated(error, f"deleting records of {place.topic}-{place.partition}") from error

    def _described(self, names: list[str]) -> dict[str, Any]:
        described: dict[str, Any] = self._client.describe_topics(
            TopicCollection(names), request_timeout=self._timeout_s
        )
        return described

    def _settings(self, kind: Any, names: list[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        asked = [ConfigResource(kind, name) for name in names]
        settings = {}
        for resource, future in self._client.describe_configs(asked, request_timeout=self._timeout_s).items():
            try:
                entries = future.result(self._timeout_s + 1)
            except KafkaException as error:
                raise self._translated(error, f"reading the settings of {resource.name}") from error
            settings[resource.name] = {name: entry.value for name, entry in entries.items() if entry.value is not None}
        return settings

    def _translated(self, error: KafkaException, doing: str) -> Exception:
        return translate(kafka_error(error), doing=doing, bootstrap_servers=self._bootstrap_servers)


def require_topics(described: Mapping[str, TopicDescription], names: Iterable[str]) -> None:
    """Checks that topics exist.

    Raises:
        PreflightError: names those that are missing.
    """
    missing = sorted(set(names) - set(described))
    if missing:
        raise PreflightError(
            f"Topics are missing on the broker: {', '.join(missing)}.",
            remedy="create them (millrace topics create), or correct their names in the application",
        )
