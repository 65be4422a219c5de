"""The dead letters of a batch: collected while its nodes run, sent at its end, in the order of the input records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

import numpy as np

from millrace.errors import InvalidTimestampError
from millrace.handlers import ErrorHandlerContext, ProducerRecord, dead_letter
from millrace.kafka.record_limits import system_time_ms
from millrace.metrics import DropReason, SilentDrop
from millrace.task.collector import UNASSIGNED_PARTITION, Collector, OutputBatch
from millrace.task.input import InputBatch
from millrace.task.records import Headers, object_array

REASON_HEADER = "__millrace.dropped.reason"
NODE_HEADER = "__millrace.dropped.node"
TIMESTAMP_HEADER = "__millrace.timestamp"
"""The record's timestamp, milliseconds, in a dead letter that could not have it."""

NO_ROW = -1
"""Origin of a record that no row of the input gave, but a punctuation."""


class DeadLetters:
    """What handlers and dropping operators give for the dead letter topics.

    A record that several operators drop, or that has a dead letter from a handler, gets no further one for being
    dropped. The letters of a record stand together, whatever the cuts of the batches.

    Args:
        topic: where dropped records go; ``None`` where they go nowhere.
        reasons: the reasons for which they go there.
        task: the task's name.
    """

    def __init__(self, topic: str | None, reasons: frozenset[DropReason | SilentDrop], task: str) -> None:
        self._topic = topic
        self._reasons = reasons if topic is not None else frozenset()
        self._task = task
        self._letters: list[tuple[int, ProducerRecord]] = []
        self._dropped: dict[int, tuple[DropReason | SilentDrop, str]] = {}

    def clear(self) -> None:
        """Forgets everything: another batch begins."""
        self._letters = []
        self._dropped = {}

    def add(self, row: int | None, letters: Iterable[ProducerRecord]) -> None:
        """Remembers the letters of a handler; ``row`` is the input record that was being processed."""
        self._letters += [(NO_ROW if row is None else row, letter) for letter in letters]

    def drop(self, reason: DropReason | SilentDrop, node: str, rows: Iterable[int]) -> None:
        """Remembers input records that a node drops by its definition, where that was asked for."""
        if reason in self._reasons:
            for row in (one for one in rows if one != NO_ROW):
                self._dropped.setdefault(int(row), (reason, node))

    @property
    def topics(self) -> frozenset[str]:
        """The topics that handlers have named."""
        return frozenset(letter.topic for _, letter in self._letters)

    def send(self, batch: InputBatch, collector: Collector) -> int:
        """Sends what was remembered and forgets it.

        Returns:
            how many letters there were.
        """
        letters = self._letters + self._of_dropped(batch)
        self.clear()
        letters.sort(key=lambda letter: (letter[0], letter[1].topic))
        by_topic = sorted((letter for _, letter in letters), key=lambda letter: letter.topic)
        for topic, group in groupby(by_topic, key=lambda letter: letter.topic):
            collector.send(at_writable_times(_as_output(topic, list(group)), collector))
        return len(letters)

    def _of_dropped(self, batch: InputBatch) -> list[tuple[int, ProducerRecord]]:
        answered = {row for row, _ in self._letters}
        letters = []
        for row, (reason, node) in self._dropped.items():
            if row not in answered:
                assert self._topic is not None
                headers = (REASON_HEADER, reason.encode()), (NODE_HEADER, node.encode())
                letters.append((row, dead_letter(self._topic, context_of(batch, row, node, self._task), *headers)))
        return letters


def at_writable_times(letters: OutputBatch, collector: Collector) -> OutputBatch:
    """The letters; one whose timestamp its topic does not take has the present time, and the timestamp in a header.

    The record's timestamp may be the very reason for the letter, which must not be lost for it.
    """
    rows = [row for row, error in collector.refused(letters) if isinstance(error, InvalidTimestampError)]
    if not rows:
        return letters
    assert letters.headers is not None
    timestamps, headers = letters.timestamps.copy(), letters.headers.copy()
    for row in rows:
        headers[row] = [*headers[row], (TIMESTAMP_HEADER, str(timestamps[row]).encode())]
        timestamps[row] = system_time_ms()
    return replace(letters, timestamps=timestamps, headers=headers)


def context_of(batch: InputBatch | None, row: int | None, node: str, task: str) -> ErrorHandlerContext:
    """What a handler is told of an input record; ``None`` for what comes from none."""
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
    topic, partition, offset = batch.place(row)
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
    """The headers of an input record."""
    return [] if batch.headers is None or batch.headers[row] is None else list(batch.headers[row])


def _as_output(topic: str, letters: list[ProducerRecord]) -> OutputBatch:
    return OutputBatch(
        topic=topic,
        keys=[letter.key for letter in letters],
        values=[letter.value for letter in letters],
        timestamps=np.array([letter.timestamp for letter in letters], dtype=np.int64),
        partitions=np.array(
            [UNASSIGNED_PARTITION if letter.partition is None else letter.partition for letter in letters],
            dtype=np.int32,
        ),
        headers=object_array([letter.headers for letter in letters]),
    )


def _raw(value: object) -> bytes | None:
    # A frame function may have decoded the value in Spark; its text is then all there is of the original.
    return value if value is None or isinstance(value, bytes) else repr(value).encode()
