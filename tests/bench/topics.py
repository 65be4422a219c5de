"""Topics of the benchmark: made, measured and deleted."""

from __future__ import annotations

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

_ANSWER_LIMIT_S = 20.0
_LEADER_LIMIT_S = 30.0


def create_topic(admin: AdminClient, topic: str, *, partitions: int) -> None:
    """Create a topic that keeps records of any age, since the workload's event times are fixed.

    It returns when every partition answers: a broker confirms a topic a moment before it leads its partitions.
    """
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config={"retention.ms": "-1"})
    admin.create_topics([new])[topic].result(timeout=_ANSWER_LIMIT_S)

    def ask() -> int:
        # The client remembers that there were no leaders until it asks for them again.
        admin.list_topics(topic, timeout=_ANSWER_LIMIT_S)
        return stable_end(admin, topic, partitions=partitions)

    Retrying(
        retry=retry_if_exception_type(KafkaException),
        stop=stop_after_delay(_LEADER_LIMIT_S),
        wait=wait_fixed(0.05),
        reraise=True,
    )(ask)


def delete_topics(admin: AdminClient, topics: list[str]) -> None:
    """Delete topics, so that the disk does not fill up over the rounds."""
    for deleted in admin.delete_topics(topics).values() if topics else ():
        deleted.result(timeout=_ANSWER_LIMIT_S)


def stable_end(admin: AdminClient, topic: str, *, partitions: int) -> int:
    """How many offsets of a topic a read_committed consumer can get: last stable offsets, summed.

    Raises:
        KafkaException: a partition did not answer.
    """
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    answers = admin.list_offsets(
        {TopicPartition(topic, partition): latest for partition in range(partitions)},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=_ANSWER_LIMIT_S,
    )
    return sum(int(answer.result(timeout=_ANSWER_LIMIT_S).offset) for answer in answers.values())


def partitions_to_read(topic: str, partitions: int) -> list[TopicPartition]:
    """Every partition of a topic from its beginning."""
    return [TopicPartition(topic, partition, 0) for partition in range(partitions)]
