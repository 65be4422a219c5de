from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest

from millrace.errors import SerializationError
from millrace.metrics import END_TO_END_BUCKETS, LATENESS_BUCKETS, DropReason, Phase, TaskStatistics, observe

EMPTY = TaskStatistics(task_id="1_12", batch_id=7, run_id="r", host="h", pid=1)
FULL = replace(
    EMPTY,
    records_in=3,
    records_out={"out": 2, "repartition": 1},
    dropped={DropReason.NULL_KEY: 1, DropReason.LATE: 2},
    dead_letters=1,
    transactions_committed=1,
    restored=4,
    restore_s=0.25,
    store_entries={"s": 6},
    store_bytes={"s": 7},
    stream_times={"node": 8},
    held_back={"s": 2},
    held_back_bytes={"s": 99},
    held_back_since={"s": 1},
    lateness_max_ms=9,
    phases={Phase.READ: 0.5, Phase.STORE: 0.125},
    end_to_end_latency=observe(np.array([0.1, 7.0]), END_TO_END_BUCKETS),
    lateness=observe(np.array([0.0, 0.2]), LATENESS_BUCKETS),
)


@pytest.mark.parametrize("row", [EMPTY, FULL])
def test_a_row_survives_the_way_to_the_driver(row: TaskStatistics) -> None:
    assert TaskStatistics.from_bytes(row.to_bytes()) == row


def test_numbers_of_numpy_travel_too() -> None:
    row = replace(EMPTY, records_in=np.int64(3), stream_times={"node": np.int64(8)})  # type: ignore[arg-type,dict-item]
    assert TaskStatistics.from_bytes(row.to_bytes()).stream_times == {"node": 8}


def test_the_subtopology_is_part_of_the_task_s_id() -> None:
    assert EMPTY.subtopology == "1"


def test_rows_of_another_shape_are_refused() -> None:
    row = orjson.loads(FULL.to_bytes())
    wrong = [
        b"",
        b"[]",
        b"{}",
        orjson.dumps({**row, "unknown": 1}),
        orjson.dumps({**row, "dropped": {"boredom": 1}}),
        orjson.dumps({name: value for name, value in row.items() if name != "lateness"}),
    ]
    for data in wrong:
        with pytest.raises(SerializationError):
            TaskStatistics.from_bytes(data)
