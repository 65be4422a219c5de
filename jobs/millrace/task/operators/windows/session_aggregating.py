"""``count``, ``reduce`` and ``aggregate`` per key and session."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.metrics import DropReason
from millrace.state import Session, SessionStore
from millrace.task.aggregation.calls import calls_of, fitting
from millrace.task.aggregation.groups import group_codes
from millrace.task.columns import Column, IntArray
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.operators.suppression.final_results import ClosingSessions, FinalResults
from millrace.task.operators.windows.session_columns import SessionColumns, takes_columns
from millrace.task.operators.windows.windowed_results import WindowedResults
from millrace.task.processor import Forwarded, HeldBackByStore, Processor, drop_null_keys
from millrace.task.records import Records, merge_in_order
from millrace.task.serialization import or_default, read_stored
from millrace.task.stream_time import advance_stream_time
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.aggregators import BuiltInAggregator, StructAggregator
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.operators import SessionAggregate
from millrace.topology.session_windows import SessionWindows


class SessionAggregateProcessor(Processor):
    """The processor that merges each record with the sessions of its key that lie within the gap.

    A record is late when the session that it would belong to has closed: when that session's end, gap and grace are
    before the stream time. Unless the new session is nothing but the record's own point in time, the sessions that it
    joins get tombstones first, also where their bounds stay. The timestamps of tombstones and results are the ends of
    their sessions, and as in Kafka Streams they have no headers.

    Built-in aggregations into a cached store are computed in columns where that is plain (see ``session_columns``);
    the other keys, and all other aggregations, go record by record.

    Unlike Kafka Streams a record whose adder raises, where the handler continues, leaves the sessions as they are:
    there the sessions that it would have joined are gone. And an update of a session that stays one point in time says
    what was sent of it before: there a table that groups the sessions adds both, and a filter takes nothing back.
    """

    def __init__(
        self,
        node: str,
        operator: SessionAggregate,
        *,
        failures: FailureHandler,
        stores: TaskStores,
        stream_times: dict[str, int],
        held_back: HeldBackByStore,
    ) -> None:
        store = stores.open(operator.store)
        assert isinstance(store, SessionStore)
        spec = stores.specs[operator.store]
        self._node = node
        self._operator = operator
        self._windows: SessionWindows = operator.windows
        self._failures = failures
        self._stores = stores
        self._stream_times = stream_times
        self._store = store
        self._key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)
        self._calls = calls_of(operator.aggregator, operator.merger)
        self._sends_old_values = stores.sends_old_values(node)
        self._retention = spec.retention_ms
        self._closing: ClosingSessions | None = None
        if operator.emit is EmitStrategy.WINDOW_CLOSE:
            lag_ms = operator.windows.gap_ms + operator.windows.grace_ms + 1
            self._closing = ClosingSessions(
                operator.store, stores, lag_ms=lag_ms, stream_times=stream_times, held_back=held_back
            )
        self._columns: SessionColumns | None = None
        if (
            self._closing is None
            and stores.merges_windows(operator.store)
            and isinstance(operator.aggregator, BuiltInAggregator | StructAggregator)
        ):
            self._columns = SessionColumns(
                operator, store, serde=self._value_serde, failures=failures, stores=stores, node=node
            )

    def reset(self) -> None:
        if self._closing is not None:
            self._closing.reset()

    def _results(self, records: Records) -> tuple[WindowedResults | FinalResults[tuple[int, bytes]], IntArray]:
        """Returns the collector of results that go downstream, and stream time at each record."""
        if self._closing is None:
            merged = self._stores.merges_windows(self._operator.store)
            stream_times = advance_stream_time(self._stream_times, self._failures, self._operator.store, records)
            return WindowedResults(merged=merged, with_old_values=self._sends_old_values), stream_times
        self._closing.load()
        stream_times = advance_stream_time(self._stream_times, self._failures, self._operator.store, records)
        closed_until = self._closing.closed_until(stream_times)
        return FinalResults(
            self._closing, closed_until, key_serde=self._key_serde, result=self._stored_result
        ), stream_times

    def _stored_result(self, value: bytes) -> Any:
        return self._calls.result(self._value_serde.deserialize(value))

    def process(self, records: Records) -> Forwarded:
        records = drop_null_keys(records, self._failures)
        if len(records) == 0:
            return None
        records = fitting(self._operator.aggregator, records, self._failures, self._node)
        found = written(records, self._failures, self._node, key_serde=self._key_serde)
        records, key_column = found.records, found.key_array
        if len(records) == 0:
            return None
        results, stream_times = self._results(records)
        closed_before = stream_times - (self._windows.gap_ms + self._windows.grace_ms)
        key_bytes: list[bytes] = key_column.to_pylist()
        if self._columns is None or not takes_columns(self._operator, records):
            everything = np.arange(len(records), dtype=np.int64)
            updates, late = self._one_by_one(records, everything, key_bytes, closed_before, results=results)
        else:
            # The store, which is written later, would still show sessions that records before have made expire.
            newest = np.maximum.accumulate(np.concatenate(([self._store.observed_stream_time], records.timestamps)))
            readable = newest[:-1] - self._retention + 1
            plan = self._columns.plan(records, key_bytes, group_codes(key_column), closed_before, readable)
            singles, late = self._one_by_one(records, plan.left, key_bytes, closed_before, readable, results=results)
            late = np.sort(np.concatenate((late, plan.late)))
            updates = _merged(self._columns.update(records, key_bytes, plan), singles)
        self._failures.drop(DropReason.LATE, records.origin[late])
        return updates

    def _one_by_one(
        self,
        records: Records,
        rows: IntArray,
        key_bytes: list[bytes],
        closed_before: IntArray,
        readable: IntArray | None = None,
        *,
        results: WindowedResults | FinalResults[tuple[int, bytes]],
    ) -> tuple[Records | None, IntArray]:
        """Aggregates the records at ``rows`` one after the other; returns their updates and the rows of late ones."""
        late: list[int] = []
        if len(rows) == 0:
            return None, np.array(late, dtype=np.int64)
        columns = zip(
            rows.tolist(),
            records.keys.take(rows).objects,
            records.values.take(rows).objects,
            records.timestamps[rows].tolist(),
            closed_before[rows].tolist(),
            repeat(0, len(rows)) if readable is None else readable[rows].tolist(),
            strict=True,
        )
        for row, key, value, timestamp, close_time, first_readable in columns:
            stored_key = key_bytes[row]
            joined = self._sessions_to_join(stored_key, timestamp, first_readable)
            point = (timestamp, timestamp)
            window = _span(timestamp, joined)
            if window[1] < close_time:
                late.append(row)
                continue
            try:
                aggregate = self._aggregate(key, value, joined)
            except Exception as error:
                self._failures.processing(error, int(records.origin[row]), self._node, processed_record(records, row))
                continue
            replaced = joined if window != point else []
            for session in replaced:
                results.add(
                    row,
                    stored_key,
                    (session.start, session.end),
                    None,
                    session.end,
                    is_there=False,
                    old=self._old_result(session),
                )
            continued = next((session for session in joined if (session.start, session.end) == window), None)
            results.add(
                row,
                stored_key,
                window,
                self._calls.result(aggregate),
                window[1],
                was_there=continued is not None and not replaced,
                is_there=aggregate is not None,
                # A tombstone has taken a replaced session back already.
                old=None if continued is None or replaced else self._old_result_of_point(continued),
            )
            record_order = tuple(column[row] for column in records.order)
            expired = self._write(
                stored_key, replaced, window, aggregate, timestamp=timestamp, record_order=record_order
            )
            if len(expired):
                gone = [int(records.origin[row])] if len(replaced) in expired else []
                self._failures.drop(DropReason.EXPIRED_WINDOW, gone, count=len(expired))
        return results.of_sessions(records), np.array(late, dtype=np.int64)

    def _old_result(self, session: Session) -> Any:
        """Returns the result that was sent of a session; ``None`` where no node below needs it."""
        if not self._sends_old_values:
            return None
        return self._stored_result(session.value)

    def _old_result_of_point(self, session: Session) -> Any:
        """Returns the result that was sent of a session that was a single point in time and still is.

        Kafka Streams sends no old value there: it is a method of its own so that tests/parity can say the same.
        """
        return self._old_result(session)

    def _sessions_to_join(self, key: bytes, timestamp: int, first_readable: int) -> list[Session]:
        gap, longest = self._windows.gap_ms, self._windows.longest_ms
        near = self._store.find_sessions(key, max(timestamp - gap, first_readable), timestamp + gap)
        if longest is None or not near:
            return near
        start = end = timestamp
        chosen = []
        for session in sorted(near, key=lambda session: max(session.start - timestamp, timestamp - session.end, 0)):
            merged_start, merged_end = min(start, session.start), max(end, session.end)
            if merged_end - merged_start <= longest:
                start, end = merged_start, merged_end
                chosen.append(session)
        return [session for session in near if session in chosen]

    def _aggregate(self, key: Any, value: Any, joined: list[Session]) -> Any:
        """Returns the merge of the initial aggregate, the sessions from the oldest end on, and the record."""
        aggregate = self._calls.initial()
        for session in joined:
            stored = read_stored(self._value_serde, session.value, store=self._operator.store)
            aggregate = self._calls.merge(key, aggregate, stored)
        return self._calls.add(key, value, aggregate)

    def _write(
        self,
        key: bytes,
        replaced: list[Session],
        window: tuple[int, int],
        aggregate: Any,
        *,
        timestamp: int,
        record_order: tuple[int, ...],
    ) -> IntArray:
        """Writes the changes of one record; returns which of these writes are of expired sessions.

        The indices are those of the writes: the replaced sessions first, the record's own last.

        Args:
            key: the un-windowed key.
            replaced: the sessions that are gone.
            window: first and last timestamp of the session that is there now.
            aggregate: its aggregate.
            timestamp: the record's.
            record_order: the record's order columns.
        """
        count = len(replaced) + 1
        starts = [*(session.start for session in replaced), window[0]]
        ends = [*(session.end for session in replaced), window[1]]
        values = [*[None] * len(replaced), None if aggregate is None else self._value_serde.serialize(aggregate)]
        view = self._stores.windowed_tables.get(self._operator.store)
        if view is not None:
            order = tuple(np.full(count, column, dtype=np.int64) for column in record_order)
            order = (*order, np.arange(count, dtype=np.int64))
            view.note([key] * count, starts, ends, values=values, timestamps=ends, order=order)
        return self._store.put_many([key] * count, starts, ends, values, np.full(count, timestamp, dtype=np.int64))


def _merged(in_columns: Records | None, singles: Records | None) -> Records | None:
    """Returns all updates in their order, in columns if some are."""
    if in_columns is None or singles is None:
        return singles if in_columns is None else in_columns
    values = pa.array(singles.values.objects, type=in_columns.values.arrow.type)
    return merge_in_order([in_columns, singles.with_values(Column(arrow=values))])


def _span(timestamp: int, sessions: list[Session]) -> tuple[int, int]:
    """Returns the first and last timestamp of a record and the sessions that it joins."""
    start = end = timestamp
    for session in sessions:
        start, end = min(start, session.start), max(end, session.end)
    return start, end
