"""``KTable.suppress``: changes are buffered until they are due, and the last one of each key goes downstream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from millrace.errors import BufferFullError, ProcessingError, SerializationError
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.serdes import Serde, Windowed
from millrace.state import BufferedChange, BufferedRecordContext, SuppressionBuffer
from millrace.task.buffer_view import BufferView
from millrace.task.columns import Column, IntArray, WindowedColumn
from millrace.task.failures import FailureHandler, processed_record
from millrace.task.operators.tables.table_rows import RowFunctions, no_rows, present_key_bytes
from millrace.task.processor import Forwarded, HeldBack, HeldBackByStore, Processor
from millrace.task.records import Records, object_array
from millrace.task.serialization import from_bytes, or_default, to_bytes_list
from millrace.task.task_stores import TaskStores
from millrace.topology.operators import TableSuppress

_PUT: Final = 0


@dataclass(frozen=True)
class _Emission:
    """A change that is emitted: the row of the record that released it, its number at that row, its key, the change."""

    row: int
    ordinal: int
    key: bytes
    change: BufferedChange


class SuppressProcessor(Processor):
    """The processor that buffers each change, then emits those that are due and, if the buffer is full, the oldest.

    Stream time is the largest timestamp of the changes that reached this node. A change goes on as it came: with its
    own timestamp and headers. In a strict buffer that is full the record fails, as one does at which a function raises;
    where the handler continues, the change stays in the buffer all the same.

    The changelog has the topic, partition and offset of the record that a change came with, and an emitted change
    has them again.
    """

    def __init__(
        self,
        node: str,
        operator: TableSuppress,
        *,
        failures: FailureHandler,
        stores: TaskStores,
        stream_times: dict[str, int],
        held_back: HeldBackByStore,
    ) -> None:
        buffer = stores.open(operator.store)
        assert isinstance(buffer, SuppressionBuffer)
        spec = stores.specs[operator.store]
        self._node = node
        self._operator = operator
        self._failures = failures
        self._stores = stores
        self._times_by_store = stream_times
        self._buffer = buffer
        self._view: BufferView | None = stores.buffers.get(operator.store)
        self._key_serde = or_default(spec.key_serde)
        self._value_serde = or_default(spec.value_serde)
        self._most_records = operator.max_records
        self._most_bytes = operator.max_bytes
        held_back[operator.store] = lambda: HeldBack(len(buffer), buffer.used_bytes, buffer.first_time)

    def process(self, records: Records) -> Forwarded:
        buffer, wait_ms = self._buffer, self._operator.wait_ms
        emissions: list[_Emission] = []
        functions = RowFunctions(self._failures, self._node, records)
        keys = functions.written(records.keys, lambda keys: self._encoded("key", keys, self._key_serde))
        old_values, new_values = (
            functions.written(values, lambda values: self._encoded("value", values, self._value_serde))
            for values in (records.old_values or no_rows(len(records)), records.values)
        )
        unwritten = functions.failed.tolist()
        present_key_bytes([key for key, failed in zip(keys, unwritten, strict=True) if not failed], self._node)
        rows = zip(
            keys,
            self._times(records),
            old_values,
            new_values,
            self._record_contexts(records),
            self._stream_times(records.timestamps).tolist(),
            strict=True,
        )
        for row, (key, time, old, new, record, stream_time) in enumerate(rows):
            if key is None or unwritten[row]:
                continue
            buffer.put(key, time, old, new, record)
            if self._view is not None:
                self._view.put(key, buffer.get(key), row, _PUT)
            ordinal = _PUT + 1
            due = stream_time - wait_ms
            while (first := buffer.first_time) is not None and (
                first <= due or (self._operator.emits_when_full and self._is_full())
            ):
                gone, change = buffer.pop()
                if change.new is not None or not self._operator.until_window_closes:
                    emissions.append(_Emission(row, ordinal, gone, change))
                if self._view is not None:
                    # Whatever the change does below still finds it in the buffer.
                    self._view.put(gone, None, row, ordinal + 1)
                ordinal += 2
            if self._is_full() and not self._operator.emits_when_full:
                self._failures.processing(
                    self._full(), int(records.origin[row]), self._node, processed_record(records, row)
                )
        if self._view is not None:
            self._view.end(records.order)
            self._stores.after_batch.append(self._view.clear)
        return self._forwarded(records, emissions)

    def _encoded(self, what: str, column: Column, serde: Serde) -> list[bytes | None]:
        try:
            return to_bytes_list(column, serde)
        except SerializationError as error:
            raise SerializationError(
                f"Node {self._node} cannot keep a {what} in the buffer {self._operator.store} with "
                f"{type(serde).__name__}: {error.message}",
                remedy=f"give the table above a serde for its {what}s (Materialized, Grouped, Consumed); without one "
                "they are taken for bytes",
            ) from error

    def _stream_times(self, timestamps: IntArray) -> IntArray:
        times = self._times_by_store
        before = times.get(self._operator.store, UNKNOWN_TIME)
        stream_times: IntArray = np.maximum(np.maximum.accumulate(timestamps), before)
        times[self._operator.store] = int(stream_times[-1])
        return stream_times

    def _times(self, records: Records) -> list[int]:
        if not self._operator.until_window_closes:
            return list(records.timestamps.tolist())
        if isinstance(records.keys, WindowedColumn):
            return list(records.keys.ends.tolist())
        keys = records.keys.objects
        if not all(isinstance(key, Windowed) for key in keys):
            raise ProcessingError(
                f"Node {self._node} holds results back until their windows close, but a key has no window.",
                remedy="suppress the windowed table itself, before its keys are changed",
            )
        return [key.end for key in keys]

    def _record_contexts(self, records: Records) -> list[BufferedRecordContext]:
        positions = self._failures.positions(records)
        headers = [None] * len(records) if records.headers is None else records.headers.tolist()
        return [
            BufferedRecordContext(timestamp, offset, topic, partition, own or None)
            for timestamp, (topic, partition, offset), own in zip(
                records.timestamps.tolist(), positions, headers, strict=True
            )
        ]

    def _is_full(self) -> bool:
        return (self._most_records is not None and len(self._buffer) > self._most_records) or (
            self._most_bytes is not None and self._buffer.used_bytes > self._most_bytes
        )

    def _full(self) -> BufferFullError:
        most_records = "" if self._most_records is None else f" of {self._most_records}"
        most_bytes = "" if self._most_bytes is None else f" of {self._most_bytes}"
        return BufferFullError(
            f"The buffer {self._operator.store} is full: it holds {len(self._buffer)}{most_records} records and "
            f"{self._buffer.used_bytes}{most_bytes} bytes",
            remedy="raise the limits of its BufferConfig, or let it emit_early_when_full()",
        )

    def _forwarded(self, records: Records, emissions: list[_Emission]) -> Records | None:
        if not emissions:
            return None
        changes = [emission.change for emission in emissions]
        parents = np.array([emission.row for emission in emissions], dtype=np.int64)
        ordinals = np.array([emission.ordinal for emission in emissions], dtype=np.int64)
        expanded = records.expand(
            parents,
            ordinals,
            self._keys([emission.key for emission in emissions]),
            from_bytes([change.new for change in changes], self._value_serde),
        )
        headers = [change.context.headers for change in changes]
        old_values = None
        if self._stores.sends_old_values(self._node):
            old_values = from_bytes([change.old for change in changes], self._value_serde)
        return replace(
            expanded,
            timestamps=np.array([change.context.timestamp for change in changes], dtype=np.int64),
            headers=object_array(headers) if any(headers) else None,
            old_values=old_values,
            positions=object_array([change.context.position for change in changes]),
        )

    def _keys(self, keys: list[bytes]) -> Column:
        column = from_bytes([*keys], self._key_serde)
        if column.is_arrow or not isinstance(column.objects[0], Windowed):
            return column
        return WindowedColumn(
            Column(objects=[key.key for key in column.objects]),
            np.array([key.start for key in column.objects], dtype=np.int64),
            np.array([key.end for key in column.objects], dtype=np.int64),
        )
