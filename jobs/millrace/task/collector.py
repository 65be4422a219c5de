"""Where a task's output goes: outputs, changelog records and dead letters alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from millrace.task.columns import IntArray
from millrace.task.records import ObjectArray

UNASSIGNED_PARTITION = -1
"""Partition of a record without a key: the producer chooses."""


@dataclass(frozen=True)
class OutputBatch:
    """Records for one topic, as bytes.

    Args:
        topic: the broker's name of the topic.
        keys: key bytes or ``None``, one per record; the same for ``values``.
        timestamps: milliseconds.
        partitions: partition per record, ``UNASSIGNED_PARTITION`` where the producer chooses; or one for all.
        headers: per record a list of (name, value) pairs or ``None``; ``None`` where no record has headers.
        store: name of the store whose changelog this is, ``None`` for other topics.
    """

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: IntArray
    partitions: npt.NDArray[np.int32] | int
    headers: ObjectArray | None = None
    store: str | None = None

    def __len__(self) -> int:
        return len(self.keys)


class Collector(Protocol):
    """Takes the output of a task's batch, in order. Nothing is visible to readers before the batch commits."""

    def send(self, batch: OutputBatch) -> None:
        """Hands a batch of records over."""

    def partition_count(self, topic: str, /) -> int:
        """How many partitions ``topic`` has."""
