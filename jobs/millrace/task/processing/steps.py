"""The run of a batch through a task with user-written processors: in segments, with punctuations between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.task.columns import IntArray
from millrace.task.dead_letters import NO_ROW
from millrace.task.input import InputBatch
from millrace.task.processing.punctuation import Punctuation
from millrace.task.processing.runtime import ProcessingRuntime
from millrace.task.processing.user_code import UserCode
from millrace.task.processor import Forwarded
from millrace.task.records import Records
from millrace.task.walking import Walker
from millrace.topology.processor_api import PunctuationType

Pending = dict[str, list[Records]]


@runtime_checkable
class Punctuating(Protocol):
    """A node that contains user code."""

    @property
    def code(self) -> UserCode:
        """The user's object in this node."""

    def punctuate(self, punctuation: Punctuation, now_ms: int, row: int, /) -> Forwarded:
        """Calls a punctuator; returns the records that it forwarded."""


class Steps:
    """The run of a batch in segments, such that each stream-time punctuation comes right after its row.

    Args:
        runtime: what the processors share.
        nodes: the nodes with user code, in the order in which they are initialised.
        run: runs the nodes over what is pending for them; what is pending for sinks stays.
        pass_on: ``(node, what it forwarded, pending)``: makes it pending for the node's children.
        walker: where every record walks alone.
    """

    def __init__(
        self,
        runtime: ProcessingRuntime,
        nodes: Mapping[str, Punctuating],
        *,
        run: Callable[[Pending], None],
        pass_on: Callable[[str, Forwarded, Pending], None],
        walker: Walker | None,
    ) -> None:
        self._runtime = runtime
        self._nodes = nodes
        self._run = run
        self._pass_on = pass_on
        self._walker = walker
        self.open()

    def open(self) -> None:
        """Creates and initialises the processors that are not open.

        Raises:
            ProcessingError: one cannot be.
        """
        for node in self._nodes.values():
            node.code.open()

    def close(self) -> None:
        """Closes the processors. Idempotent."""
        for node in self._nodes.values():
            node.code.close()

    def process(self, batch: InputBatch, sources: Pending, *, wall_clock: bool) -> Pending:
        """Processes a batch; returns the records pending for the sinks.

        Args:
            batch: the rows.
            sources: by source node what it read of them.
            wall_clock: whether what is due by the wall clock is called, before the first row.
        """
        runtime, pending = self._runtime, Pending()
        self.open()
        runtime.begin_batch(batch)
        if self._walker is not None:
            self._walker.begin_batch()
        if wall_clock:
            self._punctuate(PunctuationType.WALL_CLOCK_TIME, runtime.system_time_ms(), NO_ROW, pending)
        if sources:
            runtime.set_row_times(_row_times(sources, len(batch)))
            if self._walker is None:
                self._process_segments(sources, len(batch), pending)
            else:
                self._process_rows(self._walker, sources, len(batch), pending)
        runtime.end_batch()
        return pending if self._walker is None else self._walker.outputs

    def _process_segments(self, sources: Pending, rows: int, pending: Pending) -> None:
        start = 0
        while start < rows:
            end = self._runtime.begin_segment(start, by_row=False)
            for name, (records,) in sources.items():
                first, last = np.searchsorted(records.origin, (start, end)).tolist()
                if last - first == len(records):
                    pending[name] = [records]
                elif last > first:
                    pending[name] = [records.take(np.arange(first, last, dtype=np.int64))]
            self._run(pending)
            self._end_segment(end, pending)
            start = end

    def _process_rows(self, walker: Walker, sources: Pending, rows: int, pending: Pending) -> None:
        source_of = {
            row: (name, index)
            for name, (records,) in sources.items()
            for index, row in enumerate(records.origin.tolist())
        }
        for row in range(rows):
            end = self._runtime.begin_segment(row, by_row=True)
            if row in source_of:
                name, index = source_of[row]
                walker.forward(name, sources[name][0].take(np.array([index], dtype=np.int64)), None)
            self._end_segment(end, pending)

    def _end_segment(self, end: int, pending: Pending) -> None:
        self._runtime.end_segment()
        now_ms = self._runtime.time_at(end - 1)
        if now_ms != UNKNOWN_TIME:
            self._punctuate(PunctuationType.STREAM_TIME, now_ms, end - 1, pending)

    def _punctuate(self, kind: PunctuationType, now_ms: int, row: int, pending: Pending) -> None:
        queue = self._runtime.queues[kind]
        while (punctuation := queue.take_due(now_ms)) is not None:
            forwarded = self._nodes[punctuation.node].punctuate(punctuation, now_ms, row)
            self._pass_on(punctuation.node, forwarded, pending)
            self._run(pending)
            if not punctuation.handle.cancelled:
                queue.add(punctuation.next(now_ms))


def _row_times(sources: Pending, rows: int) -> IntArray:
    times = np.full(rows, UNKNOWN_TIME, dtype=np.int64)
    for (records,) in sources.values():
        times[records.origin] = records.timestamps
    return times
