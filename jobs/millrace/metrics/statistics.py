"""The statistics that a task reports to the driver after each batch: one row, as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import orjson

from millrace.errors import SerializationError
from millrace.metrics.definitions import DropReason, Phase, SilentDrop
from millrace.metrics.histograms import (
    END_TO_END_BUCKETS,
    LATENCY_BUCKETS,
    LATENESS_BUCKETS,
    BucketCounts,
    no_observations,
)

_HISTOGRAMS = {
    "process_latency": LATENCY_BUCKETS,
    "commit_latency": LATENCY_BUCKETS,
    "end_to_end_latency": END_TO_END_BUCKETS,
    "lateness": LATENESS_BUCKETS,
}


@dataclass(frozen=True)
class TaskStatistics:
    """Statistics of one batch of one task. Counts are of this batch alone; sizes and times are the latest.

    Args:
        task_id: sub-topology and partition, ``"1_3"``.
        batch_id: number of the batch in its query.
        run_id: names one start of the query. Batch ids begin at 0 with every start, so this must differ between starts.
        host: where the task ran.
        pid: process it ran in.
        records_in: input records processed, dropped ones included.
        records_out: sink topic to records written.
        dropped: reason to records that went no further.
        silently_dropped: the same, where Kafka Streams counts nothing.
        dead_letters: records written to the dead-letter topic.
        transactions_committed: transactions that ended so. A batch whose transaction ends otherwise has no row.
        restored: changelog records restored before the batch.
        failed_attempts: Spark's attempts at the task that failed before this one.
        rebuilds: times that the task's stores were emptied because their files were damaged.
        restore_s: time the restore took, seconds.
        store_entries: store to its estimated number of entries; empty where they were not measured.
        store_bytes: store to its size in bytes; empty where they were not measured.
        stream_times: store to the stream time of its operator, milliseconds since the epoch.
        held_back: store to the results that wait in it; empty where they were not counted.
        held_back_bytes: store to the bytes of what waits in it, for suppression buffers.
        held_back_since: store to the time of the result that has waited longest, milliseconds since the epoch; without
            those in which nothing waits.
        lateness_max_ms: greatest lateness, milliseconds; ``None`` without records.
        phases: phase to the time spent in it, seconds.
        process_latency: histogram, seconds (:data:`~millrace.metrics.histograms.LATENCY_BUCKETS`).
        commit_latency: the same for the commit.
        end_to_end_latency: histogram of record timestamp to commit, seconds
            (:data:`~millrace.metrics.histograms.END_TO_END_BUCKETS`).
        lateness: histogram of stream time minus timestamp, seconds
            (:data:`~millrace.metrics.histograms.LATENESS_BUCKETS`).
    """

    task_id: str
    batch_id: int
    run_id: str
    host: str
    pid: int
    records_in: int = 0
    records_out: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[DropReason, int] = field(default_factory=dict)
    silently_dropped: Mapping[SilentDrop, int] = field(default_factory=dict)
    dead_letters: int = 0
    transactions_committed: int = 0
    restored: int = 0
    failed_attempts: int = 0
    rebuilds: int = 0
    restore_s: float = 0.0
    store_entries: Mapping[str, int] = field(default_factory=dict)
    store_bytes: Mapping[str, int] = field(default_factory=dict)
    stream_times: Mapping[str, int] = field(default_factory=dict)
    held_back: Mapping[str, int] = field(default_factory=dict)
    held_back_bytes: Mapping[str, int] = field(default_factory=dict)
    held_back_since: Mapping[str, int] = field(default_factory=dict)
    lateness_max_ms: int | None = None
    phases: Mapping[Phase, float] = field(default_factory=dict)
    process_latency: BucketCounts = field(default_factory=lambda: no_observations(LATENCY_BUCKETS))
    commit_latency: BucketCounts = field(default_factory=lambda: no_observations(LATENCY_BUCKETS))
    end_to_end_latency: BucketCounts = field(default_factory=lambda: no_observations(END_TO_END_BUCKETS))
    lateness: BucketCounts = field(default_factory=lambda: no_observations(LATENESS_BUCKETS))

    @property
    def subtopology(self) -> str:
        """The task's sub-topology, ``"1"`` of ``"1_3"``."""
        return self.task_id.partition("_")[0]

    def to_bytes(self) -> bytes:
        """Returns the row as bytes, for the column that a task returns to Spark."""
        row: dict[str, Any] = {}
        for column in fields(self):
            value = getattr(self, column.name)
            if isinstance(value, BucketCounts):
                row[column.name] = {"counts": value.counts, "total": value.total}
            else:
                row[column.name] = dict(value) if isinstance(value, Mapping) else value
        return orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_bytes(cls, data: bytes) -> TaskStatistics:
        """Returns the inverse of :meth:`to_bytes`.

        Raises:
            SerializationError: the bytes are not such a row, for example because the worker runs another version.
        """
        try:
            row: dict[str, Any] = orjson.loads(data)
            row["dropped"] = {DropReason(reason): count for reason, count in row["dropped"].items()}
            row["silently_dropped"] = {SilentDrop(why): count for why, count in row["silently_dropped"].items()}
            row["phases"] = {Phase(phase): seconds for phase, seconds in row["phases"].items()}
            for name, bounds in _HISTOGRAMS.items():
                row[name] = BucketCounts(bounds, tuple(row[name]["counts"]), float(row[name]["total"]))
            return cls(**row)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SerializationError(
                f"The {len(data)} bytes are not a row of task statistics: {error}.",
                remedy="run the same version of Millrace on the driver and its workers",
            ) from error
