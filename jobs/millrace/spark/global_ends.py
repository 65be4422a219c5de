"""The offsets that the global stores of a sub-topology must have reached before a batch of it is processed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.offsets import end_offsets
from millrace.task.spec import GlobalStoreSpec
from millrace.topology.topic_partition import TopicPartition

NEW_PARTITIONS_S = 5.0
"""How long partitions that are added to the topic of a global store may stay unnoticed."""


class GlobalEnds:
    """A reader of the end offsets of the topics of global stores. Not thread-safe.

    Args:
        admin: an administrator of the cluster.
        stores: the global stores; without any, nothing is asked.
    """

    def __init__(self, admin: KafkaAdmin, stores: Sequence[GlobalStoreSpec]) -> None:
        self._admin = admin
        self._stores = tuple(stores)
        self._topic_partitions: list[TopicPartition] = []
        self._known_at = float("-inf")

    def now(self) -> dict[TopicPartition, int]:
        """Returns the current end offsets for readers of committed records.

        What was in a global store's topic before a record of the input is seen with it, where this is asked after the
        record was read.

        Raises:
            MillraceError: the broker could not be asked.
        """
        if not self._stores:
            return {}
        now = time.monotonic()
        if now - self._known_at > NEW_PARTITIONS_S:
            self._known_at = now
            topics = {spec.part.topic: spec.partitions for spec in self._stores}
            found = self._admin.describe_topics(topics)
            self._topic_partitions = [
                (topic, number)
                for topic, count in topics.items()
                for number in range(found[topic].partitions if topic in found else count)
            ]
        return end_offsets(self._admin, self._topic_partitions)
