"""Makes the first batch as fast as the others: what a worker or the JVM does only once is done before it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from millrace.spark.worker import RESULT_SCHEMA


def warm_up(spark: SparkSession) -> None:
    """Starts the Python workers, and has them import and run what a task needs."""
    slots = spark.sparkContext.defaultParallelism
    spark.range(0, slots, 1, slots).mapInArrow(_warm_worker, RESULT_SCHEMA).collect()


def _warm_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # The first use of these costs a second or two: imports, thread pools, kernels that are looked up.
    from millrace.task.aggregation.groups import group, group_codes
    from millrace.task.task import Task

    assert Task is not None
    group(group_codes(pa.array([b"a", b"b", b"a"], type=pa.binary())))
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.binary())], names=["result"])
