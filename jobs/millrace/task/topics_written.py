"""The topics that a task writes to: those known at the start, and those that its records name later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from millrace.errors import StateError, TopicRefusedError, UnknownTopicError
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.record_limits import TopicLimits
from millrace.task.spec import TaskSpec


@dataclass
class TopicsWritten:
    """The partition counts and limits of topics.

    Args:
        spec: the task, with what was known at the start.
        admin: asked for the others, once for each that exists.
        partition_counts: partitions by topic.
        limits: what topics take.
    """

    spec: TaskSpec
    admin: KafkaAdmin
    partition_counts: dict[str, int] = field(default_factory=dict)
    limits: dict[str, TopicLimits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.partition_counts.update(self.spec.part.partition_counts)
        self.limits.update(self.spec.part.topic_limits)

    def knows(self, topic: str) -> bool:
        """Returns whether ``topic`` is known, so that it need not be looked up."""
        return topic in self.partition_counts

    def learn(self, topic: str, *, dead_letters: bool = False) -> None:
        """Looks up a topic that a record names, or a dead-letter record of a handler.

        Args:
            topic: its name.
            dead_letters: whether an exception handler has named it, which may name any topic.

        Raises:
            StateError: it was there at the start and is not any more; or no sink chooses topics, so it ought to have
                been known then.
            UnknownTopicError: it does not exist.
            TopicRefusedError: the application may not write to it.
            MillraceError: the broker could not be asked, or refuses to describe it.
        """
        is_known = topic in self.spec.part.partition_counts
        if (
            not dead_letters
            and not is_known
            and not any(sink.extractor is not None for sink in self.spec.sub_topology.sinks)
        ):
            raise StateError(
                f"Task {self.spec.name} writes to topic {topic}, which did not exist when the application started.",
                remedy="create the topic and start the application again",
            )
        if topic in self.admin.unwritable_topics([topic]):
            user = self.spec.config.application_id
            raise TopicRefusedError(
                f"Task {self.spec.name} may not write to topic {topic}: the broker's permissions do not let it.",
                remedy=f"grant WRITE and DESCRIBE on topic {topic} (`millrace acls {user}` lists what is needed)",
            )
        found = self.admin.describe_topics([topic]).get(topic)
        if found is None and is_known:
            raise StateError(
                f"Task {self.spec.name} writes to topic {topic}, which was deleted while the application ran.",
                remedy=f"create it again with {self.spec.part.partition_counts[topic]} partitions (`millrace topics "
                "create`), and start the application again: it resumes at its committed offsets",
            )
        if found is None:
            if dead_letters:
                raise UnknownTopicError(
                    f"Task {self.spec.name} has a dead-letter record for topic {topic}, which an exception handler "
                    f"names and "
                    "which does not exist.",
                    remedy=f"create it (`millrace topics create {topic}`), or correct what the handler gives",
                )
            raise UnknownTopicError(
                f"Task {self.spec.name} has a record for topic {topic}, which does not exist.",
                remedy=f"create it (`millrace topics create {topic}`), or correct what the extractor gives",
            )
        self.limits |= self.admin.topic_limits([topic])
        self.partition_counts[topic] = found.partitions

    def refresh(self, topics: Iterable[str]) -> bool:
        """Reads the topics again after a refusal: their limits may have changed, or they are gone or forbidden.

        Args:
            topics: those that were written to. Of one that is gone or forbidden, :meth:`learn` then says so.

        Returns:
            Whether anything is another than was thought.
        """
        known = [topic for topic in topics if self.knows(topic)]
        existing = self.admin.describe_topics(known)
        lost = (set(known) - set(existing)) | self.admin.unwritable_topics(list(existing))
        for topic in lost:
            del self.partition_counts[topic]
        limits = self.admin.topic_limits(set(existing) - lost)
        changed = any(self.limits.get(topic) != found for topic, found in limits.items())
        self.limits |= limits
        return changed or bool(lost)
