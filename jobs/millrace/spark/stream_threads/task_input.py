"""What a stream thread has read for a task and the task has not committed yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from millrace.task.columns import IntArray
from millrace.task.input import InputBatch, OffsetRange, TopicPartition
from millrace.task.records import Headers, object_array

MOST_BATCH_BYTES = 256 * 1024 * 1024
"""Most bytes of keys and values of one partition that a batch takes: a column of bytes holds less than 2 GiB, and a
task needs several times what it is given."""

WAITS_FOR_NOTHING = -1.0
"""As time to idle: what is buffered is processed, whatever the broker has of the other inputs."""

BACKLOG_RECORDS = 1_000
"""Fewest records of one partition on the broker that a batch waits for."""


class ReadColumns(Protocol):
    """Records of one partition as a reader gives them, and how far it has come."""

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
        """The end of the partition where the reader has met it; ``None`` where there may be more."""

    @property
    def log_end(self) -> int | None:
        """The end of the partition by the newest answer of the broker, if any."""


@dataclass(frozen=True)
class _Part:
    rows: InputBatch
    position: int
    size_bytes: int


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
            (``max.task.idle.ms``, KIP-695); 0 waits only for what is on the broker, :data:`WAITS_FOR_NOTHING` for
            nothing at all.
    """

    def __init__(
        self,
        inputs: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, int],
        *,
        most_records: int,
        idle_s: float = 0.0,
    ) -> None:
        self._idle_s = idle_s
        self._topics = tuple(sorted({topic for topic, _ in inputs}))
        self.most_records = most_records
        self.most_bytes = 2 * MOST_BATCH_BYTES
        """How much of one partition may be buffered, bytes of keys and values."""
        self._committed = {place: committed[place] for place in inputs}
        self._partitions = {place: _Partition(self._topics.index(place[0]), committed[place]) for place in inputs}

    def add(self, columns: ReadColumns) -> None:
        """Takes what a reader has read of one of the partitions."""
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
        """Committed offset of each partition."""
        return self._committed

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read of each partition."""
        return {place: partition.position for place, partition in self._partitions.items()}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """End of each partition whose end is known."""
        return {place: each.position for place, each in self._partitions.items() if each.at_end}

    @property
    def records(self) -> int:
        """Records that are buffered."""
        return sum(partition.records for partition in self._partitions.values())

    @property
    def size_bytes(self) -> int:
        """Bytes of keys and values that are buffered."""
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
        """Whether some partition has a whole batch buffered."""
        most_bytes = min(MOST_BATCH_BYTES, self.most_bytes // 2)
        return any(
            partition.records >= self.most_records or partition.size_bytes >= most_bytes
            for partition in self._partitions.values()
        )

    def overflowing(self) -> list[TopicPartition]:
        """Partitions of which two whole batches are buffered, or all that may be: reading on would only take memory."""
        return [
            place
            for place, partition in self._partitions.items()
            if partition.records >= 2 * self.most_records or partition.size_bytes >= self.most_bytes
        ]

    def decidable_in(self, now: float) -> float:
        """Seconds until there are records that certainly come next, if nothing else is read; infinite where only
        reading helps.

        With several inputs nothing is certain while one of them has more on the broker and nothing buffered, nor while
        its producers are waited for.
        """
        if not self.records:
            return float("inf")
        if len(self._partitions) == 1 or self._idle_s == WAITS_FOR_NOTHING:
            return 0.0
        return max(self._empty_for(partition, now) for partition in self._partitions.values())

    def _empty_for(self, partition: _Partition, now: float) -> float:
        """How long a partition keeps the others waiting, seconds."""
        if partition.records:
            partition.idles_until = None
            return 0.0
        if not partition.at_end:
            return float("inf")
        if partition.idles_until is None:
            partition.idles_until = now + self._idle_s
        return max(0.0, partition.idles_until - now)

    def _has_more(self, partition: _Partition, now: float, *, taken_whole: bool) -> bool:
        """Whether records behind those that a batch takes of a partition may be older than others of the batch."""
        if self._idle_s == WAITS_FOR_NOTHING:
            return False
        if not (taken_whole and partition.at_end):
            return True
        return self._idle_s > 0 and (bool(partition.records) or self._empty_for(partition, now) > 0)

    @property
    def has_passed_markers(self) -> bool:
        """Whether only positions have moved, over markers or aborted records, and no record is buffered."""
        return not self.records and any(
            partition.position > self._committed[place] for place, partition in self._partitions.items()
        )

    def batch(self, now: float) -> tuple[list[InputBatch], dict[TopicPartition, OffsetRange]]:
        """What the next batch of the task is made of. The rows stay buffered until :meth:`commit_to`.

        Args:
            now: the loop's clock, seconds.

        Returns:
            The rows, and for each partition the range from its committed offset.
        """
        rows: list[InputBatch] = []
        ranges = {}
        for place, partition in self._partitions.items():
            records = size_bytes = taken = 0
            end = self._committed[place]
            for part in partition.parts:
                if taken and (
                    records + len(part.rows) > self.most_records or size_bytes + part.size_bytes > MOST_BATCH_BYTES
                ):
                    break
                rows.append(part.rows)
                records += len(part.rows)
                size_bytes += part.size_bytes
                end = part.position
                taken += 1
            whole = taken == len(partition.parts)
            end = max(end, partition.position) if whole else end
            has_more = self._has_more(partition, now, taken_whole=whole)
            ranges[place] = OffsetRange(self._committed[place], end, end + 1 if has_more else end)
        return rows, ranges

    def commit_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """Forgets the rows before the positions, which are committed.

        Raises:
            AssertionError: a position is beyond what was read, or behind what was committed.
        """
        for place, position in positions.items():
            partition = self._partitions[place]
            if not self._committed[place] <= position <= max(partition.position, self._committed[place]):
                raise AssertionError(
                    f"{place[0]}-{place[1]} was committed at {position}, but was at {self._committed[place]} and read "
                    f"to {partition.position}."
                )
            self._committed[place] = position
            self._drop_before(partition, position)

    @staticmethod
    def _drop_before(partition: _Partition, position: int) -> None:
        parts = partition.parts
        while parts and int(parts[0].rows.offset[-1]) < position:
            gone = parts.popleft()
            partition.records -= len(gone.rows)
            partition.size_bytes -= gone.size_bytes
        if parts and int(parts[0].rows.offset[0]) < position:
            first = parts[0]
            cut = int(np.searchsorted(first.rows.offset, position))
            kept = first.rows.take(np.arange(cut, len(first.rows), dtype=np.int64))
            size_bytes = first.size_bytes * len(kept) // len(first.rows)
            parts[0] = replace(first, rows=kept, size_bytes=size_bytes)
            partition.records -= cut
            partition.size_bytes -= first.size_bytes - size_bytes
