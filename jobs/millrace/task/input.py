"""The input of a task in one batch: the rows of its input partitions, merged in the order of Kafka Streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.task.columns import IntArray
from millrace.task.records import ObjectArray, concat_objects
from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of an input partition that a batch covers.

    Args:
        start: first offset that Spark brings; everything before it down to the committed offset holds no rows, or
            is read by the task itself.
        end: first offset that it does not bring.
        log_end: last stable offset of the partition when the batch was planned; above ``end`` there is more to come.
    """

    start: int
    end: int
    log_end: int

    @property
    def has_more(self) -> bool:
        """Whether the broker has records of this partition beyond the range."""
        return self.log_end > self.end


@dataclass(frozen=True)
class InputBatch:
    """The rows of a task's input, in columns of one length.

    Args:
        topics: names that ``topic`` counts.
        topic: for each row the index of its topic in ``topics``.
        partition: Kafka partitions.
        offset: Kafka offsets.
        timestamp: record timestamps, milliseconds.
        keys: key bytes.
        values: value bytes; an array of another type where a frame function decoded the value.
        headers: per row a list of (name, value) pairs or ``None``; ``None`` where no row has headers.
        event_time: what the timestamp extractors say, where they had to be asked before the rows could be ordered.
    """

    topics: tuple[str, ...]
    topic: IntArray
    partition: IntArray
    offset: IntArray
    timestamp: IntArray
    keys: pa.Array
    values: pa.Array
    headers: ObjectArray | None = None
    event_time: IntArray | None = None

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, indices: IntArray) -> InputBatch:
        """Returns the rows at ``indices``, in that order."""
        arrow_indices = pa.array(indices)
        return InputBatch(
            self.topics,
            self.topic[indices],
            self.partition[indices],
            self.offset[indices],
            self.timestamp[indices],
            self.keys.take(arrow_indices),
            self.values.take(arrow_indices),
            None if self.headers is None else self.headers[indices],
            None if self.event_time is None else self.event_time[indices],
        )

    def slice(self, length: int) -> InputBatch:
        """Returns the first ``length`` rows."""
        return self if length == len(self) else self.take(np.arange(length, dtype=np.int64))

    @property
    def has_one_partition(self) -> bool:
        """Whether all rows are of one input partition; there must be rows."""
        return bool(self.topic.min() == self.topic.max() and self.partition.min() == self.partition.max())

    def position(self, row: int) -> tuple[str, int, int]:
        """Returns topic, partition and offset of a row."""
        return self.topics[int(self.topic[row])], int(self.partition[row]), int(self.offset[row])


def empty_input(topics: Sequence[str]) -> InputBatch:
    """Returns an input without rows."""
    none = np.empty(0, dtype=np.int64)
    no_bytes = pa.array([], type=pa.binary())
    return InputBatch(tuple(topics), none, none, none, none, no_bytes, no_bytes)


def concat_inputs(batches: Sequence[InputBatch]) -> InputBatch:
    """Returns the rows of batches over the same topics, concatenated."""
    if len(batches) == 1:
        return batches[0]
    return InputBatch(
        batches[0].topics,
        np.concatenate([batch.topic for batch in batches]),
        np.concatenate([batch.partition for batch in batches]),
        np.concatenate([batch.offset for batch in batches]),
        np.concatenate([batch.timestamp for batch in batches]),
        pa.concat_arrays([batch.keys for batch in batches]),
        pa.concat_arrays([batch.values for batch in batches]),
        concat_objects([batch.headers for batch in batches], [len(batch) for batch in batches]),
    )


def in_stream_order(batch: InputBatch) -> InputBatch:
    """Returns the rows in the order in which Kafka Streams would process them.

    That is by offset within a partition, and across partitions always from the one whose next record has the smallest
    timestamp.

    A record can only be taken after all records before it in its partition, so its position is decided by the largest
    timestamp up to it: sorting by each partition's running maximum, ties by topic and partition, is the same order.
    """
    size = len(batch)
    if size == 0:
        return batch
    if batch.has_one_partition:
        if bool((batch.offset[1:] > batch.offset[:-1]).all()):
            return batch
        return batch.take(np.argsort(batch.offset, kind="stable").astype(np.int64))
    by_partition = np.lexsort((batch.offset, batch.partition, batch.topic)).astype(np.int64)
    running = (batch.timestamp if batch.event_time is None else batch.event_time)[by_partition].copy()
    for start, end in _runs(batch.topic[by_partition], batch.partition[by_partition]):
        np.maximum.accumulate(running[start:end], out=running[start:end])
    return batch.take(by_partition[np.argsort(running, kind="stable")])


def _runs(*columns: IntArray) -> list[tuple[int, int]]:
    size = len(columns[0])
    changed = np.zeros(size, dtype=bool)
    changed[0] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(changed)
    return list(zip(starts.tolist(), [*starts[1:].tolist(), size], strict=True))


def decided_length(batch: InputBatch, ranges: Mapping[TopicPartition, OffsetRange]) -> int:
    """Returns how many rows of ``batch`` (in stream order) certainly precede all records still on the broker.

    The next record of an input that has more may be as old as any, so nothing after that input's last row is certain;
    an input that has more and brought no row decides nothing. With a single input everything is certain.

    Args:
        batch: rows in stream order.
        ranges: the task's input partitions.

    Returns:
        The number of leading rows that may be processed.
    """
    if len(ranges) == 1:
        return len(batch)
    length = len(batch)
    for (topic, partition), offsets in ranges.items():
        if not offsets.has_more:
            continue
        own = np.flatnonzero((batch.topic == batch.topics.index(topic)) & (batch.partition == partition))
        length = min(length, int(own[-1]) + 1 if len(own) else 0)
    return length


def positions_after(
    batch: InputBatch, length: int, ranges: Mapping[TopicPartition, OffsetRange]
) -> dict[TopicPartition, int]:
    """Returns the offset of each input partition after the first ``length`` rows.

    It is its range's end when all its rows are among them, otherwise the offset of its first row that is not.
    """
    positions = {topic_partition: offsets.end for topic_partition, offsets in ranges.items()}
    for row in range(length, len(batch)):
        topic, partition, offset = batch.position(row)
        positions[(topic, partition)] = min(positions[(topic, partition)], offset)
    return positions


def readable(offsets: Mapping[TopicPartition, int]) -> dict[str, int]:
    """Returns the offsets in the form in which logs show them."""
    return {f"{topic}-{partition}": offset for (topic, partition), offset in offsets.items()}
