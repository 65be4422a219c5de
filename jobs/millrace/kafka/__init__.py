"""Everything that speaks to Kafka: clients, topics, offsets, the transactional producer, the embedded broker."""

from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.broker import EmbeddedBroker
from millrace.kafka.broker_record import BrokerStatus, broker_status, start_detached, stop_detached
from millrace.kafka.commit_metadata import CommitMetadata
from millrace.kafka.groups import GroupMember, GroupMembership, GroupProtocol, fence_transactional_ids, live_members
from millrace.kafka.jars import BROKER_JARS, SPARK_KAFKA_JARS, STREAMS_JARS, JarSet, class_path, resolve_jars
from millrace.kafka.java import find_java
from millrace.kafka.murmur2 import murmur2, partition_for, partitions_for
from millrace.kafka.offsets import (
    CommittedOffset,
    End,
    begin_offsets,
    committed_offsets,
    end_offsets,
    group_lag,
    lag,
    offsets_for_times,
)
from millrace.kafka.producer import Offsets, TaskProducer
from millrace.kafka.topics import TopicDescription, TopicSpec, changelog_topic, repartition_topic

__all__ = [
    "BROKER_JARS",
    "SPARK_KAFKA_JARS",
    "STREAMS_JARS",
    "BrokerStatus",
    "CommitMetadata",
    "CommittedOffset",
    "EmbeddedBroker",
    "End",
    "GroupMember",
    "GroupMembership",
    "GroupProtocol",
    "JarSet",
    "KafkaAdmin",
    "Offsets",
    "TaskProducer",
    "TopicDescription",
    "TopicSpec",
    "begin_offsets",
    "broker_status",
    "changelog_topic",
    "class_path",
    "committed_offsets",
    "end_offsets",
    "fence_transactional_ids",
    "find_java",
    "group_lag",
    "lag",
    "live_members",
    "murmur2",
    "offsets_for_times",
    "partition_for",
    "partitions_for",
    "repartition_topic",
    "resolve_jars",
    "start_detached",
    "stop_detached",
]
