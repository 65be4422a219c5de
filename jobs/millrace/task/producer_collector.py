"""The collector that sends a task's output to its producer, within the batch's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from millrace.kafka.producer import TaskProducer
from millrace.kafka.record_limits import Refusal
from millrace.kafka.refusals import KnownRefusals
from millrace.task.collector import OutputBatch
from millrace.task.crash_points import CrashPoint, crash_here
from millrace.task.topics_written import TopicsWritten


class LearnTopic(Protocol):
    """A function that looks up an unknown topic and returns the producer that can write to it."""

    def __call__(self, topic: str, *, dead_letters: bool = False) -> TaskProducer:
        """Looks up a topic that a record names, or that a dead-letter record is for."""
        ...


class ProducerCollector:
    """The collector that sends output within the batch's transaction, which its first record opens.

    Args:
        producer: the task's.
        topics: what is known of the topics that the task writes to.
        learn: asks for further ones.
        known_refusals: records that the broker has refused at an earlier attempt.
        sent_topics: gets the topics to which records were sent.
    """

    def __init__(
        self,
        producer: TaskProducer,
        topics: TopicsWritten,
        learn: LearnTopic,
        *,
        known_refusals: KnownRefusals,
        sent_topics: set[str],
    ) -> None:
        self._known_refusals = known_refusals
        self._sent_topics = sent_topics
        self._producer = producer
        self._topics = topics
        self._learn = learn
        self.written: Counter[str] = Counter()
        self.changelog_topics: dict[str, str] = {}

    def begin(self) -> None:
        """Opens the transaction unless it is already open."""
        if not self._producer.in_transaction:
            crash_here(CrashPoint.BEFORE_TRANSACTION)
            self._producer.begin()

    def send(self, batch: OutputBatch) -> None:
        """Sends a batch of records.

        Raises:
            UnknownTopicError: it is for a topic that an exception handler names, and that does not exist.
            RecordRefusedError: the topic does not take a record; none of the batch was sent.
        """
        self.expect_dead_letter_records([batch.topic])
        for _, error in self._refused_before(batch):
            raise error
        self._sent_topics.add(batch.topic)
        self.begin()
        self._producer.send(
            batch.topic,
            batch.keys,
            batch.values,
            batch.timestamps,
            partition=batch.partitions if isinstance(batch.partitions, int) else None,
            partitions=None if isinstance(batch.partitions, int) else batch.partitions,
            headers=None if batch.headers is None else batch.headers.tolist(),
            track=batch.store is not None,
        )
        if batch.store is not None:
            self.changelog_topics[batch.store] = batch.topic
        else:
            self.written[batch.topic] += len(batch)

    def expect_dead_letter_records(self, topics: Iterable[str]) -> None:
        """Looks up topics that handlers name, before anything is sent: they may need another producer."""
        for topic in topics:
            if not self._topics.knows(topic):
                self._producer = self._learn(topic, dead_letters=True)

    def refused(self, batch: OutputBatch) -> list[Refusal]:
        """Returns the records that their topic would refuse, or that the broker has refused already."""
        headers = None if batch.headers is None else batch.headers.tolist()
        found = self._producer.refused(batch.topic, batch.keys, batch.values, headers, batch.timestamps)
        return sorted({**dict(self._refused_before(batch)), **dict(found)}.items())

    def _refused_before(self, batch: OutputBatch) -> list[Refusal]:
        if not self._known_refusals:
            return []
        headers = None if batch.headers is None else batch.headers.tolist()
        return self._known_refusals.among(batch.topic, batch.keys, batch.values, headers, batch.timestamps)

    def partition_count(self, topic: str) -> int:
        """Returns the number of partitions of a topic; looks the topic up if a record names it.

        Raises:
            StateError: the topic was not there when the application started.
            UnknownTopicError: a record names it, and it does not exist.
            TopicRefusedError: the application may not write to it.
        """
        if not self._topics.knows(topic):
            self._producer = self._learn(topic)
        return self._topics.partition_counts[topic]
