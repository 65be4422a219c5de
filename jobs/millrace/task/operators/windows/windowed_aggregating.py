"""``count``, ``reduce`` and ``aggregate`` per key and tumbling, hopping or unlimited window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millrace.metrics import DropReason, SilentDrop
from millrace.state import WindowStore
from millrace.task.aggregation.groups import Groups, group, group_codes
from millrace.task.aggregation.initial import before_first
from millrace.task.aggregation.update import update_aggregates
from millrace.task.columns import BoolArray, CogroupedColumn, IntArray, WindowedColumn
from millrace.task.failures import FailureHandler
from millrace.task.operators.suppression.final_results import ClosingTimeWindows, closing, final_records
from millrace.task.operators.tables.table_writing import decoded, replaced_values
from millrace.task.operators.windows.open_windows import OpenWindows
from millrace.task.processor import Forwarded, HeldBackByStore, Processor, drop_null_keys
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.stream_time import advance_stream_time
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.emit_strategy import EmitStrategy
from millrace.topology.operators import WindowedAggregate
from millrace.topology.unlimited_windows import UnlimitedWindows
from millrace.topology.windows import TimeWindows


class WindowedAggregateProcessor(Processor):
    """The processor that assigns records to windows, drops late ones, and updates each window once per batch.

    A window has closed when its end plus grace is at or before the stream time, which is the largest timestamp of the
    records with a key that reached this node, the record itself included.
    """

    def __init__(
        self,
        node: str,
        operator: WindowedAggregate,
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
        self._windows: TimeWindows | UnlimitedWindows = operator.windows
        self._failures = failures
        self._stores = stores
        self._stream_times = stream_times
        self._store = store
        self._retention = spec.retention_ms
        self._key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)
        self._closing: ClosingTimeWindows | None = None
        if operator.emit is EmitStrategy.WINDOW_CLOSE:
            size_ms = operator.windows.size_ms
            self._closing = ClosingTimeWindows(
                operator.store,
                stores,
                size_ms=size_ms,
                lag_ms=size_ms + operator.windows.grace_ms,
                stream_times=stream_times,
                held_back=held_back,
            )

    def reset(self) -> None:
        if self._closing is not None:
            self._closing.reset()

    def process(self, records: Records) -> Forwarded:
        records = drop_null_keys(records, self._failures)
        if len(records) == 0:
            return None
        if self._closing is None:
            stream_times = advance_stream_time(self._stream_times, self._failures, self._operator.store, records)
            return self._update_written(records, stream_times)
        open_windows = self._closing.load()
        stream_times = advance_stream_time(self._stream_times, self._failures, self._operator.store, records)
        self._update_written(records, stream_times, open_windows)
        return self._final_results(records, self._closing, open_windows, stream_times)

    def _final_results(
        self, records: Records, windows: ClosingTimeWindows, open_windows: OpenWindows[bytes], stream_times: IntArray
    ) -> Records | None:
        """Returns the final results of the windows that the records close; no record has changed them since."""
        rows, closed = closing(windows, open_windows, windows.closed_until(stream_times))
        if not closed:
            return None
        starts = np.array([start for _, start, _ in closed], dtype=np.int64)
        values, timestamps = self._store.peek_many([key for key, _, _ in closed], starts)
        results = decoded(self._stores, self._operator.store, values)
        return final_records(records, rows, closed, values=results, timestamps=timestamps, key_serde=self._key_serde)

    def _update_written(
        self, records: Records, stream_times: IntArray, open_windows: OpenWindows[bytes] | None = None
    ) -> Records | None:
        """Updates the windows of the records whose keys can be serialized; the others still advance stream time."""
        found = written(records, self._failures, self._node, key_serde=self._key_serde)
        own_times = stream_times if found.kept is None else stream_times[found.kept]
        return self._update(found.records, found.key_array, own_times, open_windows) if len(found.records) else None

    def _update(
        self,
        records: Records,
        key_bytes: pa.Array,
        stream_times: IntArray,
        open_windows: OpenWindows[bytes] | None,
    ) -> Records | None:
        """Updates the windows; returns the updates or, where open windows are given, adds the windows to these."""
        parents, ordinals, starts = windows_of(self._windows, records.timestamps)
        if isinstance(self._windows, UnlimitedWindows):
            in_none = records.timestamps < self._windows.start_ms
            self._failures.drop_silently(SilentDrop.BEFORE_WINDOW, records.origin[in_none])
        # In this form no sum exceeds 64 bits, also where the window is unlimited.
        is_open = starts > stream_times[parents] - (self._windows.size_ms + self._windows.grace_ms)
        late = len(parents) - int(is_open.sum())
        if late:
            shut_out = np.setdiff1d(parents[~is_open], parents[is_open])
            self._failures.drop(DropReason.LATE, records.origin[shut_out], count=late)
            parents, ordinals, starts = parents[is_open], ordinals[is_open], starts[is_open]
        if len(parents) == 0:
            return None
        unreadable = self._unreadable(records, starts)
        groups = self._groups(group_codes(key_bytes)[parents], starts, unreadable)
        one_to_one = len(parents) == len(records) and bool((parents == np.arange(len(parents))).all())
        rows = records if one_to_one else records.expand(parents, ordinals, None, records.values.take(parents))
        keys: list[bytes] = key_bytes.take(parents[groups.first_rows]).to_pylist()
        group_starts = starts[groups.first_rows]
        prior = self._store.fetch_many(keys, group_starts)
        if unreadable.any():
            hidden = unreadable[groups.first_rows].tolist()
            prior = [None if hide else value for value, hide in zip(prior[0], hidden, strict=True)], prior[1]
        update = update_aggregates(
            self._operator.aggregator,
            rows,
            groups,
            prior,
            serde=self._value_serde,
            every_update=not self._stores.merges_windows(self._operator.store),
            failures=self._failures,
            node=self._node,
        )
        updated = groups.ids[update.rows]
        results = rows.take(update.rows)
        changed = [keys[group_id] for group_id in updated.tolist()]
        written_at = update.stored_timestamps(results.timestamps)
        view = self._stores.windowed_tables.get(self._operator.store)
        if view is not None:
            view.note(
                changed,
                group_starts[updated].tolist(),
                _ends(self._windows, group_starts[updated]).tolist(),
                values=update.stored,
                timestamps=written_at.tolist(),
                order=results.order,
            )
        expired = self._store.put_many(changed, group_starts[updated], update.stored, written_at)
        if len(expired):
            if self._stores.merges_windows(self._operator.store):
                # One write stands for all records of its window: each is counted, as where it is written alone.
                lost = np.isin(groups.ids, updated[expired])
            else:
                lost = np.isin(np.arange(len(parents)), update.rows[expired])
            gone = np.setdiff1d(parents[lost], parents[~lost])
            self._failures.drop(DropReason.EXPIRED_WINDOW, records.origin[gone], count=int(lost.sum()))
        if open_windows is not None:
            kept = np.setdiff1d(np.arange(len(changed)), expired).tolist()
            starts_written = group_starts[updated].tolist()
            _note(
                open_windows,
                [changed[index] for index in kept],
                [starts_written[index] for index in kept],
                [update.stored[index] for index in kept],
            )
            return None
        windows = starts[update.rows]
        old_values = None
        if self._stores.sends_old_values(self._node):
            before = replaced_values(updated.tolist(), update.stored, prior[0])
            old_values = decoded(self._stores, self._operator.store, before)
            if not self._stores.merges_windows(self._operator.store):
                old_values = before_first(self._operator.aggregator, old_values)
        return replace(
            results,
            keys=WindowedColumn(results.keys, windows, _ends(self._windows, windows)),
            values=update.results,
            timestamps=update.timestamps,
            old_values=old_values,
        )

    def _groups(self, key_codes: IntArray, starts: IntArray, alone: BoolArray) -> Groups:
        windows = (starts - starts.min()) // self._windows.advance_ms
        codes = key_codes * (int(windows.max()) + 1) + windows
        if alone.any():
            codes[alone] = codes.max() + 1 + np.arange(int(alone.sum()), dtype=np.int64)
        return group(codes)

    def _unreadable(self, records: Records, starts: IntArray) -> BoolArray:
        """Returns which windows have expired, though a lagging input of a cogroup still writes them.

        As in Kafka Streams without a cache each record begins them again.
        """
        if not isinstance(records.values, CogroupedColumn) or self._stores.is_cached(self._operator.store):
            return np.zeros(len(starts), dtype=bool)
        newest = np.maximum.accumulate(np.concatenate(([self._store.observed_stream_time], starts)))[:-1]
        return np.asarray(starts < newest - self._retention + 1)


def _note(
    open_windows: OpenWindows[bytes], keys: list[bytes], starts: list[int], stored: Sequence[bytes | None]
) -> None:
    """Adds the windows that were written to the open ones, and removes those that were deleted."""
    last = dict(zip(zip(starts, keys, strict=True), stored, strict=True))
    by_start: dict[int, list[bytes]] = {}
    for (start, key), value in last.items():
        if value is None:
            open_windows.discard(start, key)
        else:
            by_start.setdefault(start, []).append(key)
    for start, own in by_start.items():
        open_windows.add(start, own)


def _ends(windows: TimeWindows | UnlimitedWindows, starts: IntArray) -> IntArray:
    if isinstance(windows, UnlimitedWindows):
        return np.full(len(starts), windows.size_ms, dtype=np.int64)
    return starts + windows.size_ms


def windows_of(windows: TimeWindows | UnlimitedWindows, timestamps: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the windows of each record, the oldest first; none starts before 0.

    Returns:
        For each pair of record and window: the record's row, the window's number among the record's windows, and the
        window's start in milliseconds.
    """
    if isinstance(windows, UnlimitedWindows):
        rows = np.flatnonzero(timestamps >= windows.start_ms).astype(np.int64)
        return rows, np.zeros(len(rows), dtype=np.int64), np.full(len(rows), windows.start_ms, dtype=np.int64)
    newest = timestamps - timestamps % windows.advance_ms
    if windows.advance_ms == windows.size_ms:
        rows = np.arange(len(timestamps), dtype=np.int64)
        return rows, np.zeros(len(timestamps), dtype=np.int64), newest
    most = -(-windows.size_ms // windows.advance_ms)
    steps = np.arange(most - 1, -1, -1, dtype=np.int64) * windows.advance_ms
    starts = newest[:, None] - steps[None, :]
    holds = (starts + windows.size_ms > timestamps[:, None]) & (starts >= 0)
    rows, numbers = np.nonzero(holds)
    first = numbers - np.argmax(holds, axis=1)[rows]
    return rows.astype(np.int64), first.astype(np.int64), starts[rows, numbers]
