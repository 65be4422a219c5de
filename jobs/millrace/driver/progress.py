"""The lag and the progress of a query, from its positions and the ends of its input. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from millrace.driver.query import QueryProgress
from millrace.driver.status import InputEnd, SubTopologyStatus
from millrace.topology.topic_partition import TopicPartition


def lag_by_partition(
    positions: Mapping[TopicPartition, int], end_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns the lag in records, never negative, of each partition whose position and end are both known.

    Read the positions before the ends: the other way round a fast query seems to be ahead of its input.
    """
    return {
        partition: max(0, end_offsets[partition] - position)
        for partition, position in positions.items()
        if position >= 0 and end_offsets.get(partition, -1) >= 0
    }


def input_ends(
    before: Mapping[TopicPartition, InputEnd],
    positions: Mapping[TopicPartition, int],
    last_stable: Mapping[TopicPartition, int],
    high_watermarks: Mapping[TopicPartition, int],
    *,
    now: float,
) -> dict[TopicPartition, InputEnd]:
    """Returns both ends of each input partition, and since when the application waits for an open transaction.

    It waits where it has read everything up to the last stable offset, and an open transaction keeps that from moving.
    One that moves, however little, begins the time again: upstream's next transaction is another one.

    Args:
        before: the answer before.
        positions: committed offsets, read before the ends.
        last_stable: last stable offsets.
        high_watermarks: ends of the logs, read after those.
        now: seconds since the epoch.
    """
    ends = {}
    for topic_partition, stable in last_stable.items():
        high = high_watermarks.get(topic_partition, stable)
        is_held_back = high > stable and positions.get(topic_partition, -1) >= stable
        last = before.get(topic_partition)
        goes_on = last is not None and last.last_stable == stable and last.held_back_since is not None
        since = None if not is_held_back else last.held_back_since if goes_on and last is not None else now
        ends[topic_partition] = InputEnd(last_stable=stable, high_watermark=max(high, stable), held_back_since=since)
    return ends


def observe(
    before: SubTopologyStatus | None,
    progress: QueryProgress,
    end_offsets: Mapping[TopicPartition, int],
    *,
    moved: bool,
    active: bool,
    restarts: int,
    now: float,
) -> SubTopologyStatus:
    """Returns the status of a query, the one after ``before``.

    Args:
        before: the observation before, ``None`` for the first.
        progress: what the query says.
        end_offsets: ends of the input, read after ``progress``.
        moved: whether positions differ from those of the observation before.
        active: whether the streaming query runs.
        restarts: restarts without progress.
        now: seconds since the epoch.
    """
    lags = lag_by_partition(progress.positions, end_offsets)
    lag = sum(lags.values()) if lags else None
    behind = bool(lag) or any(progress.restore_remaining.values())
    lag_since = None if not behind else (before.lag_since if before and before.lag_since is not None else now)
    progressed = (
        before is None
        or moved
        or progress.batches != before.batches
        or dict(progress.restore_remaining) != before.restore_remaining
    )
    return SubTopologyStatus(
        batch_id=progress.batch_id,
        batches=progress.batches,
        records=progress.records,
        active=active,
        last_batch_started_at=progress.last_batch_started_at,
        last_batch_finished_at=progress.last_batch_finished_at,
        longest_batch_s=progress.longest_batch_s,
        last_commit_at=progress.last_commit_at,
        lag=lag,
        lag_since=lag_since,
        last_progress_at=now if progressed else (before.last_progress_at if before else now),
        restarts=restarts,
        task_states=dict(progress.task_states),
        restore_remaining=dict(progress.restore_remaining),
        restore_rates=dict(progress.restore_rates),
    )
