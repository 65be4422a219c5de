"""Joins of two streams: both sides in one processor, record by record in their common order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.metrics import DropReason
from millrace.state import KeyValueStore
from millrace.state.join_layout import read_outer_join_key
from millrace.task.columns import BoolArray, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.operators.joins.join_buffer import JoinBuffer
from millrace.task.operators.joins.join_results import JoinResults
from millrace.task.operators.joins.non_joined_records import NonJoinedRecords
from millrace.task.processor import JointProcessor
from millrace.task.records import Records, concat_orders, merge_in_order, sorted_rows
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written
from millrace.topology.nodes import ProcessorNode
from millrace.topology.operators import JoinKind, JoinSide, StreamStreamJoin


@dataclass(frozen=True)
class _Side:
    """One side of the join: its node, its buffer, and the bounds from its records' point of view, milliseconds."""

    node: str
    is_left: bool
    buffer: JoinBuffer
    before_ms: int
    after_ms: int
    is_outer: bool


@dataclass(frozen=True)
class _Input:
    """The records of both sides in their order, with the bytes that the join needs of them."""

    records: Records
    lefts: BoolArray
    keys: list[bytes | None]
    values: list[bytes | None]


class StreamStreamJoinProcessor(JointProcessor):
    """The processor that looks each record up in the other side's buffer, then adds it to its own. Drops none as late.

    Null keys and values are dropped and counted, but advance stream time; a null key of an outer side (the left one
    of a left join, both of an outer one) has its null result at once.

    A record of such a side that finds no partner has its null result at once if its window has passed, otherwise it is
    buffered. Buffered ones whose window and grace have passed are emitted when a record at the current stream time
    comes, before its own results. As in Kafka Streams 4.4 a first check of the oldest one's timestamp takes the bound
    of that record's side. If a joiner fails at a buffered record, only that record is lost.
    """

    def __init__(
        self,
        nodes: Sequence[ProcessorNode],
        *,
        failures: FailureHandler,
        stores: TaskStores,
        stream_times: dict[str, int],
        wall_clock_ms: Callable[[], int],
        emit_interval_ms: int,
    ) -> None:
        by_side: dict[JoinSide, tuple[str, StreamStreamJoin]] = {
            node.operator.side: (node.name, node.operator)
            for node in nodes
            if isinstance(node.operator, StreamStreamJoin)
        }
        (left_node, operator), (right_node, _) = by_side[JoinSide.LEFT], by_side[JoinSide.RIGHT]
        windows = operator.windows
        self._operator = operator
        self._windows = windows
        self._failures = failures
        self._stores = stores
        self._stream_times = stream_times
        self._wall_clock_ms = wall_clock_ms
        self._left = _Side(
            left_node,
            True,
            JoinBuffer(operator.left_store, stores),
            windows.before_ms,
            windows.after_ms,
            operator.kind is not JoinKind.INNER,
        )
        self._right = _Side(
            right_node,
            False,
            JoinBuffer(operator.right_store, stores),
            windows.after_ms,
            windows.before_ms,
            operator.kind is JoinKind.OUTER,
        )
        self._interval_ms = emit_interval_ms
        self._next_check_ms = 0
        self._non_joined: NonJoinedRecords | None = None

    def reset(self) -> None:
        self._non_joined = None
        self._next_check_ms = 0

    def process(self, inputs: Mapping[str, Records]) -> Mapping[str, Records]:
        entries = self._merged(inputs)
        return self._joined(entries) if len(entries.records) else {}

    def _joined(self, entries: _Input) -> Mapping[str, Records]:
        records, lefts = entries.records, entries.lefts
        stream_times = self._advance_stream_time(records.timestamps)
        no_key, no_value = records.keys.null_mask(), records.values.null_mask()
        is_outer = np.where(lefts, self._left.is_outer, self._right.is_outer)
        failures = self._failures
        failures.drop(DropReason.NULL_KEY, records.origin[no_key & ~(is_outer & ~no_value)])
        failures.drop(DropReason.NULL_VALUE, records.origin[no_value & ~no_key])
        self._load(entries, ~(no_key | no_value))

        results = JoinResults(records, self._operator.joiner, failures, takes_key=self._operator.joiner_takes_key)
        non_joined = self._opened_non_joined()
        values = records.values.objects
        rows = zip(
            lefts.tolist(),
            entries.keys,
            entries.values,
            records.timestamps.tolist(),
            stream_times.tolist(),
            strict=True,
        )
        for row, (is_left, key, data, timestamp, stream_time) in enumerate(rows):
            side, other = (self._left, self._right) if is_left else (self._right, self._left)
            if key is None:
                if side.is_outer and data is not None:
                    _add(results, side, row, (values[row], None), timestamp)
                continue
            if data is not None:
                if non_joined is not None and timestamp == stream_time:
                    self._emit_non_joined(non_joined, results, side, row, stream_time)
                partners = other.buffer.partners(key, timestamp - side.before_ms, timestamp + side.after_ms)
                for partner_time, partner in partners:
                    if non_joined is not None:
                        non_joined.remove(partner_time, key, left=not is_left, now=timestamp)
                    if not _add(results, side, row, (values[row], partner), max(timestamp, partner_time)):
                        break
                if side.is_outer and not partners:
                    if non_joined is None or max(timestamp + side.after_ms, 0) < stream_time:
                        _add(results, side, row, (values[row], None), timestamp)
                    else:
                        self._track_min_time(timestamp)
                        non_joined.add(timestamp, key, data, left=is_left, now=timestamp)
            side.buffer.put(key, data, timestamp, int(records.origin[row]))

        expired = self._left.buffer.flush() + self._right.buffer.flush()
        failures.drop(DropReason.EXPIRED_WINDOW, expired)
        if non_joined is not None:
            non_joined.flush()
        joined, origins = results.records()
        by_left = lefts[np.array(origins, dtype=np.int64)] if origins else np.zeros(0, dtype=bool)
        return {self._left.node: joined.filter(by_left), self._right.node: joined.filter(~by_left)}

    def _merged(self, inputs: Mapping[str, Records]) -> _Input:
        parts = [
            (
                side.is_left,
                written(
                    inputs[side.node],
                    self._failures,
                    side.node,
                    key_serde=side.buffer.key_serde,
                    value_serde=side.buffer.value_serde,
                ),
            )
            for side in (self._left, self._right)
            if side.node in inputs
        ]
        lefts = np.concatenate([np.full(len(found.records), is_left) for is_left, found in parts])
        keys = [key for _, found in parts for key in found.keys]
        values = [data for _, found in parts for data in found.values]
        batches = [found.records for _, found in parts]
        if len(batches) == 1:
            return _Input(batches[0], lefts, keys, values)
        rows = sorted_rows(concat_orders([records.order for records in batches]))
        listed = rows.tolist()
        return _Input(
            merge_in_order(batches),
            lefts[rows],
            [keys[row] for row in listed],
            [values[row] for row in listed],
        )

    def _load(self, entries: _Input, joins: BoolArray) -> None:
        """Reads from each side's buffer the records that those of the other side will look up."""
        for side, other, of_side in (
            (self._left, self._right, entries.lefts),
            (self._right, self._left, ~entries.lefts),
        ):
            rows = np.flatnonzero(joins & of_side)
            times = entries.records.timestamps[rows]
            any_rows = len(rows) > 0
            other.buffer.load(
                [key for row in rows.tolist() if (key := entries.keys[row]) is not None],
                int(times.min()) - side.before_ms if any_rows else 0,
                int(times.max()) + side.after_ms if any_rows else 0,
            )

    def _advance_stream_time(self, timestamps: IntArray) -> IntArray:
        """Returns the join's stream time at each record, the record itself included, and stores the last one."""
        times = self._stream_times
        before = times.get(self._operator.left_store, UNKNOWN_TIME)
        seen: IntArray = np.maximum(np.maximum.accumulate(timestamps), before)
        times[self._operator.left_store] = int(seen[-1])
        self._failures.observe_lateness(seen - timestamps)
        return seen

    def _opened_non_joined(self) -> NonJoinedRecords | None:
        if self._operator.waiting_store is None:
            return None
        if self._non_joined is None:
            store = self._stores.open(self._operator.waiting_store)
            assert isinstance(store, KeyValueStore)
            self._non_joined = NonJoinedRecords(store)
        return self._non_joined

    def _track_min_time(self, timestamp: int) -> None:
        """Notes the timestamp of a buffered record: no search is needed before its window has closed."""
        store = self._operator.waiting_store
        assert store is not None
        times = self._stream_times
        times[store] = min(times.get(store, timestamp), timestamp)

    def _emit_non_joined(
        self, non_joined: NonJoinedRecords, results: JoinResults, side: _Side, row: int, stream_time: int
    ) -> None:
        """Adds the null results of the buffered records whose window has closed."""
        store = self._operator.waiting_store
        assert store is not None
        times = self._stream_times
        first, wait_ms = times.get(store), side.after_ms + self._windows.grace_ms
        # Without a first one Kafka Streams adds to the largest number there is, which overflows unless it adds nothing.
        if wait_ms <= 0 if first is None else first + wait_ms >= stream_time:
            return
        if self._interval_ms:
            now = self._wall_clock_ms()
            if now < self._next_check_ms:
                return
            self._next_check_ms = now + self._interval_ms
        grace = self._windows.grace_ms
        found = non_joined.closed(
            stream_time - self._windows.after_ms - grace, stream_time - self._windows.before_ms - grace
        )
        times.pop(store, None)
        if found.next_time is not None:
            times[store] = found.next_time
        now_ms = int(stream_time)
        for store_key in found.keys:
            timestamp, is_left, key_bytes = read_outer_join_key(store_key)
            own = self._left if is_left else self._right
            key = own.buffer.key_serde.deserialize(key_bytes)
            for data in non_joined.values(store_key):
                value = own.buffer.value_serde.deserialize(data)
                left, right = (value, None) if is_left else (None, value)
                results.add(row, side.node, left, right, timestamp, key=key, own_key=False)
            non_joined.drop(store_key, left=is_left, now=now_ms)


def _add(results: JoinResults, side: _Side, row: int, own_and_other: tuple[object, object], timestamp: int) -> bool:
    left, right = own_and_other if side.is_left else own_and_other[::-1]
    return results.add(row, side.node, left, right, timestamp)
