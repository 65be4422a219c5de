"""The row of statistics of a task's outcome, from which the driver computes its metrics."""

from __future__ import annotations

import os
import socket

from millrace.metrics import (
    END_TO_END_BUCKETS,
    LATENCY_BUCKETS,
    LATENESS_BUCKETS,
    DropReason,
    Phase,
    SilentDrop,
    TaskStatistics,
    observe,
)
from millrace.task.batch_outcome import BatchOutcome

_PHASES = {"read": Phase.READ, "process": Phase.PROCESS, "commit": Phase.COMMIT, "store": Phase.STORE}


def statistics_of(outcome: BatchOutcome, *, batch_id: int, run_id: str, failed_attempts: int = 0) -> TaskStatistics:
    """Returns the row of statistics of one batch of one task.

    Args:
        outcome: what the task did.
        batch_id: number of the batch in its query.
        run_id: names the start of the query.
        failed_attempts: how many of Spark's attempts at the task failed before.
    """
    durations = outcome.durations
    process = [durations["process"]] if "process" in durations else []
    commit = [durations["commit"]] if "commit" in durations else []
    return TaskStatistics(
        task_id=outcome.task,
        batch_id=batch_id,
        run_id=run_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        records_in=outcome.counts.get("read", 0),
        records_out=_with_prefix(outcome, "written."),
        dropped={DropReason(reason): count for reason, count in _with_prefix(outcome, "dropped.").items()},
        silently_dropped={
            SilentDrop(reason): count for reason, count in _with_prefix(outcome, "silently_dropped.").items()
        },
        dead_letters=outcome.counts.get("dead_letters", 0),
        transactions_committed=outcome.transactions,
        failed_attempts=failed_attempts,
        restored=outcome.restored,
        rebuilds=outcome.rebuilds,
        restore_s=durations.get("restore", 0.0) if outcome.restored else 0.0,
        store_entries={store: entries for store, (entries, _) in outcome.store_sizes.items()},
        store_bytes={store: size for store, (_, size) in outcome.store_sizes.items()},
        stream_times=dict(outcome.stream_times),
        held_back={store: held.results for store, held in outcome.held_back.items()},
        held_back_bytes={
            store: held.size_bytes for store, held in outcome.held_back.items() if held.size_bytes is not None
        },
        held_back_since={
            store: held.since_ms for store, held in outcome.held_back.items() if held.since_ms is not None
        },
        lateness_max_ms=int(outcome.lateness.max()) if len(outcome.lateness) else None,
        phases={phase: durations[name] for name, phase in _PHASES.items() if name in durations},
        process_latency=observe(process, LATENCY_BUCKETS),
        commit_latency=observe(commit, LATENCY_BUCKETS),
        end_to_end_latency=observe(outcome.latencies, END_TO_END_BUCKETS),
        lateness=observe(outcome.lateness / 1000, LATENESS_BUCKETS),
    )


def _with_prefix(outcome: BatchOutcome, prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): count for name, count in outcome.counts.items() if name.startswith(prefix)}
