"""The rows of a batch that a task may process now: uncommitted, in stream order, as far as that order is certain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from millrace.task.batch import TaskBatch
from millrace.task.gap_reader import read_gap
from millrace.task.input import (
    InputBatch,
    OffsetRange,
    concat_inputs,
    decided_length,
    empty_input,
    positions_after,
)
from millrace.task.spec import TaskSpec
from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True)
class DecidedInput:
    """The rows of a batch that are processed now, and the positions after them.

    Args:
        rows: the rows, in the order in which they are processed.
        positions: offset of each of the batch's input partitions behind them.
        undecided: how many rows are left for a later batch, since older records of another input may still come.
    """

    rows: InputBatch
    positions: Mapping[TopicPartition, int]
    undecided: int


def decided_input(
    batch: TaskBatch,
    spec: TaskSpec,
    committed: Mapping[TopicPartition, int],
    in_stream_order: Callable[[InputBatch], InputBatch],
    *,
    most_rows: int | None = None,
) -> DecidedInput:
    """Returns the rows of a batch that may be processed now.

    Args:
        batch: rows and ranges.
        spec: the task.
        committed: committed offset of each input partition.
        in_stream_order: sorts rows as their sources say.
        most_rows: most rows that are taken; ``None`` leaves it to the batch.

    Raises:
        OffsetOutOfRangeError: what lies between the committed offsets and the batch is not in the log any more.
        BrokerUnavailableError: it did not come in time.
        ProcessingError: a timestamp extractor raised.
    """
    rows, ranges = _uncommitted(batch, spec, committed)
    ordered = in_stream_order(rows)
    length = decided_length(ordered, ranges)
    if most_rows is not None:
        length = min(length, most_rows)
    return DecidedInput(ordered.slice(length), positions_after(ordered, length, ranges), len(ordered) - length)


def _uncommitted(
    batch: TaskBatch, spec: TaskSpec, committed: Mapping[TopicPartition, int]
) -> tuple[InputBatch, dict[TopicPartition, OffsetRange]]:
    """Returns the uncommitted rows, including those between the committed offsets and the start of the batch."""
    topics = tuple(sorted({topic for topic, _ in spec.inputs}))
    parts = list(batch.rows)
    adjusted = dict(batch.ranges)
    for topic_partition, offsets in batch.ranges.items():
        position = committed[topic_partition]
        if position < offsets.start:
            gap, gap_end = read_gap(spec.config, topics, topic_partition, start=position, end=offsets.start)
            parts.append(gap)
            if gap_end < offsets.start:
                # Too much to read at once: what the batch brought comes after it, so it has to wait.
                adjusted[topic_partition] = OffsetRange(position, gap_end, offsets.log_end)
        elif position > offsets.start:
            adjusted[topic_partition] = OffsetRange(position, max(position, offsets.end), offsets.log_end)
    rows = concat_inputs(parts) if parts else empty_input(topics)
    wanted = np.zeros(len(rows), dtype=bool)
    for (topic, partition), offsets in adjusted.items():
        own = (rows.topic == rows.topics.index(topic)) & (rows.partition == partition)
        wanted |= own & (rows.offset >= committed[(topic, partition)]) & (rows.offset < offsets.end)
    if not wanted.all():
        rows = rows.take(np.flatnonzero(wanted))
    return rows, adjusted
