"""The event time of a source's records, from the timestamp extractor; in columns where the extractor can."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from millrace.handlers import ConsumerRecord
from millrace.kafka.commit_metadata import UNKNOWN_TIME
from millrace.task.columns import IntArray
from millrace.task.failures import FailureHandler
from millrace.task.input import InputBatch
from millrace.task.records import Records
from millrace.topology.nodes import SourceNode
from millrace.topology.timestamp_extractors import (
    ColumnarTimestampExtractor,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    invalid_takes_record,
    takes_record,
)
from millrace.topology.topic_partition import TopicPartition

# None of them changes a record's own time, unless it is invalid; then the record takes no other's turn.
_KEEP_THE_ORDER = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp)


class EventTime:
    """The event times that a source's extractor returns.

    Args:
        node: the source node.
        default: extractor of sources that name none.
        failures: what happens where the extractor raises.
    """

    def __init__(self, node: SourceNode, default: TimestampExtractor, failures: FailureHandler) -> None:
        # Kafka Streams reads repartition topics so, whatever the default: their timestamps are the application's own.
        internal = FailOnInvalidTimestamp()
        self._extractor: TimestampExtractor = internal if node.internal else node.timestamp_extractor or default
        self._takes_record = takes_record(self._extractor)
        self._invalid_takes_record = isinstance(self._extractor, ColumnarTimestampExtractor) and invalid_takes_record(
            self._extractor
        )
        self._node = node.name
        self._failures = failures

    @property
    def may_reorder(self) -> bool:
        """Whether event times may differ from the records' own timestamps, so that stream order changes."""
        return type(self._extractor) not in _KEEP_THE_ORDER

    def of(self, batch: InputBatch, records: Records, partition_times: Mapping[TopicPartition, int]) -> IntArray:
        """Returns the event times of records, milliseconds; negative where a record is to be dropped.

        Args:
            batch: the task's input.
            records: records whose origins are rows of it, by offset within each partition.
            partition_times: largest event time of each input partition before these records.

        Raises:
            ProcessingError: the extractor raised.
        """
        if isinstance(self._extractor, ColumnarTimestampExtractor):
            values = records.values.arrow if records.values.is_arrow else None
            times = self._extractor.extract_column(values, records.timestamps)
            if times is not None:
                self._ask_about_invalid(self._extractor, batch, records, times, partition_times)
                return times
        return self._one_by_one(batch, records, partition_times)

    def _one_by_one(
        self, batch: InputBatch, records: Records, partition_times: Mapping[TopicPartition, int]
    ) -> IntArray:
        latest = dict(partition_times)
        times: list[int] = []
        rows = zip(records.keys.objects, records.values.objects, records.timestamps.tolist(), strict=True)
        extract: Callable[..., Any] = self._extractor
        for index, (key, value, timestamp) in enumerate(rows):
            row = int(records.origin[index])
            topic, partition, _ = batch.position(row)
            partition_time = latest.get((topic, partition), UNKNOWN_TIME)
            try:
                if self._takes_record:
                    event_time = int(extract(_record(batch, records, index, key, value), partition_time))
                else:
                    event_time = int(extract(key, value, timestamp, partition_time))
            except Exception as error:
                self._fail(error, batch, row)
            times.append(event_time)
            latest[(topic, partition)] = max(partition_time, event_time)
        return np.array(times, dtype=np.int64)

    def _ask_about_invalid(
        self,
        extractor: ColumnarTimestampExtractor,
        batch: InputBatch,
        records: Records,
        times: IntArray,
        partition_times: Mapping[TopicPartition, int],
    ) -> None:
        invalid = np.flatnonzero(times < 0)
        if len(invalid) == 0:
            return
        keys, values = records.keys.take(invalid).objects, records.values.take(invalid).objects
        for topic_partition, own in rows_by_partition(batch, records.origin):
            latest = partition_times.get(topic_partition, UNKNOWN_TIME)
            begin = 0
            for end in np.flatnonzero(times[own] < 0).tolist():
                index = int(own[end])
                latest = max(latest, int(times[own[begin:end]].max(initial=UNKNOWN_TIME)))
                at = int(np.searchsorted(invalid, index))
                time = int(times[index])
                try:
                    if self._invalid_takes_record:
                        record = _record(batch, records, index, keys[at], values[at])
                        times[index] = extractor.on_invalid_timestamp(record, time, latest)
                    else:
                        times[index] = extractor.on_invalid_timestamp(keys[at], values[at], time, latest)
                except Exception as error:
                    self._fail(error, batch, int(records.origin[index]))
                begin = end

    def _fail(self, error: Exception, batch: InputBatch, row: int) -> NoReturn:
        self._failures.timestamp_extraction(error, batch.position(row), self._node)


def _record(batch: InputBatch, records: Records, index: int, key: Any, value: Any) -> ConsumerRecord:
    topic, partition, offset = batch.position(int(records.origin[index]))
    headers = None if records.headers is None else records.headers[index]
    return ConsumerRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=int(records.timestamps[index]),
        key=key,
        value=value,
        headers=list(headers or ()),
    )


def rows_by_partition(batch: InputBatch, rows: IntArray) -> Iterator[tuple[TopicPartition, Any]]:
    """Yields for each input partition among ``rows`` of a batch its indices in ``rows``, ascending."""
    if len(rows) == 0:
        return
    partitions = batch.partition[rows]
    numbers = batch.topic[rows] * (int(partitions.max()) + 1) + partitions
    for number in np.unique(numbers).tolist():
        own = np.flatnonzero(numbers == number)
        topic, partition, _ = batch.position(int(rows[own[0]]))
        yield (topic, partition), own
