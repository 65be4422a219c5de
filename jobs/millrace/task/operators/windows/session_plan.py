"""The plan of which session each record of a batch belongs to, made in columns where the sessions are plain.

Records and stored sessions of a key that lie within the gap of each other make a *cluster*: nothing in it ever joins
anything outside of it. It is plain where every record, as they come, lengthens the one session that the cluster has by
then. Where a record begins a second one (which a later record unites with the first), it must go record by record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millrace.state import Session
from millrace.task.columns import BoolArray, IntArray

# Beyond every timestamp, and far enough from the ends of 64 bits that sums stay in them.
_NEVER = -(2**61)
_LARGEST = 2**62


@dataclass(frozen=True)
class SessionRows:
    """The records of a batch, in their order.

    Args:
        keys: numbers of their keys, from 0.
        timestamps: event times, milliseconds.
        closed_before: a session that ends before it takes no record, milliseconds.
        readable_from: a session that ends before it has expired, milliseconds.
        may_delete: whether they may leave a session without an aggregate, which then is not there.
    """

    keys: IntArray
    timestamps: IntArray
    closed_before: IntArray
    readable_from: IntArray
    may_delete: BoolArray


@dataclass(frozen=True)
class SessionPlan:
    """The plan of how the records of a batch are aggregated.

    Args:
        late: rows of late records, in no order.
        left: rows that must be taken one by one.
        rows: rows of the other records, sorted by session and within one in their order.
        sessions: for each of ``rows`` the number of its session, ascending from 0.
        starts: for each of ``rows`` the start of its session after it, milliseconds.
        ends: the same for the end.
        stored: for each session the one in the store that it continues.
    """

    late: IntArray
    left: IntArray
    rows: IntArray
    sessions: IntArray
    starts: IntArray
    ends: IntArray
    stored: tuple[Session | None, ...]


@dataclass(frozen=True)
class _Clusters:
    """The clusters of records and stored sessions, sorted by key and time.

    Args:
        keys: numbers of their keys.
        starts: their first timestamps, milliseconds.
        ends: their last ones.
        of_rows: for each record its cluster.
        stored: for each stored session its cluster.
    """

    keys: IntArray
    starts: IntArray
    ends: IntArray
    of_rows: IntArray
    stored: IntArray


def plan_sessions(gap: int, records: SessionRows, stored: Sequence[Sequence[Session]]) -> SessionPlan:
    """Assigns the records to sessions.

    Args:
        gap: the inactivity gap of the windows, which have no longest duration, milliseconds.
        records: the records.
        stored: for each key the sessions in the store that its records may join.
    """
    # A record behind the closing time is late, unless it joins a session that still is open.
    behind = records.timestamps < records.closed_before
    kept, suspects = np.flatnonzero(~behind), np.flatnonzero(behind)
    flat = [(key, session) for key, sessions in enumerate(stored) for session in sessions]
    clusters = _clusters(gap, records.keys[kept], records.timestamps[kept], flat)
    left, odd = _may_be_taken(gap, records, suspects, clusters)

    count = np.bincount(clusters.stored, minlength=len(clusters.keys))
    odd |= count > 1
    has_stored = count > 0
    first_start, first_end = np.full((2, len(clusters.keys)), _NEVER, dtype=np.int64)
    first_start[clusters.stored] = [session.start for _, session in flat]
    first_end[clusters.stored] = [session.end for _, session in flat]

    order = np.argsort(clusters.of_rows, kind="stable")
    rows, of_rows = kept[order], clusters.of_rows[order]
    times, is_first, goes_on = records.timestamps[rows], _is_first(of_rows), has_stored[of_rows]
    ends = np.maximum(_running_max(times, of_rows), first_end[of_rows])
    starts = np.minimum(-_running_max(-times, of_rows), np.where(goes_on, first_start[of_rows], -_NEVER))
    end_before = np.where(is_first, first_end[of_rows], _shifted(ends))
    start_before = np.where(is_first, first_start[of_rows], _shifted(starts))
    apart = (times < start_before - gap) | (times > end_before + gap) | (end_before < records.readable_from[rows])
    odd[of_rows[(apart & (goes_on | ~is_first)) | records.may_delete[rows]]] = True

    plain = ~odd[of_rows]
    begins = _is_first(of_rows[plain])
    by_cluster = {int(clusters.stored[number]): session for number, (_, session) in enumerate(flat)}
    return SessionPlan(
        late=suspects[~left],
        left=np.sort(np.concatenate((rows[~plain], suspects[left]))),
        rows=rows[plain],
        sessions=np.cumsum(begins) - 1,
        starts=starts[plain],
        ends=ends[plain],
        stored=tuple(by_cluster.get(cluster) for cluster in of_rows[plain][begins].tolist()),
    )


def _clusters(gap: int, keys: IntArray, times: IntArray, stored: Sequence[tuple[int, Session]]) -> _Clusters:
    all_keys = np.concatenate((keys, np.array([key for key, _ in stored], dtype=np.int64)))
    starts = np.concatenate((times, np.array([session.start for _, session in stored], dtype=np.int64)))
    ends = np.concatenate((times, np.array([session.end for _, session in stored], dtype=np.int64)))
    order = np.lexsort((starts, all_keys))
    sorted_keys, sorted_starts = all_keys[order], starts[order]
    end_so_far = _running_max(ends[order], sorted_keys)
    opens = _is_first(sorted_keys) | (sorted_starts > _shifted(end_so_far) + gap)
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(opens) - 1
    closes = np.append(opens[1:], True)[: len(opens)]
    return _Clusters(
        sorted_keys[opens], sorted_starts[opens], end_so_far[closes], numbers[: len(keys)], numbers[len(keys) :]
    )


def _may_be_taken(
    gap: int, records: SessionRows, suspects: IntArray, clusters: _Clusters
) -> tuple[BoolArray, BoolArray]:
    """Returns which records before the closing time may join an open session, and which clusters these affect."""
    open_near, odd = np.zeros(len(suspects), dtype=bool), np.zeros(len(clusters.keys), dtype=bool)
    if len(suspects) == 0 or len(clusters.keys) == 0:
        return open_near, odd
    keys, times = records.keys[suspects], records.timestamps[suspects]
    # Pairs of key and time are compared as one number. Times are counted first: a key times their span would not fit in
    # 64 bits where one of them is in microseconds.
    known_times, counted = np.unique(np.concatenate((clusters.starts, times + gap)), return_inverse=True)
    starts, latest = counted[: len(clusters.starts)], counted[len(clusters.starts) :]
    span = len(known_times)
    nearest = np.searchsorted(clusters.keys * span + starts, keys * span + latest, "right") - 1
    # No more than two clusters lie within the gap of one point in time.
    near = []
    for candidate in (nearest, nearest - 1):
        known = np.maximum(candidate, 0)
        is_near = (candidate >= 0) & (clusters.keys[known] == keys) & (clusters.ends[known] >= times - gap)
        open_near |= is_near & (clusters.ends[known] >= records.closed_before[suspects])
        near.append((known, is_near))
    for known, is_near in near:
        odd[known[is_near & open_near]] = True
    return open_near, odd


def _is_first(groups: IntArray) -> BoolArray:
    first = np.ones(len(groups), dtype=bool)
    first[1:] = groups[1:] != groups[:-1]
    return first


def _shifted(values: IntArray) -> IntArray:
    return np.concatenate((np.array([_NEVER], dtype=np.int64), values))[: len(values)]


def _running_max(values: IntArray, groups: IntArray) -> IntArray:
    """Returns the largest value of a group up to each row; groups ascend."""
    if len(values) == 0:
        return values
    base = int(values.min())
    span = int(values.max()) - base + 1
    if span * (int(groups[-1]) + 1) > _LARGEST:
        # As above: the numbers of the values instead of the values.
        known, counted = np.unique(values, return_inverse=True)
        return np.asarray(known[_running_max(counted.astype(np.int64), groups)], dtype=np.int64)
    offsets = groups * span
    return np.asarray(np.maximum.accumulate(values - base + offsets) - offsets + base, dtype=np.int64)
