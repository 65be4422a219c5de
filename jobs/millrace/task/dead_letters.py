"""The dead-letter records of a batch: collected while its nodes run, sent at its end in the order of input records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

import numpy as np

from millrace.dead_letter_headers import DROPPED_NODE, DROPPED_REASON, TIMESTAMP
from millrace.errors import InvalidTimestampError
from millrace.handlers import ErrorHandlerContext, ProducerRecord, dead_letter
from millrace.kafka.record_limits import system_time_ms
from millrace.metrics import DropReason, SilentDrop
from millrace.task.collector import UNASSIGNED_PARTITION, Collector, OutputBatch
from millrace.task.input import InputBatch
from millrace.task.records import Headers, object_array

NO_ROW = -1
"""Origin of a record that does not come from a row of the input, but from a punctuation."""


class DeadLetters:
    """The dead-letter records from exception handlers, and from operators that drop records.

    A record that several operators drop, or that has a dead-letter record from a handler, gets no further one for being
    dropped. The dead-letter records of one record are adjacent, wherever batches are cut.

    Args:
        topic: where dropped records go; ``None`` where they go nowhere.
        reasons: the reasons for which they go there.
        task: the task's name.
    """

    def __init__(self, topic: str | None, reasons: frozenset[DropReason | SilentDrop], task: str) -> None:
        self._topic = topic
        self._reasons = reasons if topic is not None else frozenset()
        self._task = task
        self._dead_letters: list[tuple[int, ProducerRecord]] = []
        self._dropped: dict[int, tuple[DropReason | SilentDrop, str]] = {}

    def clear(self) -> None:
        """Discards the collected dead-letter records: another batch begins."""
        self._dead_letters = []
        self._dropped = {}

    def add(self, row: int | None, records: Iterable[ProducerRecord]) -> None:
        """Adds a handler's dead-letter records; ``row`` is the input record that was being processed."""
        self._dead_letters += [(NO_ROW if row is None else row, record) for record in records]

    def drop(self, reason: DropReason | SilentDrop, node: str, rows: Iterable[int]) -> None:
        """Adds input records that a node drops by its definition, where the configuration asks for it."""
        if reason in self._reasons:
            for row in (one for one in rows if one != NO_ROW):
                self._dropped.setdefault(int(row), (reason, node))

    @property
    def topics(self) -> frozenset[str]:
        """The topics for which handlers have returned dead-letter records."""
        return frozenset(record.topic for _, record in self._dead_letters)

    def send(self, batch: InputBatch, collector: Collector) -> int:
        """Sends the collected dead-letter records and discards them.

        Returns:
            how many dead-letter records there were.
        """
        records = self._dead_letters + self._of_dropped(batch)
        self.clear()
        records.sort(key=lambda record: (record[0], record[1].topic))
        by_topic = sorted((record for _, record in records), key=lambda record: record.topic)
        for topic, group in groupby(by_topic, key=lambda record: record.topic):
            collector.send(at_writable_times(_as_output(topic, list(group)), collector))
        return len(records)

    def _of_dropped(self, batch: InputBatch) -> list[tuple[int, ProducerRecord]]:
        answered = {row for row, _ in self._dead_letters}
        records = []
        for row, (reason, node) in self._dropped.items():
            if row not in answered:
                assert self._topic is not None
                headers = (DROPPED_REASON, reason.encode()), (DROPPED_NODE, node.encode())
                records.append((row, dead_letter(self._topic, context_of(batch, row, node, self._task), *headers)))
        return records


def at_writable_times(records: OutputBatch, collector: Collector) -> OutputBatch:
    """Returns the dead-letter records, with timestamps that their topics accept.

    A timestamp that its topic refuses is replaced by the present time, and kept in a header.

    The record's timestamp may be the very reason for the dead-letter record, which must not be lost for it.
    """
    rows = [row for row, error in collector.refused(records) if isinstance(error, InvalidTimestampError)]
    if not rows:
        return records
    assert records.headers is not None
    timestamps, headers = records.timestamps.copy(), records.headers.copy()
    for row in rows:
        headers[row] = [*headers[row], (TIMESTAMP, str(timestamps[row]).encode())]
        timestamps[row] = system_time_ms()
    return replace(records, timestamps=timestamps, headers=headers)


def context_of(batch: InputBatch | None, row: int | None, node: str, task: str) -> ErrorHandlerContext:
    """Returns the context that a handler gets for an input record, or for none: then it has no topic and no offset."""
    if batch is None or row is None:
        return ErrorHandlerContext(
            topic=None,
            partition=-1,
            offset=-1,
            headers=[],
            processor_node_id=node,
            task_id=task,
            timestamp=-1,
            source_raw_key=None,
            source_raw_value=None,
        )
    topic, partition, offset = batch.position(row)
    return ErrorHandlerContext(
        topic=topic,
        partition=partition,
        offset=offset,
        headers=headers_of(batch, row),
        processor_node_id=node,
        task_id=task,
        timestamp=int(batch.timestamp[row]),
        source_raw_key=_raw(batch.keys[row].as_py()),
        source_raw_value=_raw(batch.values[row].as_py()),
    )


def headers_of(batch: InputBatch, row: int) -> Headers:
    """Returns the headers of an input record."""
    return [] if batch.headers is None or batch.headers[row] is None else list(batch.headers[row])


def _as_output(topic: str, records: list[ProducerRecord]) -> OutputBatch:
    return OutputBatch(
        topic=topic,
        keys=[record.key for record in records],
        values=[record.value for record in records],
        timestamps=np.array([record.timestamp for record in records], dtype=np.int64),
        partitions=np.array(
            [UNASSIGNED_PARTITION if record.partition is None else record.partition for record in records],
            dtype=np.int32,
        ),
        headers=object_array([record.headers for record in records]),
    )


def _raw(value: object) -> bytes | None:
    # A frame function may have decoded the value in Spark; its text is then all there is of the original.
    return value if value is None or isinstance(value, bytes) else repr(value).encode()
