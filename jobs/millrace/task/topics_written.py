"""The topics that a task writes to: those known at the start, and those that its records name later."""

from __future__ import annotations

from dataclasses import dataclass, field

from millrace.errors import StateError, UnknownTopicError
from millrace.kafka.admin import KafkaAdmin
from millrace.task.spec import TaskSpec


@dataclass
class TopicsWritten:
    """Partitions and largest records of topics.

    Args:
        spec: the task, with what was known at the start.
        admin: asked for the others, once for each that exists.
        partition_counts: partitions by topic.
        max_message_bytes: largest record by topic.
    """

    spec: TaskSpec
    admin: KafkaAdmin
    partition_counts: dict[str, int] = field(default_factory=dict)
    max_message_bytes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partition_counts.update(self.spec.partition_counts)
        self.max_message_bytes.update(self.spec.max_message_bytes)

    def knows(self, topic: str) -> bool:
        """Whether ``topic`` need not be asked for."""
        return topic in self.partition_counts

    def learn(self, topic: str, *, letters: bool = False) -> None:
        """Asks for a topic that a record names, or a dead letter of a handler.

        Args:
            topic: its name.
            letters: whether an exception handler has named it, which may name any topic.

        Raises:
            StateError: no sink chooses topics, so it ought to have been known at the start.
            UnknownTopicError: it does not exist.
            MillraceError: the broker could not be asked, or refuses to describe it.
        """
        if not letters and not any(sink.extractor is not None for sink in self.spec.sub_topology.sinks):
            raise StateError(
                f"Task {self.spec.name} writes to topic {topic}, which did not exist when the application started.",
                remedy="create the topic and start the application again",
            )
        found = self.admin.describe_topics([topic]).get(topic)
        if found is None:
            if letters:
                raise UnknownTopicError(
                    f"Task {self.spec.name} has a dead letter for topic {topic}, which an exception handler names and "
                    "which does not exist.",
                    remedy=f"create it (`millrace topics create {topic}`), or correct what the handler gives",
                )
            raise UnknownTopicError(
                f"Task {self.spec.name} has a record for topic {topic}, which does not exist.",
                remedy=f"create it (`millrace topics create {topic}`), or correct what the extractor gives",
            )
        self.max_message_bytes |= self.admin.max_message_bytes([topic])
        self.partition_counts[topic] = found.partitions
