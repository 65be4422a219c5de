"""The interface of readers of assigned topic-partitions, and the columns that they return.

A reader is assigned, never subscribed: its group is a name that the client library asks for, and commits nothing. Only
committed records are given. It never resets: an offset that the log does not have is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millrace.topology.topic_partition import TopicPartition

RecordHeaders = list[tuple[str, bytes | None]]
"""Names and values in the order in which the producer set them; a name may come twice."""

BEGINNING = -2
"""The start offset that stands for the beginning of the log."""

NO_TIMESTAMP = -1
"""Timestamp of a record that has none."""


@dataclass(frozen=True, kw_only=True)
class PartitionColumns:
    """The result of a poll for one topic-partition: records, or its new position, or both.

    Args:
        topic: the topic.
        partition: its partition.
        offsets: of each record, int64, ascending. Markers, aborted records and what was compacted away leave gaps.
        timestamps: of each record, int64 milliseconds; :data:`NO_TIMESTAMP` where it has none.
        keys: a binary Arrow array, null where the record has no key.
        values: a binary Arrow array, null where the record is a tombstone.
        headers: of each record a list, or ``None`` where it has no headers; ``None`` where no record has any.
        position: next offset to read: behind the last record, or, once the client has seen that nothing comes before
            it, behind markers and aborted records too. It never moves backwards.
        end: where the log ended when the client reached its end, ``None`` where this is not the last that it saw: the
            last stable offset, which an open transaction holds back. It is reported once for each end.
        log_end: high watermark by the client's newest answer from the broker, ``None`` before the first. Records of an
            open transaction lie before it, so that a reader may be at the end and never get there.
    """

    topic: str
    partition: int
    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    keys: pa.Array
    values: pa.Array
    headers: Sequence[RecordHeaders | None] | None = None
    position: int
    end: int | None = None
    log_end: int | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the partition."""
        return self.topic, self.partition

    def before(self, offset: int) -> PartitionColumns:
        """Returns the records before an offset, and the position after them; without copying."""
        rows = int(np.searchsorted(self.offsets, offset))
        if rows == len(self) and self.position <= offset:
            return self
        return replace(self._rows(0, rows), position=min(self.position, offset), end=None)

    def since(self, offset: int) -> PartitionColumns:
        """Returns the records at and after an offset; without copying."""
        return self._rows(int(np.searchsorted(self.offsets, offset)), len(self))

    def where(self, is_wanted: npt.NDArray[np.bool_]) -> PartitionColumns:
        """Returns the selected records; the position stays the same.

        Args:
            is_wanted: of each record.
        """
        if is_wanted.all():
            return self
        mask = pa.array(is_wanted)
        headers = None
        if self.headers is not None:
            headers = [own for own, wanted in zip(self.headers, is_wanted.tolist(), strict=True) if wanted]
        return replace(
            self,
            offsets=self.offsets[is_wanted],
            timestamps=self.timestamps[is_wanted],
            keys=self.keys.filter(mask),
            values=self.values.filter(mask),
            headers=headers,
        )

    def _rows(self, start: int, stop: int) -> PartitionColumns:
        return replace(
            self,
            offsets=self.offsets[start:stop],
            timestamps=self.timestamps[start:stop],
            keys=self.keys.slice(start, stop - start),
            values=self.values.slice(start, stop - start),
            headers=None if self.headers is None else self.headers[start:stop],
        )


class PartitionReader(Protocol):
    """A reader of assigned topic-partitions, for one thread.

    What a call raises ends nothing by itself: the other topic-partitions can be read on, and no record of theirs is
    lost. A broker that is away is no error: nothing comes until it is back, see :attr:`trouble`. Nor is a
    topic-partition that does not exist: librdkafka waits for it without a word, and reads on by the name once a topic
    is created again, wherever its offsets then are. A caller that must notice this compares topic ids.
    """

    @property
    def trouble(self) -> str:
        """The reason why no records may arrive, as the client reports it ("all brokers are down"); else empty."""

    @property
    def failed(self) -> TopicPartition | None:
        """The topic-partition that the last error of :meth:`poll` is about; ``None`` where it is about all of them."""

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Assigns further topic-partitions, in addition to those that are assigned already.

        Args:
            starts: first offset of each that is wanted, or :data:`BEGINNING`. One that is read already begins again.
        """

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Removes topic-partitions from the assignment, if they are in it: no later poll returns records of them."""

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Pauses topic-partitions until they are resumed; what the client has buffered of them is fetched again."""

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Resumes paused topic-partitions at their positions."""

    def poll(self, timeout_s: float, max_records: int) -> list[PartitionColumns]:
        """Returns what is available: waits for the first record only, and takes along what has arrived by then.

        Args:
            timeout_s: longest wait for the first, seconds.
            max_records: most records, over all topic-partitions.

        Returns:
            One for each topic-partition of which there is news, in the order in which the client had them.

        Raises:
            OffsetOutOfRangeError: the log of a topic-partition does not have the offset that was to be read.
            PreflightError: the broker refuses the login or a permission.
            OperationError: anything else that the client does not try again by itself.
        """

    def close(self) -> None:
        """Closes the reader. Idempotent."""
