"""``process`` and ``process_values``: processors that users write."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from millrace.errors import ProcessingError
from millrace.handlers import ProcessedRecord
from millrace.task.columns import Column
from millrace.task.dead_letters import NO_ROW
from millrace.task.processing.forwards import Forwards
from millrace.task.processing.punctuation import Punctuation
from millrace.task.processing.user_code import UserCode
from millrace.task.processor import Forwarded, Processor, TaskContext
from millrace.task.records import Records, object_array
from millrace.topology.operators import ProcessRecords
from millrace.topology.processor_api import FixedKeyRecord, PunctuationType, Record

_NO_KEY: Any = object()


class UserProcessor(Processor):
    """The processor that runs the user's code over a batch, record by record in order.

    Its stores are its own, or the whole task runs record by record, so that nothing can be seen from outside between
    two of its records. Then what it forwards is passed on at once (``ProcessingRuntime.walk``).
    """

    def __init__(self, node: str, operator: ProcessRecords, context: TaskContext) -> None:
        self._node = node
        self._context = context
        self._runtime = context.processing
        self._children = context.children.get(node, ())
        self._fixed_key = operator.fixed_key
        self._record_type: Any = FixedKeyRecord if operator.fixed_key else Record
        self._key: Any = _NO_KEY
        self._forwards: Forwards | None = None
        self._seen_row = 0
        self.code = UserCode(node, operator.supplier, context, self._forward)

    def reset(self) -> None:
        self._forwards = None
        self.code.close()

    def process(self, records: Records) -> Forwarded:
        forwards = self._forwards = Forwards(self._children)
        self.code.open()
        process = self.code.instance.process
        headers = [None] * len(records) if records.headers is None else records.headers.tolist()
        rows = zip(
            records.keys.objects,
            records.values.objects,
            records.timestamps.tolist(),
            headers,
            records.origin.tolist(),
            records.order[0].tolist(),
            repeat(None, len(records)) if records.positions is None else records.positions,
            strict=True,
        )
        self._seen_row = int(records.order[0][0])
        for number, (key, value, timestamp, header, origin, row, position) in enumerate(rows):
            if self._node in self._runtime.fresh:
                self._punctuate_before(row)
            self._seen_row = max(row, 0)
            forwards.begin(number)
            self._key = key
            with self._runtime.at(timestamp_ms=timestamp, origin=origin, row=row, position=position):
                try:
                    process(self._record_type(key, value, timestamp, tuple(header or ())))
                except Exception as error:
                    self._runtime.raise_fatal()
                    failed = ProcessedRecord(key=key, value=value, timestamp=timestamp, headers=list(header or ()))
                    self._context.failures.processing(error, origin, self._node, failed)
        self._runtime.raise_fatal()
        self._key = _NO_KEY
        self._end_fresh()
        self._forwards = None
        return forwards.take(records)

    def punctuate(self, punctuation: Punctuation, now_ms: int, row: int) -> Forwarded:
        """Calls a punctuator after ``row``, or with ``NO_ROW`` before the first."""
        forwards = self._forwards = Forwards(self._children)
        self._call(punctuation, now_ms, row)
        self._forwards = None
        return forwards.take(None)

    def _call(self, punctuation: Punctuation, now_ms: int, row: int) -> None:
        assert self._forwards is not None
        self._forwards.begin(NO_ROW, (row, self._runtime.next_ordinal()))
        with self._runtime.at(timestamp_ms=now_ms, origin=NO_ROW, row=row):
            try:
                punctuation.callback(now_ms)
            except Exception as error:
                self._runtime.raise_fatal()
                self._context.failures.processing(error, None, self._node)
        self._runtime.raise_fatal()

    # ---- punctuations that were scheduled among the rows that the node goes through

    def _punctuate_before(self, row: int) -> None:
        """Calls the punctuators that have become due after the rows before ``row``."""
        queue = self._runtime.fresh[self._node]
        while (due_ms := queue.next_due_ms()) is not None:
            at = self._runtime.first_row_at(due_ms, self._seen_row)
            if at is None or at >= row:
                return
            self._seen_row = at
            now_ms = self._runtime.time_at(at)
            while (punctuation := queue.take_due(now_ms)) is not None:
                self._call(punctuation, now_ms, at)
                if not punctuation.handle.cancelled:
                    queue.add(punctuation.next(now_ms))

    def _end_fresh(self) -> None:
        """Moves the node's fresh punctuations to the task's, among which they are due after the segment's last row."""
        if self._node not in self._runtime.fresh:
            return
        self._punctuate_before(self._runtime.last_row)
        for punctuation in self._runtime.fresh.pop(self._node):
            self._runtime.queues[PunctuationType.STREAM_TIME].add(punctuation)

    # ---- forwarding

    def _forward(self, record: Any, child: str | None) -> None:
        if not isinstance(record, self._record_type):
            raise ProcessingError(
                f"Processor {self._node} forwards {type(record).__name__}, not a {self._record_type.__name__}.",
                remedy="forward a record that was made from the one that came",
            )
        if self._fixed_key and self._key is not _NO_KEY and record.key is not self._key and record.key != self._key:
            raise ProcessingError(
                f"Processor {self._node} forwards the key {record.key!r} for a record with the key {self._key!r}.",
                remedy="keep the key in process_values(), or use process(), behind which the stream is repartitioned",
            )
        if child is not None and child not in self._children:
            raise ProcessingError(
                f"Processor {self._node} has no child {child!r}; it has {', '.join(self._children) or 'none'}.",
                remedy="name one of its children",
            )
        if self._runtime.walk is not None and self._forwards is not None:
            self._walk(record, child)
        elif self._forwards is not None:
            self._forwards.add(record, child)
        else:
            raise ProcessingError(
                f"Processor {self._node} forwards outside of process() and of a punctuation.",
                remedy="forward there; a processor must not be shared between tasks either",
            )

    def _walk(self, record: Any, child: str | None) -> None:
        """Has the children process the record before this processor continues."""
        runtime = self._runtime
        assert runtime.walk is not None
        key, forwards = self._key, self._forwards
        order = np.array([max(runtime.row, 0)], dtype=np.int64)
        one = Records(
            Column(objects=[record.key]),
            Column(objects=[record.value]),
            np.array([record.timestamp], dtype=np.int64),
            np.array([runtime.origin], dtype=np.int64),
            (order,),
            object_array([list(record.headers)]) if record.headers else None,
            positions=None if runtime.position is None else object_array([runtime.position]),
        )
        try:
            runtime.walk(self._node, one, child)
        except Exception as error:
            # It is fatal: what may go on was handled where it failed. It must not count as a failure of this node.
            runtime.fatal = error
            raise
        finally:
            self._key, self._forwards = key, forwards
