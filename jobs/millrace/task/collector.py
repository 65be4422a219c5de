"""The destination of all output of a task: output records, changelog records and dead-letter records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from millrace.errors import StateError
from millrace.kafka.record_limits import Refusal
from millrace.task.columns import BoolArray, IntArray
from millrace.task.records import ObjectArray

UNASSIGNED_PARTITION = -1
"""Partition of a record without a key: the producer chooses."""


@dataclass(frozen=True)
class OutputBatch:
    """The records for one topic, as bytes.

    Args:
        topic: the broker's name of the topic.
        keys: key bytes or ``None``, one per record; the same for ``values``.
        timestamps: milliseconds.
        partitions: partition per record, ``UNASSIGNED_PARTITION`` where the producer chooses; or one for all.
        headers: per record a list of (name, value) pairs or ``None``; ``None`` where no record has headers.
        store: name of the store whose changelog this is, ``None`` for other topics.
        origins: for each record the row of the task's input that it comes from; ``None`` where that is not known.
        order: the records' order columns, see :class:`~millrace.task.records.Records`; ``None`` as for ``origins``.
    """

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: IntArray
    partitions: npt.NDArray[np.int32] | int
    headers: ObjectArray | None = None
    store: str | None = None
    origins: IntArray | None = None
    order: tuple[IntArray, ...] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def filter(self, mask: BoolArray) -> OutputBatch:
        """Returns the records where ``mask`` is true."""
        rows = np.flatnonzero(mask)
        return replace(
            self,
            keys=[self.keys[row] for row in rows.tolist()],
            values=[self.values[row] for row in rows.tolist()],
            timestamps=self.timestamps[rows],
            partitions=self.partitions if isinstance(self.partitions, int) else self.partitions[rows],
            headers=None if self.headers is None else self.headers[rows],
            origins=None if self.origins is None else self.origins[rows],
            order=None if self.order is None else tuple(column[rows] for column in self.order),
        )


class Collector(Protocol):
    """The collector of the output of a task's batch, in order. No reader sees any of it before the batch commits."""

    def send(self, batch: OutputBatch) -> None:
        """Sends a batch of records.

        Raises:
            RecordRefusedError: a topic does not take a record; none of the batch was handed over.
        """

    def expect_dead_letter_records(self, topics: Iterable[str], /) -> None:
        """Announces the topics for which there will be dead-letter records, before anything is sent.

        Raises:
            UnknownTopicError: one does not exist.
        """

    def refused(self, batch: OutputBatch) -> list[Refusal]:
        """Returns the records of a batch that their topic does not accept, by row."""

    def partition_count(self, topic: str, /) -> int:
        """Returns the number of partitions of ``topic``.

        Raises:
            UnknownTopicError: there is no such topic.
            TopicRefusedError: the application may not write to it.
        """


class OutputBuffer:
    """A :class:`Collector` that keeps what it is sent: for dead-letter records of records that no task has read."""

    def __init__(self) -> None:
        self._sent: list[OutputBatch] = []

    def send(self, batch: OutputBatch) -> None:
        """Keeps a batch of records."""
        self._sent.append(batch)

    def expect_dead_letter_records(self, _topics: Iterable[str], /) -> None:
        """Accepts all topics: a dead-letter record can be kept without knowing anything about its topic."""

    def refused(self, _batch: OutputBatch, /) -> list[Refusal]:
        """Returns no refusals: every record can be kept."""
        return []

    def partition_count(self, topic: str, /) -> int:
        """Raises an error, since partition counts are not known here.

        Raises:
            StateError: always: no topology writes through this.
        """
        raise StateError(f"Nothing of the topology is written to {topic} here.", remedy="report it")

    def take(self) -> list[OutputBatch]:
        """Returns the records kept so far, and discards them."""
        sent, self._sent = self._sent, []
        return sent
