"""The buffer of stream records in a stream-table join with a grace period (KIP-923)."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.state import BufferedChange, KeyValueStore
from millrace.state.buffer_layout import BufferedRecordContext
from millrace.state.grace_layout import grace_key, grace_timestamp, read_grace_key
from millrace.task.columns import Column, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.records import Headers, RecordPosition, Records, object_array
from millrace.task.serialization import or_default
from millrace.task.task_stores import TaskStores
from millrace.task.written_records import written

_SEQUENCE_MASK = 0x7FFFFFFF


@dataclass
class _Released:
    """The records that are released from the buffer to the join.

    Args:
        rows: for each the row of the batch at which it is released.
        ordinals: its number among those that are released there.
    """

    rows: list[int]
    ordinals: list[int]
    keys: list[Any]
    values: list[Any]
    timestamps: list[int]
    headers: list[Headers | None]
    positions: list[RecordPosition]

    def add(self, row: int, key: Any, value: Any, context: BufferedRecordContext) -> None:
        """Adds a record that is released at ``row``."""
        self.ordinals.append(self.ordinals[-1] + 1 if self.rows and self.rows[-1] == row else 0)
        self.rows.append(row)
        self.keys.append(key)
        self.values.append(value)
        self.timestamps.append(context.timestamp)
        self.headers.append(context.headers)
        self.positions.append(context.position)


class GraceBuffer:
    """The buffer of records until stream time is the grace period past them; released by timestamp, then key, then age.

    Stream time is the largest timestamp of the records that were buffered here. A record that is more than the grace
    period behind it is not buffered, nor is one without a key. The keys of the store are in memory, in order.

    Args:
        stores: the task's stores.
        name: name of the store.
        grace_ms: the grace period, milliseconds.
    """

    def __init__(
        self, stores: TaskStores, name: str, grace_ms: int, *, failures: FailureHandler, stream_times: dict[str, int]
    ) -> None:
        store = stores.open(name)
        assert isinstance(store, KeyValueStore)
        self._failures = failures
        self._stream_times = stream_times
        self._name = name
        self._store = store
        self._grace_ms = grace_ms
        self._key_serde = or_default(stores.specs[name].key_serde)
        self._value_serde = or_default(stores.specs[name].value_serde)
        self._buffered: list[bytes] = []
        self._sequence = 0
        self._is_loaded = False

    def discard(self) -> None:
        """Discards the keys in memory: the store goes back to its last commit."""
        self._is_loaded = False

    def _load(self) -> None:
        self._is_loaded = True
        self._buffered = [key for key, _, _ in self._store.all()]
        heapify(self._buffered)
        # A record of the same key and time as a buffered one needs a number of its own, also after a restart.
        self._sequence = max((read_grace_key(buffer_key)[1] for buffer_key in self._buffered), default=0)

    def release(self, records: Records) -> Records:
        """Buffers records, and returns those that are released, at the positions at which they are due.

        Args:
            records: records with values, in their order.
        """
        if not self._is_loaded:
            self._load()
        failures = self._failures
        found = written(records, failures, failures.node, key_serde=self._key_serde, value_serde=self._value_serde)
        records, key_bytes, value_bytes = found.records, found.keys, found.values
        keys, values = records.keys.objects, records.values.objects
        stream_time = self._stream_times.get(self._name, UNKNOWN_TIME)
        rows_of: dict[bytes, int] = {}
        log: list[tuple[bytes, bytes | None, int]] = []
        released = _Released([], [], [], [], [], [], [])
        contexts = self._contexts(records)
        for row, (timestamp, key) in enumerate(zip(records.timestamps.tolist(), key_bytes, strict=True)):
            value = value_bytes[row]
            if key is None or value is None or timestamp < stream_time - self._grace_ms:
                released.add(row, keys[row], values[row], contexts[row])
                continue
            stream_time = max(stream_time, timestamp)
            self._sequence = (self._sequence + 1) & _SEQUENCE_MASK
            buffer_key = grace_key(timestamp, key, self._sequence)
            log.append((buffer_key, BufferedChange(0, None, None, value, contexts[row]).to_bytes(), timestamp))
            rows_of[buffer_key] = row
            heappush(self._buffered, buffer_key)
            while self._buffered and grace_timestamp(self._buffered[0]) <= stream_time - self._grace_ms:
                buffer_key = heappop(self._buffered)
                log.append((buffer_key, None, timestamp))
                own = rows_of.get(buffer_key)
                if own is not None:
                    released.add(row, keys[own], values[own], contexts[own])
                else:
                    self._release_stored(buffer_key, row, released)
        self._stream_times[self._name] = stream_time
        if log:
            self._store.put_many(
                [buffer_key for buffer_key, _, _ in log],
                [value for _, value, _ in log],
                np.array([time for _, _, time in log], dtype=np.int64),
            )
        return self._released(records, released)

    def _release_stored(self, buffer_key: bytes, row: int, released: _Released) -> None:
        found = self._store.get(buffer_key)
        assert found is not None
        record = BufferedChange.from_bytes(buffer_key, found[0])
        assert record.new is not None
        key = self._key_serde.deserialize(read_grace_key(buffer_key)[0])
        value = self._value_serde.deserialize(record.new)
        released.add(row, key, value, record.context)

    def _contexts(self, records: Records) -> list[BufferedRecordContext]:
        headers = [None] * len(records) if records.headers is None else records.headers.tolist()
        return [
            BufferedRecordContext(timestamp, offset, topic, partition, own)
            for timestamp, (topic, partition, offset), own in zip(
                records.timestamps.tolist(), self._failures.positions(records), headers, strict=True
            )
        ]

    def _released(self, records: Records, released: _Released) -> Records:
        rows: IntArray = np.array(released.rows, dtype=np.int64)
        expanded = records.expand(
            rows,
            np.array(released.ordinals, dtype=np.int64),
            Column(objects=released.keys),
            Column(objects=released.values),
        )
        has_headers = any(headers is not None for headers in released.headers)
        return Records(
            expanded.keys,
            expanded.values,
            np.array(released.timestamps, dtype=np.int64),
            expanded.origin,
            expanded.order,
            object_array(released.headers) if has_headers else None,
            positions=object_array(released.positions),
        )
