"""What workers make of a Kafka topic where Spark's own source cannot read it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.spark.micro_batches.own_source import TIMESTAMP_MS, _as_kafka_rows, unreadable_timestamp
from millrace.task.input import InputBatch
from millrace.task.records import object_array

MILLISECONDS = 1_795_947_275_026


def rows(timestamps: list[int], headers: list[list[tuple[str, bytes | None]] | None] | None = None) -> InputBatch:
    size = len(timestamps)
    return InputBatch(
        topics=("in",),
        topic=np.zeros(size, dtype=np.int64),
        partition=np.full(size, 3, dtype=np.int64),
        offset=np.arange(size, dtype=np.int64),
        timestamp=np.array(timestamps, dtype=np.int64),
        keys=pa.array([None] * size, pa.binary()),
        values=pa.array([b"v"] * size, pa.binary()),
        headers=None if headers is None else object_array(headers),
    )


def test_every_timestamp_is_carried_in_milliseconds_and_sparks_column_is_null_where_it_does_not_fit() -> None:
    """Case E18."""
    times = [MILLISECONDS, MILLISECONDS * 1_000, MILLISECONDS * 1_000_000, 2**63 - 1, -1, (2**63 - 1) // 1_000]
    made = _as_kafka_rows(rows(times))
    assert made.column(TIMESTAMP_MS).to_pylist() == times
    micros = made.column("timestamp").cast(pa.int64()).to_pylist()
    assert micros == [MILLISECONDS * 1_000, MILLISECONDS * 1_000_000, None, None, -1_000, times[-1] * 1_000]
    assert (made.column("topic")[0].as_py(), made.column("partition")[0].as_py()) == ("in", 3)


def test_headers_are_as_sparks_source_has_them() -> None:
    made = _as_kafka_rows(rows([1, 2], [[("a", b"1"), ("b", None)], None]))
    assert made.column("headers").to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None]
    assert _as_kafka_rows(rows([1])).column("headers").to_pylist() == [None]


def test_only_a_timestamp_that_overflows_is_taken_for_one() -> None:
    """Case E18: the words of Spark 4.2."""
    error = RuntimeError(
        "Job aborted due to stage failure: ... org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at "
        "topic stamps-in partition 0 offset 2 has timestamp value 1795947275026000000 that overflows when converting "
        "to Spark's microsecond-precision TimestampType."
    )
    assert unreadable_timestamp(error) == (
        "Record at topic stamps-in partition 0 offset 2 has timestamp value 1795947275026000000"
    )
    assert unreadable_timestamp(RuntimeError("long overflow")) == ""
