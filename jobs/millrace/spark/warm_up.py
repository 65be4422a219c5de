"""The warm-up before the first micro-batch: what Spark's source does only once is done in advance."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession

from millrace.errors import SerializationError
from millrace.spark.micro_batches.own_source import unreadable_timestamp
from millrace.spark.micro_batches.source import bounded_frame
from millrace.spark.plan import QueryPlan
from millrace.spark.results import RESULT_SCHEMA
from millrace.task.serialization import from_bytes, or_default
from millrace.topology.nodes import SourceNode
from millrace.topology.topic_partition import TopicPartition

WARM_UP_RECORDS = 2_000
"""Records of each input partition that are read and decoded, and nothing else: no code of the user runs on them."""

_log = structlog.get_logger(__name__)


def warm_up(
    spark: SparkSession,
    plans: Sequence[QueryPlan],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    """Reads a little of the input with Spark's source, and lets Python workers decode its rows.

    The first batch of a query otherwise takes seconds longer than the others: Spark generates and compiles the code of
    its plan, opens consumers and loads classes.

    Args:
        spark: the session.
        plans: one for each query.
        starts: where each input partition starts.
        ends: where it ends now.
    """
    began = time.monotonic()
    for plan in plans:
        topic_partitions = [topic_partition for topic_partition in starts if topic_partition[0] in plan.topics]
        if any(starts[topic_partition] < ends[topic_partition] for topic_partition in topic_partitions):
            frame = bounded_frame(
                spark,
                plan.sub_topology,
                plan.config,
                {topic_partition: starts[topic_partition] for topic_partition in topic_partitions},
                {
                    topic_partition: min(starts[topic_partition] + WARM_UP_RECORDS, ends[topic_partition])
                    for topic_partition in topic_partitions
                },
            )
            try:
                frame.mapInArrow(_Decode(plan.sub_topology.sources), RESULT_SCHEMA).collect()
            except Exception as error:
                # Met again, and read by other means, in its batch.
                if not unreadable_timestamp(error):
                    raise
    _log.info("warmed up", seconds=round(time.monotonic() - began, 1))


@dataclass(frozen=True)
class _Decode:
    """The function for ``mapInArrow``: decodes rows with the sources' serdes, and discards the result."""

    sources: tuple[SourceNode, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for source in self.sources:
                # Records that cannot be read are met again, and handled, in their batch.
                with contextlib.suppress(SerializationError):
                    from_bytes(batch.column("key"), or_default(source.key_serde))
                    from_bytes(batch.column("value"), or_default(source.value_serde))
            yield from _nothing([batch])


def _nothing(batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.nulls(min(batch.num_rows, 1), pa.binary())], names=["result"])
