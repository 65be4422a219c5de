"""The progress of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from millrace.topology.topic_partition import TopicPartition


@dataclass(frozen=True, kw_only=True)
class QueryProgress:
    """The progress of a query.

    Args:
        sub_topology: number of the sub-topology.
        batch_id: Spark's number of the last batch, -1 before the first one.
        batches: finished batches since the driver started, over restarts of the query.
        last_batch_started_at: seconds since the epoch, ``None`` before the first batch.
        last_batch_finished_at: seconds since the epoch, ``None`` before the first batch.
        records: input records processed since the driver started.
        positions: committed offset of each input partition.
        end_offsets: end of each input partition as the query last saw it.
        last_commit_at: when the driver last heard of a commit that moved an offset, seconds since the epoch.
        longest_batch_s: longest of the last twenty finished batches, seconds; 0 before the first.
        task_hosts: ``host/pid`` of the worker that ran each task last, by task id (``1_3``).
        task_states: state of each task, by task id.
        restore_remaining: changelog records that each restoring task has still to apply, by task id.
        restore_rates: changelog records per second that each of them applies, by task id.
        waits_for: why tasks are run by no process at the moment, and what for; empty where all are.
    """

    sub_topology: int
    batch_id: int = -1
    batches: int = 0
    last_batch_started_at: float | None = None
    last_batch_finished_at: float | None = None
    records: int = 0
    last_commit_at: float | None = None
    longest_batch_s: float = 0.0
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    task_hosts: Mapping[str, str] = field(default_factory=dict)
    task_states: Mapping[str, str] = field(default_factory=dict)
    restore_remaining: Mapping[str, int] = field(default_factory=dict)
    restore_rates: Mapping[str, float] = field(default_factory=dict)
    waits_for: str = ""
