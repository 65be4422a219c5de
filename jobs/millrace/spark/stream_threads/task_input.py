"""The input that a stream thread has read for a task, and that the task has not committed yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from millrace.task.columns import IntArray
from millrace.task.input import InputBatch, OffsetRange
from millrace.task.records import Headers, object_array
from millrace.topology.topic_partition import TopicPartition

MOST_BATCH_BYTES = 256 * 1024 * 1024
"""Most bytes of keys and values of one partition that a batch takes: a column of bytes holds less than 2 GiB, and a
task needs several times what it is given."""

TASK_IDLE_DISABLED = -1.0
"""As time to idle: what is buffered is processed, whatever the broker has of the other inputs."""

BACKLOG_RECORDS = 1_000
"""Fewest records of one partition on the broker that a batch waits for."""


class ReadColumns(Protocol):
    """Records of one partition from a reader, with the reader's position."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    @property
    def partition(self) -> int:
        """Kafka partition."""

    @property
    def offsets(self) -> IntArray:
        """Offsets, ascending."""

    @property
    def timestamps(self) -> IntArray:
        """Record timestamps, milliseconds."""

    @property
    def keys(self) -> pa.BinaryArray:
        """Key bytes."""

    @property
    def values(self) -> pa.BinaryArray:
        """Value bytes."""

    @property
    def headers(self) -> Sequence[Headers | None] | None:
        """Headers of each record; ``None`` where no record has any."""

    @property
    def position(self) -> int:
        """The next offset to read."""

    @property
    def end(self) -> int | None:
        """The end of the partition if the reader has reached it; ``None`` if there may be more records."""

    @property
    def log_end(self) -> int | None:
        """The end of the partition by the broker's newest answer, if any."""


