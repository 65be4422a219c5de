"""The replay of changelog records into a store, with its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from millrace.kafka.columns import PartitionColumns, RecordHeaders
from millrace.state.changelog_reader import READ_RECORDS
from millrace.state.layout import Int64Array
from millrace.state.task_state import TaskState

BATCH_RECORDS = READ_RECORDS
"""Records that are written together."""

BATCH_BYTES = 16 * (1 << 20)
"""Bytes of keys and values after which fewer records are written, so that large ones do not fill the memory."""


@dataclass
class _Pending:
    """Records that were read, but not written yet."""

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    timestamps: list[Int64Array] = field(default_factory=list)
    headers: list[RecordHeaders | None] = field(default_factory=list)
    bytes: int = 0
    end: int = 0


@dataclass(frozen=True, kw_only=True)
class RestoreProgress:
    """The progress of the restoration of one store.

    Args:
        store: name of the store.
        topic: its changelog topic.
        partition: the partition, that of the task.
        records: records applied so far.
        position: next offset to read.
        remaining: offsets up to the end; at least the records that are still to come.
        records_per_s: rate since the start of this restoration.
        start_s: from the beginning to the first records, seconds.
        newest_timestamp: largest timestamp of the records applied so far, milliseconds; -1 before the first.
    """

    store: str
    topic: str
    partition: int
    records: int
    position: int
    remaining: int
    records_per_s: float
    newest_timestamp: int = -1
    start_s: float = 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds until the end at this rate; ``None`` while there is no rate."""
        return self.remaining / self.records_per_s if self.records_per_s else None


class Replay:
    """The replay of a changelog's records into a store.

    Records are written in batches; :meth:`settle` writes the rest. A thread of its own for the writing would gain
    nothing, since rocksdict keeps the interpreter's lock while it writes; the client fetches meanwhile all the same.

    Args:
        state: the task's state.
        store: name of the store.
        topic: the changelog topic.
        partition: the task's partition.
        position: offset of the first record.
        end: records at and after this offset are not applied; ``None`` where the log is followed.
        on_progress: called with each batch, and once everything is taken.
    """

    def __init__(
        self,
        state: TaskState,
        store: str,
        topic: str,
        partition: int,
        *,
        position: int,
        end: int | None,
        on_progress: Callable[[RestoreProgress], None] | None,
    ) -> None:
        self.position = position
        self.applied_to = position
        self._state = state
        self._store = store
        self._topic = topic
        self._partition = partition
        self._end = end
        self._on_progress = on_progress
        self._with_headers = state.restores_headers(store)
        self._pending = _Pending()
        self._reported = position
        self._records = 0
        self._newest_timestamp = -1
        self._started = time.monotonic()
        self._first_records_after_s = 0.0

    @property
    def records(self) -> int:
        """The number of records read so far."""
        return self._records

    def settle(self) -> None:
        """Writes the records that were read, but not written yet.

        Raises:
            StateError: it could not be written.
        """
        self._write()
        self._report()

    def apply(self, columns: PartitionColumns) -> None:
        """Takes the records before the end, and advances the position.

        Raises:
            StateError: records could not be written.
        """
        if self._end is not None:
            # Whatever lies between the last record before the end and one behind it was a marker or aborted.
            columns = columns.before(self._end)
        # A source topic that serves as the changelog may have records without a key; no store has those.
        if columns.keys.null_count:
            columns = columns.where(columns.keys.is_valid().to_numpy(zero_copy_only=False))
        if len(columns):
            self._first_records_after_s = self._first_records_after_s or time.monotonic() - self._started
            pending = self._pending
            pending.keys += columns.keys.to_pylist()
            pending.values += columns.values.to_pylist()
            pending.timestamps.append(columns.timestamps)
            if self._with_headers:
                pending.headers += columns.headers or [None] * len(columns)
            pending.bytes += columns.keys.nbytes + columns.values.nbytes
            pending.end = int(columns.offsets[-1]) + 1
        self._records += len(columns)
        self.position = max(self.position, columns.position)
        if len(self._pending.keys) >= BATCH_RECORDS or self._pending.bytes >= BATCH_BYTES:
            self._write()

    def _write(self) -> None:
        if not self._pending.keys:
            return
        pending, self._pending = self._pending, _Pending()
        timestamps = np.concatenate(pending.timestamps)
        self._state.restore_batch(
            self._store,
            pending.keys,
            pending.values,
            timestamps,
            pending.headers if self._with_headers else None,
        )
        self.applied_to = pending.end
        self._newest_timestamp = max(self._newest_timestamp, int(timestamps.max()))
        self._report()

    def _report(self) -> None:
        if self._on_progress is not None and self.position != self._reported:
            self._reported = self.position
            self._on_progress(self.progress())

    def progress(self) -> RestoreProgress:
        """Returns the current progress."""
        elapsed = time.monotonic() - self._started
        return RestoreProgress(
            store=self._store,
            topic=self._topic,
            partition=self._partition,
            records=self._records,
            position=self.position,
            remaining=0 if self._end is None else max(self._end - self.position, 0),
            records_per_s=self._records / elapsed if elapsed > 0 else 0.0,
            newest_timestamp=self._newest_timestamp,
            start_s=self._first_records_after_s,
        )
