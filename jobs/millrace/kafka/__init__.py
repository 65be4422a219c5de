"""Everything that speaks to Kafka: clients, topics, offsets, the transactional producer, the embedded broker."""

from millrace.kafka.broker import EmbeddedBroker
from millrace.kafka.commit_metadata import CommitMetadata
from millrace.kafka.murmur2 import murmur2, partition_for, partitions_for
from millrace.kafka.producer import Offsets, TaskProducer

__all__ = [
    "CommitMetadata",
    "EmbeddedBroker",
    "Offsets",
    "TaskProducer",
    "murmur2",
    "partition_for",
    "partitions_for",
]
