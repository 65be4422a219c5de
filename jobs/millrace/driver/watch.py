"""The watch over a running application's group and input topics, which no other client may change.

It runs at each heartbeat: each commit checks the topics too, but an idle application does not commit.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException

from millrace.config import StreamsConfig
from millrace.errors import OffsetsMovedError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import base_settings, kafka_error, translate
from millrace.kafka.offsets import CommittedOffset, ask_committed
from millrace.task.input_topics import check_input_topics
from millrace.task.signature import MOVED_OFFSETS_REMEDY, Signature
from millrace.topology.topic_partition import TopicPartition


class InputWatch:
    """The check that the input topics are still those of the start, and that the group's offsets are our own.

    Spark would notice neither: it knows topics by their names, and the group not at all.

    Args:
        admin: the cluster.
        config: the application's configuration.
    """

    def __init__(self, admin: KafkaAdmin, config: StreamsConfig) -> None:
        self._admin = admin
        self._config = config
        self._consumer: Consumer | None = None

    def check(
        self,
        *,
        topic_ids: Mapping[str, str],
        partitions: Mapping[str, int],
        changelog_ids: Mapping[str, str] | None = None,
        global_topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Checks topics and offsets once.

        Args:
            topic_ids: UUID of each input topic as of the start.
            partitions: number of partitions of each input topic as of the start.
            changelog_ids: UUID of each changelog topic as of the start.
            global_topic_ids: UUID of each topic of a global store as of the start.

        Raises:
            StateError: a topic was deleted, perhaps created again.
            OffsetsMovedError: another client committed to the group.
            MillraceError: the broker could not be asked.
        """
        application_id = self._config.application_id
        check_input_topics(
            self._admin, topic_ids, application_id, changelog_ids=changelog_ids, global_topic_ids=global_topic_ids
        )
        moved = foreign_commits(
            self._commits([(name, number) for name, count in partitions.items() for number in range(count)])
        )
        if moved:
            raise OffsetsMovedError(
                f"Another client committed offsets of group {application_id} while it ran: "
                + ", ".join(f"{topic}-{partition} at {offset}" for (topic, partition), offset in moved.items())
                + ".",
                remedy=MOVED_OFFSETS_REMEDY,
            )

    def _commits(self, topic_partitions: list[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Returns the committed offsets, read by a consumer that never joins the group.

        librdkafka's admin request ends the process when a broker that starts again is not yet the group's coordinator
        (librdkafka issue 5040).
        """
        servers = self._config.bootstrap_servers
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    **base_settings(servers, self._config.client_settings("consumer.")),
                    "group.id": self._config.application_id,
                    "enable.auto.commit": False,
                    # Otherwise the answer waits for the end of open transactions.
                    "isolation.level": "read_uncommitted",
                }
            )
        try:
            return ask_committed(self._consumer, topic_partitions, timeout_s=self._admin.timeout_s)
        except KafkaException as error:
            doing = f"reading committed offsets of {self._config.application_id}"
            raise translate(kafka_error(error), doing=doing, bootstrap_servers=servers) from error


def foreign_commits(commits: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, int]:
    """Returns the offsets that do not carry a signature of Millrace."""
    return {
        topic_partition: commit.offset
        for topic_partition, commit in commits.items()
        if Signature.of({topic_partition: commit}) is None
    }
