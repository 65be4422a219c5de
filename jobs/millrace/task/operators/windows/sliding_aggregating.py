"""``count``, ``reduce`` and ``aggregate`` per key and sliding window."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from millrace.metrics import DropReason
from millrace.serdes import Serde
from millrace.state import WindowStore
from millrace.task.aggregation.calls import AggregationCalls, calls_of, fitting
from millrace.task.aggregation.initial import first_result
from millrace.task.columns import IntArray
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.operators.suppression.final_results import ClosingTimeWindows, FinalResults
from millrace.task.operators.windows.windowed_results import WindowedResults
from millrace.task.processor import Forwarded, HeldBackByStore, Processor, drop_nulls
from millrace.task.records import Records
from millrace.task.serialization import or_default, read_stored
from millrace.task.stream_time import advance_stream_time
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.operators import SlidingAggregate
from millrace.topology.sliding_windows import SlidingWindows


class _Stored(NamedTuple):
    """A window's aggregate as store bytes, and the largest timestamp of its records."""

    value: bytes
    timestamp: int


class _Change(NamedTuple):
    """The change of one window by a record: the new aggregate (bytes and result) and its timestamp.

    Its ``old`` result is what the record was added to, as in Kafka Streams: for a new window, what it started with.
    """

    start: int
    stored: bytes | None
    result: Any
    timestamp: int
    old: Any = None


@dataclass(frozen=True)
class _Aggregation:
    """An aggregation over stored values."""

    store: str
    calls: AggregationCalls
    serde: Serde
    first_result: Callable[[], Any]

    def initial(self) -> Any:
        """Returns the aggregate of a window without records."""
        return self.calls.initial()

    def read(self, stored: _Stored) -> Any:
        """Returns a window's aggregate, as another object each time, since an adder may change the one it gets."""
        return read_stored(self.serde, stored.value, store=self.store)

    def add(self, key: Any, value: Any, aggregate: Any) -> tuple[bytes | None, Any]:
        """Returns the aggregate with one record added, as store bytes and as a result."""
        new = self.calls.add(key, value, aggregate)
        return None if new is None else self.serde.serialize(new), self.calls.result(new)

    def before(self, stored: _Stored | None) -> Any:
        """Returns the result before a record is added."""
        return self.first_result() if stored is None else self.copied(stored)

    def copied(self, stored: _Stored) -> Any:
        """Returns the result of a window's content, as another object each time."""
        return self.result(stored.value)

    def result(self, value: bytes) -> Any:
        """Returns the result of stored bytes."""
        return self.calls.result(read_stored(self.serde, value, store=self.store))


