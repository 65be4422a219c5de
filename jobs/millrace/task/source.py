"""The source of a task: it deserializes records, finds their event time, and handles those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import SerializationError
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.metrics import DropReason
from millrace.serdes import Serde
from millrace.serdes.changes import ChangeSerde, split_change
from millrace.task.columns import BoolArray, Column, IntArray
from millrace.task.event_time import EventTime, rows_by_partition
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.task.written_records import is_of_a_record
from millrace.topology.nodes import SourceNode
from millrace.topology.timestamp_extractors import TimestampExtractor
from millrace.topology.topic_partition import TopicPartition

Report = Callable[[Exception, int], None]

LATEST_MS = 2**63 - 1
LATEST_WINDOWED_MS = 2**61 - 1
"""Latest event time where there are windows, 73 million years after 1970. Beyond it the end of a window may not fit in
64 bits: Kafka Streams ends at such a record, here it is dropped as one with an invalid timestamp."""


class Source:
    """A source node, which reads the rows of its topics.

    Args:
        node: the source node.
        failures: what happens to rows that cannot be read.
        partition_times: largest timestamp of each input partition so far, milliseconds; kept up to date here.
        default_extractor: timestamp extractor of sources that name none.
        windowed: whether windows or sessions are made of the records: their ends must fit in 64 bits.
    """

    def __init__(
        self,
        node: SourceNode,
        failures: FailureHandler,
        partition_times: MutableMapping[TopicPartition, int],
        default_extractor: TimestampExtractor,
        *,
        windowed: bool = False,
    ) -> None:
        self._latest_ms = LATEST_WINDOWED_MS if windowed else LATEST_MS
        self._failures = failures
        self._event_time = EventTime(node, default_extractor, failures)
        self._partition_times = partition_times
        self._key_serde = or_default(node.key_serde)
        self._value_serde = or_default(node.value_serde)

    def read(self, batch: InputBatch, rows: IntArray) -> Records | None:
        """Returns the records of ``rows`` in the batch; ``None`` where none is left.

        Raises:
            SerializationError: a row cannot be read, and the handler does not continue.
            ProcessingError: the timestamp extractor raised.
        """
        return self._with_event_time(batch, self._readable(batch, rows, self._failures.deserialization))

    def read_as_recorded(self, batch: InputBatch) -> Records:
        """Returns all readable records of the batch with their original timestamps, for a global store.

        Raises:
            SerializationError: a record cannot be read, and the handler does not continue.
        """
        return self._readable(batch, np.arange(len(batch), dtype=np.int64), self._failures.deserialization)

    @property
    def may_reorder(self) -> bool:
        """Whether the stream order of the inputs depends on the timestamp extractor."""
        return self._event_time.may_reorder

    def event_times(self, batch: InputBatch, rows: IntArray) -> IntArray:
        """Returns event times of rows before they are processed, milliseconds; negative for those to be dropped.

        Raises:
            ProcessingError: the timestamp extractor raised.
        """
        records = self._readable(batch, rows, _overlook)
        times = np.full(len(batch), UNKNOWN_TIME, dtype=np.int64)
        times[records.origin] = self._event_time.of(batch, records, self._partition_times)
        return times[rows]

    def _readable(self, batch: InputBatch, rows: IntArray, report: Report) -> Records:
        whole = len(rows) == len(batch)
        keys = batch.keys if whole else batch.keys.take(pa.array(rows))
        values = batch.values if whole else batch.values.take(pa.array(rows))
        readable_keys, key_column = self._decode(keys, self._key_serde, rows, None, report)
        old_column = None
        if isinstance(self._value_serde, ChangeSerde):
            readable, value_column, old_column = self._decode_changes(
                values, self._value_serde, rows, readable_keys, report
            )
        elif pa.types.is_binary(values.type):
            readable, value_column = self._decode(values, self._value_serde, rows, readable_keys, report)
        else:
            readable, value_column = readable_keys, Column(arrow=values)
        records = Records(
            key_column,
            value_column,
            batch.timestamp[rows],
            rows,
            (rows,),
            None if batch.headers is None else batch.headers[rows],
            old_column,
        )
        return records if readable is None else records.filter(readable)

    def _decode(
        self, data: pa.Array, serde: Serde, rows: IntArray, readable_before: BoolArray | None, report: Report
    ) -> tuple[BoolArray | None, Column]:
        """Returns which rows could be read (``None``: all), and the decoded column, null where a row is unreadable."""
        if readable_before is not None:
            data = pc.if_else(pa.array(readable_before), data, pa.scalar(None, data.type))
        if serde.arrow_type is not None:
            try:
                return readable_before, Column(arrow=serde.deserialize_column(data))
            except Exception as error:
                if not is_of_a_record(error):
                    raise
                # At least one row is malformed: the loop below finds which.
        readable = np.ones(len(rows), dtype=bool) if readable_before is None else readable_before.copy()
        good: list[Any] = []
        for index, value in enumerate(data.to_pylist()):
            try:
                good.append(None if value is None else serde.deserialize(value))
            except Exception as error:
                # As in Kafka Streams whatever a deserializer raises is the record's.
                if not is_of_a_record(error):
                    raise
                report(error, int(rows[index]))
                readable[index] = False
                good.append(None)
        none_failed = bool(readable.all())
        column = Column(objects=good)
        if serde.arrow_type is not None:
            column = Column(arrow=pa.array(good, type=serde.arrow_type))
        return (None if none_failed else readable), column

    def _decode_changes(
        self, data: pa.Array, serde: ChangeSerde, rows: IntArray, readable: BoolArray | None, report: Report
    ) -> tuple[BoolArray | None, Column, Column]:
        """Returns the same as :meth:`_decode`, with a column for new and one for old values."""
        parts: list[tuple[bytes | None, bytes | None]] = []
        split = np.ones(len(rows), dtype=bool) if readable is None else readable.copy()
        for index, change in enumerate(data.to_pylist()):
            part: tuple[bytes | None, bytes | None] = (None, None)
            if change is not None and split[index]:
                try:
                    part = split_change(change)
                except SerializationError as error:
                    report(error, int(rows[index]))
                    split[index] = False
            parts.append(part)
        inner = or_default(serde.inner)
        new_bytes, old_bytes = (pa.array(side, type=pa.binary()) for side in zip(*parts, strict=True))
        readable, new_values = self._decode(new_bytes, inner, rows, split, report)
        readable, old_values = self._decode(old_bytes, inner, rows, readable, report)
        return readable, new_values, old_values

    def _with_event_time(self, batch: InputBatch, records: Records) -> Records | None:
        if batch.event_time is None:
            times = self._event_time.of(batch, records, self._partition_times)
        else:
            times = batch.event_time[records.origin]
        records = replace(records, timestamps=times)
        invalid = (times < 0) | (times > self._latest_ms)
        if invalid.any():
            self._failures.drop(DropReason.NEGATIVE_TIMESTAMP, records.origin[invalid])
            records = records.filter(~invalid)
        if len(records) == 0:
            return None
        for topic_partition, own in rows_by_partition(batch, records.origin):
            latest = int(records.timestamps[own].max())
            self._partition_times[topic_partition] = max(
                self._partition_times.get(topic_partition, UNKNOWN_TIME), latest
            )
        return records


def _overlook(_: Exception, __: int) -> None:
    """Ignores unreadable rows while stream order is determined; they are reported when they are processed."""
