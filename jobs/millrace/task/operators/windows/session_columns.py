"""Session aggregation in columns: by built-in aggregators, where only the last update of each session counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millrace.metrics import DropReason
from millrace.serdes import Serde
from millrace.state import Session, SessionStore
from millrace.task.aggregation.groups import group
from millrace.task.aggregation.kernels import input_of, needs_a_value
from millrace.task.aggregation.update import is_typed, update_aggregates
from millrace.task.columns import BoolArray, Column, IntArray, WindowedColumn
from millrace.task.failures import FailureHandler
from millrace.task.operators.tables.table_writing import decoded_by
from millrace.task.operators.windows.session_plan import SessionPlan, SessionRows, plan_sessions
from millrace.task.records import Records
from millrace.task.task_stores import TaskStores
from millrace.topology.aggregators import BuiltInAggregator, StructAggregator
from millrace.topology.operators import SessionAggregate


def takes_columns(operator: SessionAggregate, records: Records) -> bool:
    """Returns whether the records can be aggregated in columns: the type that the aggregation reads is known."""
    aggregator = operator.aggregator
    return (
        isinstance(aggregator, BuiltInAggregator | StructAggregator)
        and operator.windows.longest_ms is None
        and is_typed(aggregator, records)
    )


class SessionColumns:
    """The session aggregation of a batch in columns, which reads each key's sessions once and writes a session once.

    Args:
        operator: a built-in aggregation.
        store: its store, cached.
        serde: of the store's values.
        node: name of the node.
        failures: what happens to records for which the aggregation fails, or that are late.
        stores: the task's stores.
    """

    def __init__(
        self,
        operator: SessionAggregate,
        store: SessionStore,
        *,
        serde: Serde,
        node: str,
        failures: FailureHandler,
        stores: TaskStores,
    ) -> None:
        assert isinstance(operator.aggregator, BuiltInAggregator | StructAggregator)
        self._operator = operator
        self._aggregator = operator.aggregator
        self._store = store
        self._serde = serde
        self._failures = failures
        self._stores = stores
        self._node = node

    def plan(
        self, records: Records, key_bytes: list[bytes], codes: IntArray, closed_before: IntArray, readable: IntArray
    ) -> SessionPlan:
        """Finds the sessions of the records; to be called before any of them is written.

        Args:
            records: the records, none of which has a null key.
            key_bytes: their keys.
            codes: for each of them the number of its key, from 0 in the order in which keys first appear.
            closed_before: for each of them: a session that ends before it takes no record, milliseconds.
            readable: for each of them: a session that ends before it has expired, milliseconds.
        """
        rows = SessionRows(codes, records.timestamps, closed_before, readable, self._may_delete(records))
        return plan_sessions(self._operator.windows.gap_ms, rows, self._stored(rows, key_bytes))

    def _stored(self, rows: SessionRows, key_bytes: list[bytes]) -> list[list[Session]]:
        """Returns for each key the sessions that its records may join."""
        gap, find = self._operator.windows.gap_ms, self._store.find_sessions
        order = np.argsort(rows.keys, kind="stable")
        firsts = np.searchsorted(rows.keys[order], np.arange(int(rows.keys.max()) + 1))
        times = rows.timestamps[order]
        earliest = (np.minimum.reduceat(times, firsts) - gap).tolist()
        latest = (np.maximum.reduceat(times, firsts) + gap).tolist()
        keys = [key_bytes[row] for row in order[firsts].tolist()]
        return [find(key, first, last) for key, first, last in zip(keys, earliest, latest, strict=True)]

    def _may_delete(self, records: Records) -> BoolArray:
        """Returns which records may leave a session without an aggregate, that is, without the session itself."""
        if isinstance(self._aggregator, BuiltInAggregator) and needs_a_value(self._aggregator):
            missing: BoolArray = (
                input_of(self._aggregator, records.values.arrow).is_null().to_numpy(zero_copy_only=False)
            )
            return missing
        return np.zeros(len(records), dtype=bool)

    def update(self, records: Records, key_bytes: list[bytes], plan: SessionPlan) -> Records | None:
        """Writes the sessions, and what they replace, in the order of their last records; returns the updates."""
        if len(plan.rows) == 0:
            return None
        in_order = np.argsort(plan.rows)
        rows = plan.rows[in_order]
        before = plan.stored
        groups = group(plan.sessions[in_order])
        update = update_aggregates(
            self._aggregator,
            records.take(rows),
            groups,
            _prior(before, plan.sessions[in_order][groups.first_rows]),
            serde=self._serde,
            every_update=False,
            failures=self._failures,
            node=self._node,
        )
        lasts = np.searchsorted(plan.sessions, np.arange(len(before)), side="right") - 1
        sessions = plan.sessions[in_order][update.rows]
        finals = _Entries(rows[update.rows], plan.starts[lasts][sessions], plan.ends[lasts][sessions], sessions)
        gone = _replaced(plan, before)
        # Behind the tombstone that the same record makes.
        order = np.lexsort((np.concatenate((np.zeros(len(gone.rows)), np.ones(len(sessions)))), gone.then(finals).rows))
        entries = gone.then(finals).take(order)
        is_gone = order < len(gone.rows)
        written = order - len(gone.rows)
        expired = self._store.put_many(
            [key_bytes[row] for row in entries.rows.tolist()],
            entries.starts.tolist(),
            entries.ends.tolist(),
            [None if index < 0 else update.stored[index] for index in written.tolist()],
            records.timestamps[entries.rows],
        )
        if len(expired):
            # One write stands for all records of its session: each is counted, as where it is written alone.
            lost = np.isin(plan.sessions, entries.sessions[expired[~is_gone[expired]]])
            self._failures.drop(DropReason.EXPIRED_WINDOW, records.origin[np.sort(plan.rows[lost])])
        ordinals = np.zeros(len(order), dtype=np.int64)
        ordinals[1:] = entries.rows[1:] == entries.rows[:-1]
        made = records.expand(
            entries.rows,
            ordinals,
            WindowedColumn(records.keys.take(entries.rows), entries.starts, entries.ends),
            Column(arrow=update.results.arrow.take(pa.array(np.maximum(written, 0), mask=is_gone))),
        )
        old_values = self._old_values(before, gone, entries, is_gone)
        # As in Kafka Streams changes of sessions have no headers.
        return replace(made, timestamps=entries.ends, headers=None, old_values=old_values)

    def _old_values(
        self, before: Sequence[Session | None], gone: _Entries, entries: _Entries, is_gone: BoolArray
    ) -> Column | None:
        """Returns the results that were sent of stored sessions, to be taken back by tombstones or else by updates."""
        if not self._stores.sends_old_values(self._node):
            return None
        taken_back = set(gone.sessions.tolist())
        values = [
            None if (old := before[session]) is None or (session in taken_back and not tombstone) else old.value
            for session, tombstone in zip(entries.sessions.tolist(), is_gone.tolist(), strict=True)
        ]
        return decoded_by(self._aggregator, self._serde, values)


@dataclass(frozen=True)
class _Entries:
    """The writes of sessions.

    Args:
        rows: the rows of the records that they come from.
        starts: starts of the sessions, milliseconds; the same for ``ends``.
        sessions: numbers of the sessions.
    """

    rows: IntArray
    starts: IntArray
    ends: IntArray
    sessions: IntArray

    def then(self, others: _Entries) -> _Entries:
        """Returns these writes followed by others."""
        return _Entries(
            np.concatenate((self.rows, others.rows)),
            np.concatenate((self.starts, others.starts)),
            np.concatenate((self.ends, others.ends)),
            np.concatenate((self.sessions, others.sessions)),
        )

    def take(self, indices: IntArray) -> _Entries:
        """Returns the writes at ``indices``."""
        return _Entries(self.rows[indices], self.starts[indices], self.ends[indices], self.sessions[indices])


def _prior(before: Sequence[Session | None], sessions: IntArray) -> tuple[list[bytes | None], IntArray]:
    ordered = [before[session] for session in sessions.tolist()]
    return (
        [None if one is None else one.value for one in ordered],
        np.array([0 if one is None else one.timestamp for one in ordered], dtype=np.int64),
    )


def _replaced(plan: SessionPlan, before: Sequence[Session | None]) -> _Entries:
    """Returns the stored sessions whose bounds change, with the first record that changes them."""
    starts = np.array([0 if one is None else one.start for one in before], dtype=np.int64)
    ends = np.array([0 if one is None else one.end for one in before], dtype=np.int64)
    changed = (plan.starts != starts[plan.sessions]) | (plan.ends != ends[plan.sessions])
    changed &= np.array([one is not None for one in before], dtype=bool)[plan.sessions]
    indices = np.flatnonzero(changed)
    sessions, firsts = np.unique(plan.sessions[indices], return_index=True)
    return _Entries(plan.rows[indices[firsts]], starts[sessions], ends[sessions], sessions)
