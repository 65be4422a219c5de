"""The common state of a task's user-written processors: the current record, the clocks, the punctuations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np

from millrace.errors import ProcessingError
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.task.columns import IntArray
from millrace.task.dead_letters import NO_ROW
from millrace.task.input import InputBatch
from millrace.task.processing.punctuation import Punctuation, PunctuationHandle, PunctuationQueue
from millrace.task.processing.scans import OpenScans
from millrace.task.records import RecordPosition
from millrace.topology.processor_api import PunctuationType, Punctuator, RecordMetadata

AFTER_THE_ROW = 2**62
"""Second order column of a punctuation's records: after all that the walk of its row forwards."""

Walk = Callable[[str, Any, str | None], None]
"""``(node, record, child or None)``: has the children process a record at once."""


class ProcessingRuntime:
    """The current record of a task, and the schedule of its punctuations.

    Args:
        stream_time_ms: stream time of the task when it starts, milliseconds; -1 if unknown.
        wall_clock_ms: the wall clock.

    Attributes:
        timestamp_ms: event time of the record at hand, or of the punctuation, milliseconds.
        origin: the row of the task's input that the record came from, or ``NO_ROW``.
        position: topic, partition and offset of a buffered record; ``None``: those of ``origin``.
        scans: what processors read of stores and have not read to the end.
        walk: forwards records at once, where the task runs record by record; otherwise ``None``.
        fatal: what ended the batch below a processor that forwarded; it must not be taken for that processor's error.
    """

    def __init__(self, *, stream_time_ms: int, wall_clock_ms: Callable[[], int]) -> None:
        self._wall_clock_ms = wall_clock_ms
        self._stream_time_ms = stream_time_ms
        self._batch: InputBatch | None = None
        self._row_times: IntArray | None = None
        self._row = NO_ROW
        self._segment = (0, 0)
        self._in_segment = False
        self._ordinal = AFTER_THE_ROW
        self.timestamp_ms = UNKNOWN_TIME
        self.origin = NO_ROW
        self.position: RecordPosition | None = None
        self.walk: Walk | None = None
        self.scans = OpenScans()
        self.fatal: Exception | None = None
        self.queues = {kind: PunctuationQueue() for kind in PunctuationType}
        self.fresh: dict[str, PunctuationQueue] = {}

    # ---- the record at hand

    @contextmanager
    def at(self, *, timestamp_ms: int, origin: int, row: int, position: RecordPosition | None = None) -> Iterator[None]:
        """Sets the current record, or punctuation, for the duration of the block.

        Args:
            timestamp_ms: its event time, or the time of the punctuation, milliseconds.
            origin: as the attribute.
            row: the row of the input whose turn it is.
            position: as the attribute.
        """
        before = self.timestamp_ms, self.origin, self._row, self.position
        self.timestamp_ms, self.origin, self._row, self.position = timestamp_ms, origin, row, position
        try:
            yield
        finally:
            self.timestamp_ms, self.origin, self._row, self.position = before

    def metadata(self) -> RecordMetadata | None:
        """Returns topic, partition and offset of the current record."""
        if self.position is not None:
            return RecordMetadata(*self.position)
        if self.origin == NO_ROW or self._batch is None:
            return None
        return RecordMetadata(*self._batch.position(self.origin))

    def raise_fatal(self) -> None:
        """Raises the error that ended the batch, even if a processor caught it."""
        if self.fatal is not None:
            raise self.fatal

    @property
    def row(self) -> int:
        """The input row that is processed now."""
        return self._row

    # ---- clocks

    @property
    def stream_time_ms(self) -> int:
        """The largest timestamp of the task's records up to the current row, milliseconds; -1 before the first."""
        if self._row_times is None or not 0 <= self._row < len(self._row_times):
            return self._stream_time_ms
        return int(self._row_times[self._row])

    def system_time_ms(self) -> int:
        """Returns the wall clock, milliseconds."""
        return self._wall_clock_ms()

    @property
    def state(self) -> int:
        """The stream time after the last batch, for :meth:`restore`."""
        return self._stream_time_ms

    def restore(self, stream_time_ms: int) -> None:
        """Restores the state before a failed batch, and cancels all punctuations."""
        self.end_batch()
        self._stream_time_ms = stream_time_ms
        self.fresh.clear()
        for queue in self.queues.values():
            queue.clear()

    # ---- the batch

    def begin_batch(self, batch: InputBatch) -> None:
        """Begins a batch."""
        self._batch = batch
        self._row_times = None
        self._ordinal = AFTER_THE_ROW

    def end_batch(self) -> None:
        """Ends a batch, whether it succeeded or failed."""
        self._batch = None
        self._row_times = None
        self._in_segment = False
        self.fatal = None

    def set_row_times(self, timestamps: IntArray) -> None:
        """Sets the timestamps of the batch's rows in their order, -1 where a row was dropped by its source."""
        self._row_times = np.maximum(np.maximum.accumulate(timestamps), self._stream_time_ms)

    def begin_segment(self, start: int, *, by_row: bool) -> int:
        """Begins a segment of rows that can be processed together from ``start`` on; returns the first row after it.

        Stream-time punctuations are due behind the last of them, if any is.

        Args:
            start: first row.
            by_row: take one row only.
        """
        assert self._row_times is not None
        rows = len(self._row_times)
        end = start + 1
        if not by_row:
            due_ms = self.queues[PunctuationType.STREAM_TIME].next_due_ms()
            end = rows if due_ms is None else start + int(np.searchsorted(self._row_times[start:], due_ms)) + 1
        self._segment = (start, min(end, rows))
        self._in_segment = self._segment[1] - start > 1
        self._stream_time_ms = int(self._row_times[self._segment[1] - 1])
        return self._segment[1]

    @property
    def last_row(self) -> int:
        """The last row of the segment, after which the task's punctuations are due."""
        return self._segment[1] - 1

    def end_segment(self) -> None:
        """Ends the segment: the nodes have processed its rows."""
        self._in_segment = False

    def first_row_at(self, time_ms: int, start: int) -> int | None:
        """Returns the first row of the segment, from ``start`` on, at which stream time has reached ``time_ms``."""
        assert self._row_times is not None
        end = self._segment[1]
        found = start + int(np.searchsorted(self._row_times[start:end], time_ms))
        return found if found < end else None

    def time_at(self, row: int) -> int:
        """Returns the stream time at a row of the batch, milliseconds."""
        assert self._row_times is not None
        return int(self._row_times[row])

    def next_ordinal(self) -> int:
        """Returns the second order column of the records that the next punctuation forwards."""
        self._ordinal += 1
        return self._ordinal

    # ---- punctuations

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, callback: Punctuator, start: datetime | int | None
    ) -> PunctuationHandle:
        """Schedules a punctuation: see :meth:`millrace.topology.processor_api.ProcessingContext.schedule`.

        What is scheduled by stream time in the middle of several rows may be due among them: it is in ``fresh`` until
        its node has seen them all.
        """
        now_ms = self.system_time_ms() if kind is PunctuationType.WALL_CLOCK_TIME else self.stream_time_ms
        if start is None:
            due_ms = now_ms + interval_ms if kind is PunctuationType.WALL_CLOCK_TIME else 0
        else:
            due_ms = _epoch_ms(start)
        punctuation = Punctuation(node, due_ms, interval_ms, callback, PunctuationHandle())
        if start is not None and due_ms < now_ms:
            punctuation = punctuation.next(now_ms)
        if kind is PunctuationType.STREAM_TIME and self._in_segment:
            self.fresh.setdefault(node, PunctuationQueue()).add(punctuation)
        else:
            self.queues[kind].add(punctuation)
        return punctuation.handle

    def next_wall_clock_ms(self) -> int | None:
        """Returns the time at which the next wall-clock punctuation is due; ``None`` where none is scheduled."""
        return self.queues[PunctuationType.WALL_CLOCK_TIME].next_due_ms()


def _epoch_ms(start: datetime | int) -> int:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise ProcessingError(
                f"The start {start} of a punctuation has no time zone.", remedy="give it one, for example UTC"
            )
        return round((start - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    return start


def system_time_ms() -> int:
    """Returns the system's clock, milliseconds since the epoch."""
    return int(time.time() * 1000)
