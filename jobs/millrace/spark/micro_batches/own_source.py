"""A Kafka source that the Python workers read, for records that Spark's own source cannot represent.

Spark's timestamps count microseconds in 64 bits, so a record whose timestamp is beyond 9.2e15 milliseconds (one in
nanoseconds, the largest long) ends every batch that Spark reads it in. Kafka and Kafka Streams take it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from millrace.config import StreamsConfig
from millrace.task.gap_reader import read_gap
from millrace.task.input import InputBatch
from millrace.topology.topic_partition import TopicPartition

TIMESTAMP_MS = "__millrace_timestamp_ms"
"""Column with the record's timestamp in milliseconds, which may be more than the column ``timestamp`` holds."""

_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    f"headers array<struct<key: string, value: binary>>, {TIMESTAMP_MS} bigint"
)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_LARGEST_MS = (2**63 - 1) // 1_000
_OVERFLOW = re.compile(r"Record at topic \S+ partition \d+ offset \d+ has timestamp value -?\d+(?= that overflows)")


def unreadable_timestamp(error: BaseException) -> str:
    """Returns what Spark's source reports of a timestamp that it cannot represent; empty for other errors."""
    found = _OVERFLOW.search(str(error))
    return found.group() if found is not None else ""


def read_by_workers(
    spark: SparkSession,
    config: StreamsConfig,
    topics: Sequence[str],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> DataFrame:
    """Returns the columns of Spark's Kafka source and :data:`TIMESTAMP_MS`, one Spark partition per topic-partition.

    The column ``timestamp`` is null where it cannot hold the record's.

    Args:
        spark: the session.
        config: the application's configuration.
        topics: which.
        starts: first offset of each of their partitions.
        ends: first offset that is not wanted.
    """
    ranges = tuple(
        (topic_partition, start, ends[topic_partition])
        for topic_partition, start in sorted(starts.items())
        if topic_partition[0] in topics and topic_partition in ends
    )
    return spark.range(0, len(ranges), 1, max(1, len(ranges))).mapInArrow(_ReadRanges(config, ranges), _SCHEMA)


@dataclass(frozen=True)
class _ReadRanges:
    """The function for ``mapInArrow``: reads the offset ranges with the given numbers."""

    config: StreamsConfig
    ranges: tuple[tuple[TopicPartition, int, int], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                topic_partition, position, end = self.ranges[number]
                while position < end:
                    rows, position = read_gap(
                        self.config, (topic_partition[0],), topic_partition, start=position, end=end
                    )
                    if len(rows):
                        yield _as_kafka_rows(rows)


def _as_kafka_rows(rows: InputBatch) -> pa.RecordBatch:
    size = len(rows)
    fits = np.abs(rows.timestamp) <= _LARGEST_MS
    microseconds = pa.array(np.where(fits, rows.timestamp, 0) * 1_000, mask=~fits)
    columns: dict[str, Any] = {
        "key": rows.keys,
        "value": rows.values,
        "topic": pa.array([rows.topics[0]] * size, pa.string()),
        "partition": pa.array(rows.partition, pa.int32()),
        "offset": pa.array(rows.offset, pa.int64()),
        "timestamp": microseconds.cast(pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array(np.zeros(size, dtype=np.int32)),
        "headers": pa.nulls(size, _HEADERS) if rows.headers is None else _headers(rows.headers.tolist()),
        TIMESTAMP_MS: pa.array(rows.timestamp, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _headers(headers: Sequence[Sequence[tuple[str, bytes | None]] | None]) -> pa.Array:
    return pa.array(
        [None if own is None else [{"key": name, "value": content} for name, content in own] for own in headers],
        type=_HEADERS,
    )
