"""How rows are divided into Arrow batches."""

from __future__ import annotations

import pytest

from millrace.spark.session import ARROW_BATCH_ROWS, arrow_batch_settings

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
MIB = 1024 * 1024


@pytest.mark.parametrize(("largest", "rows"), [(MIB, ARROW_BATCH_ROWS), (64 * 1024, ARROW_BATCH_ROWS), (5 * MIB, 409)])
def test_records_that_cannot_be_large_are_counted_only(largest: int, rows: int) -> None:
    assert arrow_batch_settings(largest) == {ROWS: str(rows), BYTES: str(2**31 - 1)}


def test_large_records_are_limited_by_their_bytes_as_spark_does() -> None:
    assert arrow_batch_settings(21 * MIB) == {}
