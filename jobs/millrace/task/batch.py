"""The batch of a task, as the planner hands it to the task that processes and commits it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from millrace.task.input import InputBatch, OffsetRange
from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True)
class TaskBatch:
    """The records that a task processes and commits at once.

    Args:
        rows: what was read of the ranges, in any order.
        ranges: the batch's part of each input partition.
        recommit: whether to commit also where nothing is new, so that the broker does not let the offsets expire.
        global_ends: up to where the global stores must be before anything is processed.
    """

    rows: Sequence[InputBatch]
    ranges: Mapping[TopicPartition, OffsetRange]
    recommit: bool = False
    global_ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """The number of rows."""
        return sum(len(batch) for batch in self.rows)

    def of(self, inputs: Iterable[TopicPartition], rows: Sequence[InputBatch]) -> TaskBatch:
        """Returns one task's part of a batch of all tasks.

        Args:
            inputs: the task's input partitions.
            rows: what was read of them.
        """
        return replace(
            self, rows=rows, ranges={topic_partition: self.ranges[topic_partition] for topic_partition in inputs}
        )
