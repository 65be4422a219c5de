"""Making the log of a topic equal to some records: they are written behind what is there, which is then deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from millrace.config import StreamsConfig
from millrace.install.connection import admin_of
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import kafka_error
from millrace.kafka.offsets import End, begin_offsets, end_offsets
from millrace.kafka.producer import TaskProducer
from millrace.kafka.topics import TopicSpec
from millrace.state.record_file import RecordBatch
from millrace.topology.topic_partition import TopicPartition

POLICY_LIMIT_S = 10.0
"""How long a broker may take to go by new settings of a topic."""

LogRange = tuple[int, int]
"""First offset, and the one behind the last."""


class LogWriter:
    """Writes to topics that no other process writes to now. Repeating it after a crash is harmless: the last attempt
    counts.

    Args:
        config: the application's configuration.
        topics: the topics that will be written to.
    """

    def __init__(self, config: StreamsConfig, topics: Iterable[str]) -> None:
        self._config = config
        self._admin = admin_of(config)
        self._topic_limits = self._admin.topic_limits(topics)

    def write(
        self, batches: Iterable[tuple[TopicPartition, RecordBatch]], places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, LogRange]:
        """Write records behind what the partitions have.

        Args:
            batches: records, each batch for one partition.
            places: all partitions, those that get no records included.

        Returns:
            where the records are.

        Raises:
            BrokerUnavailableError: the broker does not take them.
        """
        targets = list(places)
        starts = end_offsets(self._admin, targets, End.HIGH_WATERMARK)
        ends = dict(starts)
        with TaskProducer(
            self._config.bootstrap_servers,
            transactional_id=None,
            settings=self._config.client_settings("producer."),
            topic_limits=self._topic_limits,
        ) as producer:
            producer.begin()
            for (topic, partition), batch in batches:
                producer.send(
                    topic, batch.keys, batch.values, batch.timestamps, partition=partition, headers=batch.headers
                )
            producer.flush()
            for place in targets:
                ends[place] = producer.sent_end_offset(*place) or starts[place]
        return {place: (starts[place], ends[place]) for place in targets}

    def delete_before(
        self, starts: Mapping[TopicPartition, int], policies: Mapping[str, Mapping[str, str | None]]
    ) -> None:
        """Delete what lies before these offsets.

        Args:
            starts: the new first offset of each partition.
            policies: settings that topics get back which do not allow it; those are changed while it happens.
        """
        begins = begin_offsets(self._admin, list(starts))
        wanted = {place: start for place, start in starts.items() if start > begins[place]}
        if wanted:
            with self._deletable(policies):
                # A broker that has been told of the new settings goes by the old ones for a moment.
                Retrying(
                    retry=retry_if_exception(_is_policy_violation),
                    stop=stop_after_delay(POLICY_LIMIT_S),
                    wait=wait_fixed(0.05),
                    reraise=True,
                )(self._admin.delete_records, wanted)

    @contextmanager
    def _deletable(self, policies: Mapping[str, Mapping[str, str | None]]) -> Iterator[None]:
        # Without a retention of its own the topic would lose what is older than the broker's.
        for topic in policies:
            self._admin.change_topic_settings(
                topic, {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
            )
        try:
            yield
        finally:
            for topic, settings in policies.items():
                self._admin.change_topic_settings(topic, settings)


def _is_policy_violation(error: BaseException) -> bool:
    cause = error.__cause__
    return isinstance(cause, KafkaException) and kafka_error(cause).code() == KafkaError.POLICY_VIOLATION


def policies_to_restore(admin: KafkaAdmin, topics: Iterable[TopicSpec]) -> dict[str, dict[str, str | None]]:
    """The settings of those topics from which nothing can be deleted, to be given back to them afterwards.

    Args:
        admin: the cluster.
        topics: as they are to be; those that exist have perhaps other settings.
    """
    wanted = {spec.name: spec for spec in topics}
    existing = admin.describe_topics(wanted)
    found: dict[str, dict[str, str | None]] = {}
    for topic, spec in wanted.items():
        own = admin.own_topic_settings(topic) if topic in existing else spec.settings
        if "delete" not in own.get("cleanup.policy", "delete"):
            found[topic] = {name: own.get(name) for name in ("cleanup.policy", "retention.ms", "retention.bytes")}
    return found