class _Windows:
    """The windows of one key that a batch may touch."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stored: dict[int, _Stored] = {}

    def get(self, start: int) -> _Stored | None:
        """Returns the content of a window."""
        return self._stored.get(start)

    def put(self, start: int, stored: _Stored | None) -> None:
        """Adds, replaces or, with ``None``, removes a window."""
        if stored is not None:
            if start not in self._stored:
                insort(self._starts, start)
            self._stored[start] = stored
        elif self._stored.pop(start, None) is not None:
            del self._starts[bisect_left(self._starts, start)]

    def between(self, first: int, last: int) -> list[tuple[int, _Stored]]:
        """Returns start and content of the windows that start in ``[first, last]``, by start."""
        starts = self._starts[bisect_left(self._starts, first) : bisect_right(self._starts, last)]
        return [(start, self._stored[start]) for start in starts]


class SlidingAggregateProcessor(Processor):
    """The processor that adds each record to the windows around it, and creates those that are missing.

    A record needs its left window, which ends at it; its right window, which starts one millisecond after it, where
    later records are there already; and the right window of the record before, which now has content. New windows take
    over what the neighbouring one holds. A record is late when its right window has ended grace before the stream time,
    and each single window takes no records any more from then on.

    Unlike Kafka Streams a record whose adder raises, where the handler continues, changes no window: there the windows
    before the one at which it raised have it.
    """

    def __init__(
        self,
        node: str,
        operator: SlidingAggregate,
        *,
        failures: FailureHandler,
        stores: TaskStores,
        stream_times: dict[str, int],
        held_back: HeldBackByStore,
    ) -> None:
        store = stores.open(operator.store)
        assert isinstance(store, WindowStore)
        spec = stores.specs[operator.store]
        self._node = node
        self._operator = operator
        self._windows: SlidingWindows = operator.windows
        self._difference = operator.windows.difference_ms
        self._failures = failures
        self._stores = stores
        self._stream_times = stream_times
        self._store = store
        self._retention = spec.retention_ms
        self._key_serde = or_default(spec.key_serde)
        self._aggregation = _Aggregation(
            operator.store,
            calls_of(operator.aggregator),
            or_default(spec.value_serde),
            partial(first_result, operator.aggregator),
        )
        self._sends_old_values = stores.sends_old_values(node)
        self._closing: ClosingTimeWindows | None = None
        if operator.emit is EmitStrategy.WINDOW_CLOSE:
            size_ms = self._difference
            self._closing = ClosingTimeWindows(
                operator.store,
                stores,
                size_ms=size_ms,
                lag_ms=size_ms + operator.windows.grace_ms + 1,
                stream_times=stream_times,
                held_back=held_back,
            )

    def reset(self) -> None:
        if self._closing is not None:
            self._closing.reset()

    def _results(self, records: Records) -> tuple[WindowedResults | FinalResults[bytes], IntArray]:
        """Returns the collector of results that go downstream, and stream time at each record."""
        if self._closing is None:
            merged = self._stores.merges_windows(self._operator.store)
            stream_times = advance_stream_time(self._stream_times, self._failures, self._operator.store, records)
            return WindowedResults(merged=merged, with_old_values=self._sends_old_values), stream_times
        self._closing.load()
        stream_times = advance_stream_time(self._stream_times, self._failures, self._operator.store, records)
        closed_until = self._closing.closed_until(stream_times)
        result = self._aggregation.result
        return FinalResults(self._closing, closed_until, key_serde=self._key_serde, result=result), stream_times

    def process(self, records: Records) -> Forwarded:
        failures = self._failures
        records = drop_nulls(records, failures)
        if len(records) == 0:
            return None
        records = fitting(self._operator.aggregator, records, failures, self._node)
        found = written(records, failures, self._node, key_serde=self._key_serde)
        records = found.records
        if len(records) == 0:
            return None
        results, stream_times = self._results(records)
        closed_before = stream_times - self._windows.grace_ms
        merged = self._stores.merges_windows(self._operator.store)
        writes: list[tuple[bytes, int, bytes | None, int]] = []
        written_by: list[int] = []
        known: dict[bytes, _Windows] = {}
        bounds = int(records.timestamps.min()), int(records.timestamps.max())
        observed = self._store.observed_stream_time
        rows = zip(
            found.keys,
            records.keys.objects,
            records.values.objects,
            records.timestamps.tolist(),
            closed_before.tolist(),
            strict=True,
        )
        for row, (stored_key, key, value, timestamp, close_time) in enumerate(rows):
            if timestamp + self._difference < close_time:
                failures.drop(DropReason.LATE, [int(records.origin[row])])
                continue
            assert stored_key is not None
            windows = known.get(stored_key)
            if windows is None:
                windows = known[stored_key] = self._load(stored_key, *bounds)
            record = _OneRecord(
                self._aggregation,
                key,
                value,
                timestamp,
                difference=self._difference,
                close_time=close_time,
                with_old=self._sends_old_values and not merged,
            )
            try:
                changes = record.changes(windows, first_readable=observed - self._retention + 1)
            except Exception as error:
                failures.processing(error, int(records.origin[row]), self._node, processed_record(records, row))
                continue
            shut_out = [] if changes else [int(records.origin[row])]
            failures.drop(DropReason.LATE, shut_out if record.late_windows else [], count=record.late_windows)
            for start, stored, result, newest, base in changes:
                observed = max(observed, start)
                before = windows.get(start) if self._sends_old_values and merged else None
                windows.put(start, None if stored is None else _Stored(stored, newest))
                # A deletion is logged with its record's own timestamp, as in Kafka Streams.
                writes.append((stored_key, start, stored, timestamp if stored is None else newest))
                written_by.append(row)
                old = base if before is None else self._aggregation.copied(before)
                results.add(
                    row,
                    stored_key,
                    (start, start + self._difference),
                    result,
                    newest,
                    is_there=stored is not None,
                    old=old,
                )
        if writes:
            keys, starts, values, timestamps = (list(column) for column in zip(*writes, strict=True))
            view = self._stores.windowed_tables.get(self._operator.store)
            if view is not None:
                ends = [start + self._difference for start in starts]
                view.note(
                    keys,
                    starts,
                    ends,
                    values=values,
                    timestamps=timestamps,
                    order=_order_of(records, written_by),
                )
            expired = self._store.put_many(
                keys, np.array(starts, dtype=np.int64), values, np.array(timestamps, dtype=np.int64)
            )
            if len(expired):
                by = np.array(written_by, dtype=np.int64)
                gone = np.setdiff1d(by[expired], np.delete(by, expired))
                failures.drop(DropReason.EXPIRED_WINDOW, records.origin[gone], count=len(expired))
        return results.of_windows(records)

    def _load(self, key: bytes, earliest: int, latest: int) -> _Windows:
        windows = _Windows()
        for start, value, timestamp in self._store.fetch(key, max(0, earliest - 2 * self._difference), latest + 1):
            windows.put(start, _Stored(value, timestamp))
        return windows


def _order_of(records: Records, rows: list[int]) -> tuple[IntArray, ...]:
    """Returns the order columns of the changes by the records at ``rows``, ascending, one after the other."""
    parents = np.array(rows, dtype=np.int64)
    ordinals = np.arange(len(parents), dtype=np.int64) - np.searchsorted(parents, parents, side="left")
    return (*(column[parents] for column in records.order), ordinals)


class _OneRecord:
    """The computation of one record's changes to the windows of its key; it does not change them itself."""

    def __init__(
        self,
        aggregation: _Aggregation,
        key: Any,
        value: Any,
        timestamp: int,
        *,
        difference: int,
        close_time: int,
        with_old: bool,
    ) -> None:
        self._aggregation = aggregation
        self._difference = difference
        self._key = key
        self._value = value
        self._timestamp = timestamp
        self._close_time = close_time
        self._with_old = with_old
        self._changes: list[_Change] = []
        self.late_windows = 0

    def changes(self, windows: _Windows, *, first_readable: int) -> list[_Change]:
        """Returns the changes, in the order of Kafka Streams."""
        time, difference = self._timestamp, self._difference
        first = max(0, time - 2 * difference, first_readable)
        if time < difference:
            self._early(windows.between(first, time + 1))
        else:
            self._usual(windows.between(first, time + 1))
        return self._changes

    def _usual(self, windows: list[tuple[int, _Stored]]) -> None:
        """Adds the record to the windows around it, from the newest to the first one that ends before it."""
        time, difference = self._timestamp, self._difference
        seen: set[int] = set()
        left: _Stored | None = None
        right: _Stored | None = None
        before: int | None = None
        has_left = has_right = False
        for start, stored in reversed(windows):
            seen.add(start)
            end = start + difference
            if start == time + 1:
                has_right = True
            elif end > time:
                right = right or stored
                self._update(start, stored)
            elif end == time:
                has_left = True
                self._update(start, stored)
                if stored.timestamp >= time:
                    # A record was here before: all windows around it are there.
                    return
                before = stored.timestamp
            else:
                left, before = stored, stored.timestamp
                break
        if before is not None and before + 1 not in seen and before + 1 + difference >= time:
            self._update(before + 1, None)
        if not has_left:
            overlaps = before is not None and time - difference <= before
            self._update(time - difference, left._replace(timestamp=time) if overlaps and left is not None else None)
        if not has_right:
            self._make_right(right)

    def _early(self, windows: list[tuple[int, _Stored]]) -> None:
        """Adds the record to the windows around it, if it is so early that its left window is the one from 0 on."""
        time = self._timestamp
        seen = {start for start, _ in windows}
        shared: _Stored | None = None
        right: _Stored | None = None
        before: int | None = None
        for start, stored in windows:
            if start == 0:
                shared = stored
                before = stored.timestamp if stored.timestamp < time else None
            elif start <= time:
                right = stored
                self._update(start, stored)
        if time + 1 not in seen:
            # Without a window between, all that the shared one holds behind the record is in the right window.
            self._make_right(right or shared)
        if before is not None and before + 1 not in seen:
            self._update(before + 1, None)
        self._update(0, shared)

    def _update(self, start: int, stored: _Stored | None) -> None:
        """Adds the record to a window, or to the initial aggregate of a missing one."""
        if start + self._difference < self._close_time:
            self.late_windows += 1
            return
        base = self._aggregation.before(stored) if self._with_old else None
        old = self._aggregation.initial() if stored is None else self._aggregation.read(stored)
        new, result = self._aggregation.add(self._key, self._value, old)
        newest = self._timestamp if stored is None else max(self._timestamp, stored.timestamp)
        self._changes.append(_Change(start, new, result, newest, base))

    def _make_right(self, holds: _Stored | None) -> None:
        """Creates the record's right window if there are later records, from the content of a window that has them."""
        if holds is not None and holds.timestamp > self._timestamp:
            self._changes.append(
                _Change(self._timestamp + 1, holds.value, self._aggregation.copied(holds), holds.timestamp)
            )
