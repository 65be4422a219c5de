"""A source node in a task: bytes to records, event time, and records that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import SerializationError
from millrace.serdes import Serde
from millrace.serdes.changes import ChangeSerde, split_change
from millrace.task.columns import BoolArray, Column, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch, TopicPartition
from millrace.task.records import Records
from millrace.task.serialization import or_default
from millrace.topology.nodes import SourceNode

UNKNOWN_TIME = -1
"""Partition time before the first record, as in Kafka Streams."""


class Source:
    """Reads the rows of its topics.

    Args:
        node: the source node.
        failures: what happens to rows that cannot be read.
        partition_times: largest timestamp of each input partition so far, milliseconds; kept up to date here.
    """

    def __init__(
        self, node: SourceNode, failures: FailureHandler, partition_times: MutableMapping[TopicPartition, int]
    ) -> None:
        self._node = node
        self._failures = failures
        self._partition_times = partition_times
        self._key_serde = or_default(node.key_serde)
        self._value_serde = or_default(node.value_serde)

    def read(self, batch: InputBatch, rows: IntArray) -> Records | None:
        """The records in ``rows`` of the batch; ``None`` where none is left.

        Raises:
            SerializationError: a row cannot be read, and the handler does not continue.
        """
        whole = len(rows) == len(batch)
        keys = batch.keys if whole else batch.keys.take(pa.array(rows))
        values = batch.values if whole else batch.values.take(pa.array(rows))
        readable_keys, key_column = self._decode(keys, self._key_serde, rows, None)
        old_column = None
        if isinstance(self._value_serde, ChangeSerde):
            readable, value_column, old_column = self._decode_changes(values, self._value_serde, rows, readable_keys)
        elif pa.types.is_binary(values.type):
            readable, value_column = self._decode(values, self._value_serde, rows, readable_keys)
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
        if readable is not None:
            records = records.filter(readable)
        return self._with_event_time(batch, records)

    def _decode(
        self, data: pa.Array, serde: Serde, rows: IntArray, readable_before: BoolArray | None
    ) -> tuple[BoolArray | None, Column]:
        """The decoded column, and which rows could be read (``None``: all). Unreadable rows are null."""
        if readable_before is not None:
            data = pc.if_else(pa.array(readable_before), data, pa.scalar(None, data.type))
        if serde.arrow_type is not None:
            try:
                return readable_before, Column(arrow=serde.deserialize_column(data))
            except SerializationError:
                # At least one row is malformed: the loop below finds which.
                pass
        readable = np.ones(len(rows), dtype=bool) if readable_before is None else readable_before.copy()
        good: list[Any] = []
        for place, value in enumerate(data.to_pylist()):
            try:
                good.append(None if value is None else serde.deserialize(value))
            except SerializationError as error:
                self._failures.deserialization(error, int(rows[place]))
                readable[place] = False
                good.append(None)
        none_failed = bool(readable.all())
        column = Column(objects=good)
        if serde.arrow_type is not None:
            column = Column(arrow=pa.array(good, type=serde.arrow_type))
        return (None if none_failed else readable), column

    def _decode_changes(
        self, data: pa.Array, serde: ChangeSerde, rows: IntArray, readable: BoolArray | None
    ) -> tuple[BoolArray | None, Column, Column]:
        """As :meth:`_decode`, for new and old values."""
        parts: list[tuple[bytes | None, bytes | None]] = []
        split = np.ones(len(rows), dtype=bool) if readable is None else readable.copy()
        for place, change in enumerate(data.to_pylist()):
            part: tuple[bytes | None, bytes | None] = (None, None)
            if change is not None and split[place]:
                try:
                    part = split_change(change)
                except SerializationError as error:
                    self._failures.deserialization(error, int(rows[place]))
                    split[place] = False
            parts.append(part)
        inner = or_default(serde.inner)
        readable, new_values = self._decode(pa.array([new for new, _ in parts], type=pa.binary()), inner, rows, split)
        readable, old_values = self._decode(
            pa.array([old for _, old in parts], type=pa.binary()), inner, rows, readable
        )
        return readable, new_values, old_values

    def _with_event_time(self, batch: InputBatch, records: Records) -> Records | None:
        if self._node.timestamp_extractor is not None:
            records = self._extracted(batch, records, self._node.timestamp_extractor)
        negative = records.timestamps < 0
        if negative.any():
            for row, timestamp in zip(
                records.origin[negative].tolist(), records.timestamps[negative].tolist(), strict=True
            ):
                self._failures.negative_timestamp(timestamp, row)
            records = records.filter(~negative)
        if len(records) == 0:
            return None
        self._advance_partition_times(batch, records)
        return records

    def _extracted(
        self, batch: InputBatch, records: Records, extractor: Callable[[Any, Any, int, int], int]
    ) -> Records:
        times = dict(self._partition_times)
        extracted: list[int] = []
        failed: list[int] = []
        rows = zip(records.keys.objects, records.values.objects, records.timestamps.tolist(), strict=True)
        for place, (key, value, timestamp) in enumerate(rows):
            topic, partition, _ = batch.place(int(records.origin[place]))
            partition_time = times.get((topic, partition), UNKNOWN_TIME)
            try:
                event_time = int(extractor(key, value, timestamp, partition_time))
            except Exception as error:
                self._failures.processing(error, int(records.origin[place]), self._node.name)
                failed.append(place)
                event_time = UNKNOWN_TIME
            extracted.append(event_time)
            times[(topic, partition)] = max(partition_time, event_time)
        kept = np.ones(len(records), dtype=bool)
        kept[failed] = False
        return Records(
            records.keys,
            records.values,
            np.array(extracted, dtype=np.int64),
            records.origin,
            records.order,
            records.headers,
        ).filter(kept)

    def _advance_partition_times(self, batch: InputBatch, records: Records) -> None:
        topics, partitions = batch.topic[records.origin], batch.partition[records.origin]
        places = topics * (int(partitions.max()) + 1) + partitions
        for place in np.unique(places).tolist():
            own = places == place
            row = int(records.origin[int(np.argmax(own))])
            topic, partition, _ = batch.place(row)
            latest = int(records.timestamps[own].max())
            self._partition_times[(topic, partition)] = max(
                self._partition_times.get((topic, partition), UNKNOWN_TIME), latest
            )