@dataclass(frozen=True)
class _Part:
    """The uncommitted records that a poll returned of a partition: the rows from ``first`` on."""

    rows: InputBatch
    position: int
    size_bytes: int
    first: int = 0

    def __len__(self) -> int:
        return len(self.rows) - self.first

    def taken(self, rows: int) -> InputBatch:
        """Returns the first rows. A part that is taken in pieces is not copied as a whole each time."""
        if rows == len(self.rows):
            return self.rows
        return self.rows.take(np.arange(self.first, self.first + rows, dtype=np.int64))

    def position_after(self, rows: int) -> int:
        """Returns the next offset to read after the first ``rows`` rows."""
        return self.position if rows == len(self) else int(self.rows.offset[self.first + rows - 1]) + 1

    def since(self, offset: int) -> _Part:
        """Returns the part with the rows from an offset on, of which there must be some."""
        first = int(np.searchsorted(self.rows.offset, offset))
        kept = len(self.rows) - first
        return replace(self, first=first, size_bytes=self.size_bytes * kept // len(self))


@dataclass
class _Partition:
    """The buffered records of one input partition."""

    number: int
    position: int
    at_end: bool = False
    log_end: int | None = None
    parts: deque[_Part] = field(default_factory=deque)
    records: int = 0
    size_bytes: int = 0
    idles_until: float | None = None


class TaskInput:
    """The buffers of a task's input partitions.

    Args:
        inputs: the task's input partitions.
        committed: committed offset of each, where reading begins.
        most_records: most records of one partition that a batch takes.
        idle_s: how long records wait for producers of another input of which nothing is there, seconds
            (``max.task.idle.ms``, KIP-695); 0 waits only for what is on the broker, :data:`TASK_IDLE_DISABLED` for
            nothing at all.
        most_buffered: records of one partition at which it is read no further; ``None`` for two batches.
    """

    def __init__(
        self,
        inputs: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, int],
        *,
        most_records: int,
        idle_s: float = 0.0,
        most_buffered: int | None = None,
    ) -> None:
        self._idle_s = idle_s
        self._most_buffered = most_buffered
        self._topics = tuple(sorted({topic for topic, _ in inputs}))
        self.most_records = most_records
        self.most_bytes = 2 * MOST_BATCH_BYTES
        """How much of one partition may be buffered, bytes of keys and values."""
        self.most_rows: int | None = None
        """Most rows that a batch takes over all partitions (one of each, if that is more); ``None`` for any number."""
        self._committed = {topic_partition: committed[topic_partition] for topic_partition in inputs}
        self._partitions = {
            topic_partition: _Partition(self._topics.index(topic_partition[0]), committed[topic_partition])
            for topic_partition in inputs
        }

    def add(self, columns: ReadColumns) -> None:
        """Adds the records that a reader has read of one of the partitions."""
        partition = self._partitions[columns.topic, columns.partition]
        count = len(columns.offsets)
        if count:
            size_bytes = columns.keys.nbytes + columns.values.nbytes
            rows = InputBatch(
                topics=self._topics,
                topic=np.full(count, partition.number, dtype=np.int64),
                partition=np.full(count, columns.partition, dtype=np.int64),
                offset=columns.offsets,
                timestamp=columns.timestamps,
                keys=columns.keys,
                values=columns.values,
                headers=None if columns.headers is None else object_array(columns.headers),
            )
            partition.parts.append(_Part(rows, columns.position, size_bytes))
            partition.records += count
            partition.size_bytes += size_bytes
        partition.position = max(partition.position, columns.position)
        # The event comes with the answer behind the last records only; their own answer may tell as much.
        partition.at_end = columns.end is not None or columns.log_end == partition.position
        partition.log_end = columns.log_end

    @property
    def committed(self) -> Mapping[TopicPartition, int]:
        """The committed offset of each partition."""
        return self._committed

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read of each partition."""
        return {topic_partition: partition.position for topic_partition, partition in self._partitions.items()}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The end of each partition whose end is known."""
        return {topic_partition: each.position for topic_partition, each in self._partitions.items() if each.at_end}

    @property
    def records(self) -> int:
        """The number of buffered records."""
        return sum(partition.records for partition in self._partitions.values())

    @property
    def size_bytes(self) -> int:
        """The bytes of buffered keys and values."""
        return sum(partition.size_bytes for partition in self._partitions.values())

    @property
    def has_backlog(self) -> bool:
        """Whether the broker has so many more records of some partition that it is worth waiting for them.

        Markers that only their successors' answers show the end of are no backlog, nor what has just come.
        """
        least = min(BACKLOG_RECORDS, self.most_records)
        return any(
            not partition.at_end and partition.log_end is not None and partition.log_end - partition.position >= least
            for partition in self._partitions.values()
        )

    @property
    def is_full(self) -> bool:
        """Whether a whole batch is buffered, or so much of a partition that it is not read further."""
        if self.most_rows is not None and self.records >= self.most_rows:
            return True
        most_bytes = max(1, min(MOST_BATCH_BYTES, self.most_bytes // 2))
        most_records = min(self.most_records, self._most_buffered or self.most_records)
        return any(
            partition.records >= most_records or partition.size_bytes >= most_bytes
            for partition in self._partitions.values()
        )

    def overflowing(self) -> list[TopicPartition]:
        """Returns the partitions of which two whole batches are buffered, or as much as may be buffered.

        Reading on would only take memory.
        """
        most_records = min(2 * self.most_records, self._most_buffered or 2 * self.most_records)
        return [
            topic_partition
            for topic_partition, partition in self._partitions.items()
            if partition.records >= most_records or partition.size_bytes >= self.most_bytes
        ]

    def decidable_in(self, now: float) -> float:
        """Returns the seconds until it is certain which records come next, if nothing else is read.

        It is infinite where only reading helps.

        With several inputs nothing is certain while one of them has more on the broker and nothing buffered, nor while
        its producers are waited for.
        """
        if not self.records:
            return float("inf")
        if len(self._partitions) == 1 or self._idle_s == TASK_IDLE_DISABLED:
            return 0.0
        return max(self._empty_for(partition, now) for partition in self._partitions.values())

    def _empty_for(self, partition: _Partition, now: float) -> float:
        """Returns the seconds for which an empty partition makes the others wait."""
        if partition.records:
            partition.idles_until = None
            return 0.0
        if not partition.at_end:
            return float("inf")
        if partition.idles_until is None:
            partition.idles_until = now + self._idle_s
        return max(0.0, partition.idles_until - now)

    def _has_more(self, partition: _Partition, now: float, *, taken_whole: bool) -> bool:
        """Returns whether a partition may have further records that are older than others of the batch."""
        if self._idle_s == TASK_IDLE_DISABLED:
            # Those that are buffered are there, and nothing is waited for.
            return not taken_whole
        if not (taken_whole and partition.at_end):
            return True
        return self._idle_s > 0 and (bool(partition.records) or self._empty_for(partition, now) > 0)

    @property
    def has_passed_markers(self) -> bool:
        """Whether only positions have moved, over markers or aborted records, and no record is buffered."""
        return not self.records and any(
            partition.position > self._committed[topic_partition]
            for topic_partition, partition in self._partitions.items()
        )

    def batch(self, now: float) -> tuple[list[InputBatch], dict[TopicPartition, OffsetRange]]:
        """Returns the rows of the task's next batch. They stay buffered until :meth:`commit_to`.

        Args:
            now: the loop's clock, seconds.

        Returns:
            The rows, and for each partition the range from its committed offset.
        """
        rows: list[InputBatch] = []
        ranges = {}
        most_rows = self._rows_of_each()
        for topic_partition, partition in self._partitions.items():
            taken, position = self._take(partition, most_rows.get(topic_partition))
            rows += taken
            whole = sum(map(len, taken)) == partition.records
            end = self._committed[topic_partition] if position is None else position
            end = max(end, partition.position) if whole else end
            has_more = self._has_more(partition, now, taken_whole=whole)
            ranges[topic_partition] = OffsetRange(self._committed[topic_partition], end, end + 1 if has_more else end)
        return rows, ranges

    def _take(self, partition: _Partition, most_rows: int | None) -> tuple[list[InputBatch], int | None]:
        """Returns the rows that a batch takes of a partition, and the position after them; ``None`` if it takes none.

        What a poll brought is taken whole, unless ``most_rows`` end within it.
        """
        taken: list[InputBatch] = []
        records = size_bytes = 0
        position = None
        for part in partition.parts:
            room = len(part) if most_rows is None else most_rows - records
            exceeds = records + len(part) > self.most_records or size_bytes + part.size_bytes > MOST_BATCH_BYTES
            if room <= 0 or (taken and exceeds):
                break
            count = min(room, len(part))
            taken.append(part.taken(count))
            position = part.position_after(count)
            records += count
            size_bytes += part.size_bytes
        return taken, position

    def _rows_of_each(self) -> dict[TopicPartition, int]:
        """Returns the most rows that a batch takes of each partition that has some; empty without a limit.

        At least one of each: without any of a partition that has records, no other would be certain to come next.
        The others get what one does not need.
        """
        if self.most_rows is None:
            return {}
        filled = {topic_partition: each.records for topic_partition, each in self._partitions.items() if each.records}
        most: dict[TopicPartition, int] = {}
        remaining = self.most_rows
        for topic_partition in sorted(filled, key=lambda each: filled[each]):
            most[topic_partition] = min(filled[topic_partition], max(1, remaining // (len(filled) - len(most))))
            remaining = max(0, remaining - most[topic_partition])
        return most

    def commit_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """Discards the rows before the positions, which are committed.

        Raises:
            AssertionError: a position is beyond what was read, or before what was committed.
        """
        for topic_partition, position in positions.items():
            partition, before = self._partitions[topic_partition], self._committed[topic_partition]
            if not before <= position <= max(partition.position, before):
                topic, number = topic_partition
                raise AssertionError(
                    f"{topic}-{number} was committed at {position}, but was at {before} and read "
                    f"to {partition.position}."
                )
            self._committed[topic_partition] = position
            self._drop_before(partition, position)

    @staticmethod
    def _drop_before(partition: _Partition, position: int) -> None:
        parts = partition.parts
        while parts and int(parts[0].rows.offset[-1]) < position:
            gone = parts.popleft()
            partition.records -= len(gone)
            partition.size_bytes -= gone.size_bytes
        if parts and int(parts[0].rows.offset[parts[0].first]) < position:
            before = parts[0]
            parts[0] = before.since(position)
            partition.records -= len(before) - len(parts[0])
            partition.size_bytes -= before.size_bytes - parts[0].size_bytes
