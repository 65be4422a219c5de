"""The conversion of a partition reader's records to rows of a task's input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millrace.kafka.columns import PartitionColumns
from millrace.task.input import InputBatch, empty_input
from millrace.task.records import concat_objects, object_array


def input_rows(parts: Sequence[PartitionColumns], topics: tuple[str, ...]) -> InputBatch:
    """Returns the records of topic-partitions, one part after the other.

    Args:
        parts: of any of the topics.
        topics: names that the rows' topic column counts.
    """
    parts = [part for part in parts if len(part)]
    if not parts:
        return empty_input(topics)
    sizes = [len(part) for part in parts]
    numbers = [topics.index(part.topic) for part in parts]
    headers = [None if part.headers is None else object_array(part.headers) for part in parts]
    return InputBatch(
        topics=topics,
        topic=np.repeat(np.array(numbers, dtype=np.int64), sizes),
        partition=np.repeat(np.array([part.partition for part in parts], dtype=np.int64), sizes),
        offset=np.concatenate([part.offsets for part in parts]),
        timestamp=np.concatenate([part.timestamps for part in parts]),
        keys=pa.concat_arrays([part.keys for part in parts]),
        values=pa.concat_arrays([part.values for part in parts]),
        headers=concat_objects(headers, sizes),
    )
