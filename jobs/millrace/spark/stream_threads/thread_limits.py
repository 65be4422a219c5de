"""The limits of a stream thread's memory, and the shares of its partitions and tasks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from millrace.config import StreamsConfig
from millrace.spark.stream_threads.thread_task import ThreadTask

POLL_RECORDS = 200_000
"""Most records of one poll, over all partitions, where ``max.poll.records`` does not say so."""

MOST_BUFFERED_BYTES = 512 * 1024 * 1024
"""Keys and values that a thread buffers over all its partitions, beside what the client has queued, where
``input.buffer.max.bytes`` does not say so."""

LEAST_SHARE_BYTES = 4 * 1024 * 1024
"""What a partition may have of that in any case; not of a bound that was set."""


@dataclass(frozen=True, kw_only=True)
class ThreadLimits:
    """The memory limits of a stream thread, over all its tasks.

    Args:
        poll_records: most records of one poll, over all partitions.
        buffered_bytes: keys and values of input; ``None`` bounds them by :data:`MOST_BUFFERED_BYTES`.
        cache_bytes: keys and values that cached stores merge for the next commits; ``None`` bounds them not at all.
    """

    poll_records: int = POLL_RECORDS
    buffered_bytes: int | None = None
    cache_bytes: int | None = None

    @classmethod
    def from_config(cls, config: StreamsConfig) -> ThreadLimits:
        """Returns the configured limits. A poll takes no more records than a partition may buffer."""
        poll_records = config.max_poll_records
        if poll_records is None:
            poll_records = min(POLL_RECORDS, config.buffered_records_per_partition or POLL_RECORDS)
        return cls(
            poll_records=poll_records,
            buffered_bytes=config.input_buffer_max_bytes,
            # With 0 there is nothing to bound.
            cache_bytes=config.statestore_cache_max_bytes or None,
        )

    def partition_bytes(self, partitions: int) -> int:
        """Returns the share of each partition in the buffers of the input, bytes."""
        if self.buffered_bytes is None:
            return max(LEAST_SHARE_BYTES, MOST_BUFFERED_BYTES // max(1, partitions))
        return max(1, self.buffered_bytes // max(1, partitions))

    def share(self, tasks: Collection[ThreadTask]) -> None:
        """Sets the share of each open task: of the buffers by its partitions, of the cache if it has cached stores."""
        open_tasks = [task for task in tasks if task.input is not None]
        partition_bytes = self.partition_bytes(sum(len(task.task.inputs) for task in open_tasks))
        merging = sum(task.merges for task in open_tasks)
        for task in open_tasks:
            cache_bytes = None if self.cache_bytes is None or not task.merges else self.cache_bytes // merging
            task.share(partition_bytes=partition_bytes, cache_bytes=cache_bytes)
