"""The positions of an application's outputs, for those who wait for the stream's progress."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.dsl.loading import load_topology
from millrace.install.application import Application
from millrace.install.connection import Connection
from millrace.kafka.offsets import end_offsets


@dataclass(frozen=True, kw_only=True)
class TopicPosition:
    """The end of a topic for readers of committed records.

    Args:
        topic: its name.
        offsets: the next offset by partition; records before it are committed or aborted for good.
    """

    topic: str
    offsets: Mapping[int, int]

    @property
    def total(self) -> int:
        """The sum over all partitions."""
        return sum(self.offsets.values())


def output_positions(application: Application) -> tuple[TopicPosition, ...]:
    """Returns the positions of the topics that an application writes its results to, by name.

    Dead-letter topics are not among them.

    Args:
        application: which.

    Raises:
        ConfigurationError: it has no valid specification here.
        MillraceError: the topology cannot be built, or no broker answered.
    """
    spec = application.launched.spec
    config = spec.streams_config()
    outputs = sorted(load_topology(spec.module, config).external_outputs)
    admin = Connection.of(config).administrator()
    topic_partitions = [
        topic_partition
        for topic in admin.describe_topics(outputs).values()
        for topic_partition in topic.topic_partitions
    ]
    ends = end_offsets(admin, topic_partitions)
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), end in sorted(ends.items()):
        by_topic.setdefault(topic, {})[partition] = end
    return tuple(TopicPosition(topic=topic, offsets=offsets) for topic, offsets in by_topic.items())
