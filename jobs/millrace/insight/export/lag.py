"""Lag under transactions: what a read_committed reader has still to process, not what lies in the log.

A transaction ends with a marker, which takes an offset and is no record: a group that has read everything seems to be 1
behind in tools that subtract offsets. Records of open transactions lie behind the last stable offset, those of aborted
ones before it. So the lag ends at the last stable offset, and a small one is counted record by record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import KafkaException

from millrace.config import StreamsConfig
from millrace.kafka.admin import KafkaAdmin
from millrace.kafka.clients import kafka_error, translate
from millrace.kafka.log_reader import IsolationLevel, LogReader, OutOfRange, topic_partition_of
from millrace.kafka.offsets import begin_offsets, committed_offsets, end_offsets
from millrace.kafka.offsets import lag as offsets_between
from millrace.topology.topic_partition import TopicPartition

COUNTED_RECORDS = 1_000
"""A partition that is further behind is not counted: markers are few among so many."""
_LIMIT_S = 20.0


def records_behind(
    admin: KafkaAdmin, config: StreamsConfig, topic_partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Records that the application's group has still to process, by partition; without those it never committed for.

    Args:
        admin: the broker.
        config: the application's configuration.
        topic_partitions: its input partitions.

    Raises:
        BrokerUnavailableError: no broker answers, or not in time.
        OperationError: a partition cannot be read.
    """
    committed = {
        topic_partition: each.offset
        for topic_partition, each in committed_offsets(
            admin, config.application_id, topic_partitions, stable=False
        ).items()
    }
    # Read after the committed offsets: the other way round a fast reader seems to be past the end.
    ends = end_offsets(admin, list(committed))
    lags = {
        topic_partition: offsets_between(offset, ends[topic_partition]) or 0
        for topic_partition, offset in committed.items()
    }
    small = {
        topic_partition: committed[topic_partition]
        for topic_partition, behind in lags.items()
        if 0 < behind <= COUNTED_RECORDS
    }
    if not small:
        return lags
    begins = begin_offsets(admin, list(small))
    starts = {topic_partition: max(offset, begins[topic_partition]) for topic_partition, offset in small.items()}
    return lags | _count(config, starts, {topic_partition: ends[topic_partition] for topic_partition in small})


def _count(
    config: StreamsConfig, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Committed records from the starts to the ends."""
    counts = dict.fromkeys(starts, 0)
    reader = LogReader(
        config.bootstrap_servers,
        config.client_settings("consumer."),
        group=f"{config.application_id}-export",
        isolation=IsolationLevel.READ_COMMITTED,
        out_of_range=OutOfRange.EARLIEST,
    )
    with reader:
        try:
            for message in reader.read(starts, ends, timeout_s=_LIMIT_S):
                counts[topic_partition_of(message)] += 1
        except KafkaException as error:
            raise translate(
                kafka_error(error), doing="counting records behind", bootstrap_servers=config.bootstrap_servers
            ) from error
    return counts
