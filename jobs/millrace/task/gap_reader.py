"""The reading of records between a task's committed offset and the first one that Spark delivers."""

from __future__ import annotations

import time
from contextlib import closing

from millrace.config import StreamsConfig
from millrace.errors import BrokerUnavailableError
from millrace.kafka.columns import PartitionColumns, ReaderSettings, open_reader
from millrace.task.input import InputBatch
from millrace.task.messages import input_rows
from millrace.topology.topic_partition import TopicPartition

GAP_LIMIT_RECORDS = 100_000
"""Most records of one gap that are read in one batch."""

GAP_LIMIT_BYTES = 128 * (1 << 20)
"""Bytes of keys and values after which no more is read in one batch."""

_POLL_S = 0.2
_FETCH_WAIT_MS = 20
_NO_PROGRESS_LIMIT_S = 30.0


def read_gap(
    config: StreamsConfig, topics: tuple[str, ...], topic_partition: TopicPartition, *, start: int, end: int
) -> tuple[InputBatch, int]:
    """Reads the committed records of a partition with offsets from ``start`` up to ``end``.

    Args:
        config: the application's configuration.
        topics: names that the rows' topic column counts.
        topic_partition: topic and partition.
        start: first offset.
        end: first offset that is not wanted.

    Returns:
        The rows, and the offset up to which they are complete: ``end``, or less where there are too many.

    Raises:
        OffsetOutOfRangeError: ``start`` is not in the log any more.
        BrokerUnavailableError: nothing came for half a minute.
    """
    topic, partition = topic_partition
    settings = ReaderSettings(
        bootstrap_servers=config.bootstrap_servers,
        group=config.application_id,
        settings=config.client_settings("consumer."),
        fetch_wait_ms=_FETCH_WAIT_MS,
    )
    parts: list[PartitionColumns] = []
    with closing(open_reader(settings)) as reader:
        reader.assign({topic_partition: start})
        reached = start
        records = content = 0
        deadline = time.monotonic() + _NO_PROGRESS_LIMIT_S
        while reached < end and records < GAP_LIMIT_RECORDS and content < GAP_LIMIT_BYTES:
            news = [part.before(end) for part in reader.poll(_POLL_S, GAP_LIMIT_RECORDS - records)]
            parts += news
            records += sum(map(len, news))
            content += sum(part.keys.nbytes + part.values.nbytes for part in news)
            position = max((part.position for part in news), default=reached)
            if position > reached:
                reached = position
                deadline = time.monotonic() + _NO_PROGRESS_LIMIT_S
            elif time.monotonic() > deadline:
                raise BrokerUnavailableError(
                    f"Reading {topic}-{partition} from offset {start} to {end} stopped at {reached}"
                    f"{reader.trouble and ': '}{reader.trouble}.",
                    remedy="see that the broker is up, and that no transaction on the topic hangs",
                )
    return input_rows(parts, topics), reached
