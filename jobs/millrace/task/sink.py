"""The sink of a task: it serializes records and chooses their partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from millrace.errors import (
    MillraceError,
    ProcessingError,
    RecordRefusedError,
    SerializationError,
    TopicRefusedError,
    UnknownTopicError,
    error_not_of_user_code,
)
from millrace.handlers import ProducerRecord, SerializationExceptionOrigin
from millrace.kafka.murmur2 import partitions_for
from millrace.metrics import DropReason
from millrace.serdes import Serde, SessionWindowedSerde, TimeWindowedSerde, WindowedSerializer
from millrace.serdes.changes import ChangeSerde, join_change
from millrace.task.collector import UNASSIGNED_PARTITION, Collector, OutputBatch
from millrace.task.columns import Column, IntArray
from millrace.task.failures import FailureHandler
from millrace.task.processor import call_per_record
from millrace.task.records import Records, concat_objects, concat_orders, sorted_rows
from millrace.task.serialization import or_default, to_bytes_list
from millrace.topology.nodes import SinkNode
from millrace.topology.partitioners import InvalidPartitionError, chosen_partitions

Output = tuple[OutputBatch, tuple[IntArray, ...]]
"""Records for a topic, and their order columns."""

WINDOW_BYTES = {TimeWindowedSerde: 8, SessionWindowedSerde: 16}
"""The number of bytes after the key's own that identify its window."""


class Sink:
    """A sink node, which turns its records into those of its topic, with their own timestamps and headers.

    Args:
        node: the node.
        topic: the broker's name of its topic.
    """

    def __init__(self, node: SinkNode, topic: str) -> None:
        self._node = node
        self.topic = topic
        self._key_serde = or_default(node.key_serde)
        self._value_serde = or_default(node.value_serde)

    def outputs(self, records: Records, collector: Collector, failures: FailureHandler) -> Iterator[Output]:
        """Yields the records as bytes, for the topic's partitions: see :meth:`encode`.

        There are none where the topic takes nothing.

        Raises:
            UnknownTopicError: a record names the topic, which does not exist, and the production handler does not
                resume.
            TopicRefusedError: the application may not write to the topic, and the handler does not resume.
        """
        try:
            count = collector.partition_count(self.topic)
        except (UnknownTopicError, TopicRefusedError) as error:
            batch, _ = self.encode(records, None, failures)
            self.discard(batch, error, failures)
            return
        yield self.encode(records, count, failures)

    @staticmethod
    def discard(batch: OutputBatch, error: UnknownTopicError | RecordRefusedError, failures: FailureHandler) -> None:
        """Asks the production handler about every record of a batch that cannot be written.

        Raises:
            UnknownTopicError, RecordRefusedError: the handler does not resume.
        """
        assert batch.origins is not None
        for row, origin in enumerate(batch.origins.tolist()):
            if isinstance(error, UnknownTopicError):
                failures.unknown_topic(error, origin, record_of(batch, row))
            else:
                failures.refused(error, origin, record_of(batch, row))

    def encode(self, records: Records, partition_count: int | None, failures: FailureHandler) -> Output:
        """Returns the records as bytes, and their order columns. Those that cannot be written go to the handler.

        Args:
            records: what reached the node.
            partition_count: partitions of the topic; ``None`` leaves the partitions open.
            failures: what follows a record that cannot be written.

        Raises:
            SerializationError: a key or value cannot be written, and the handler does not resume.
            ProcessingError: the partitioner raised or chose a partition that does not exist, and the handler does not
                continue.
        """
        try:
            keys, values = self._serialized(records)
        except SerializationError:
            # At least one cannot be written; which, shows one by one.
            records = self._writable(records, failures)
            keys, values = self._serialized(records) if len(records) else ([], [])
        if partition_count is None:
            partitions = np.full(len(records), UNASSIGNED_PARTITION, dtype=np.int32)
        elif self._node.partitioner:
            partitions, rows = self._chosen(records, partition_count, failures)
            if rows is not None:
                records = records.take(rows)
                keys, values = [keys[row] for row in rows.tolist()], [values[row] for row in rows.tolist()]
        elif isinstance(self._key_serde, TimeWindowedSerde | SessionWindowedSerde):
            # As in Kafka Streams the windows of a key share its partition.
            window_bytes = WINDOW_BYTES[type(self._key_serde)]
            plain = [None if key is None else key[:-window_bytes] for key in keys]
            partitions = partitions_for(plain, partition_count)
        elif isinstance(self._key_serde, WindowedSerializer):
            partitions = partitions_for(self._base_keys(records, self._key_serde), partition_count)
        else:
            partitions = partitions_for(keys, partition_count)
        batch = OutputBatch(
            self.topic, keys, values, records.timestamps, partitions, records.headers, origins=records.origin
        )
        return batch, records.order

    def _base_keys(self, records: Records, serde: WindowedSerializer) -> list[bytes | None]:
        try:
            return [None if key is None else serde.serialize_base_key(key) for key in records.keys.objects]
        except Exception as error:
            raise SerializationError(
                f"serialize_base_key() of {type(serde).__name__} failed for a key of node {self._node.name}, which "
                f"could be written to topic {self.topic}: {type(error).__name__}: {error}.",
                remedy="have it take every key that serialize() takes",
            ) from error

    def _serialized(self, records: Records) -> tuple[list[bytes | None], list[bytes | None]]:
        return self._encoded("key", records.keys, self._key_serde), self._values(records)

    def _writable(self, records: Records, failures: FailureHandler) -> Records:
        kept = np.ones(len(records), dtype=bool)
        for row in range(len(records)):
            one = records.take(np.array([row], dtype=np.int64))
            origin = SerializationExceptionOrigin.KEY
            try:
                self._encoded("key", one.keys, self._key_serde)
                origin = SerializationExceptionOrigin.VALUE
                self._values(one)
            except SerializationError as error:
                kept[row] = False
                record = ProducerRecord(
                    topic=self.topic,
                    key=one.keys.objects[0],
                    value=one.values.objects[0],
                    timestamp=int(one.timestamps[0]),
                    headers=[] if one.headers is None else list(one.headers[0] or ()),
                )
                failures.serialization(error, int(one.origin[0]), record, origin)
        return records.filter(kept)

    def _values(self, records: Records) -> list[bytes | None]:
        if not isinstance(self._value_serde, ChangeSerde):
            return self._encoded("value", records.values, self._value_serde)
        inner = or_default(self._value_serde.inner)
        new_values = self._encoded("value", records.values, inner)
        old_values = self._encoded("value", records.old_values or Column(objects=[None] * len(records)), inner)
        return [join_change(new, old) for new, old in zip(new_values, old_values, strict=True)]

    def _encoded(self, what: str, column: Column, serde: Serde) -> list[bytes | None]:
        try:
            return to_bytes_list(column, serde)
        except Exception as error:
            own = error_not_of_user_code(error)
            if own is not None:
                raise own from None
            if isinstance(error, MillraceError) and not isinstance(error, SerializationError):
                raise
            reason = error.message if isinstance(error, MillraceError) else f"{type(error).__name__}: {error}"
            remedy = error.remedy if isinstance(error, MillraceError) else ""
            raise SerializationError(
                f"Node {self._node.name} cannot write a {what} to topic {self.topic} with {type(serde).__name__}: "
                f"{reason}",
                remedy=remedy
                or f"give the topic a serde for the {what}s that reach it (Produced, Grouped, Repartitioned, Joined); "
                "without one they are taken for bytes",
            ) from error

    def _chosen(
        self, records: Records, count: int, failures: FailureHandler
    ) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], IntArray | None]:
        """Returns the partitions of written records, and their rows; a row appears as often as its record is written.

        The rows are ``None`` where every record goes to one partition, as they are.
        """
        answers, kept = call_per_record(
            lambda key, value: self._partitions_of(key, value, count), records, failures, self._node.name
        )
        rows = np.arange(len(records)) if kept is None else kept
        times = np.fromiter(map(len, answers), dtype=np.int64, count=len(answers))
        nowhere = rows[times == 0]
        if len(nowhere):
            failures.drop(DropReason.NO_PARTITION, records.origin[nowhere])
        as_they_are = kept is None and bool((times == 1).all())
        chosen = np.array([partition for each in answers for partition in each], dtype=np.int32)
        return chosen, None if as_they_are else np.repeat(rows, times)

    def _partitions_of(self, key: Any, value: Any, count: int) -> list[int]:
        assert self._node.partitioner is not None
        try:
            return chosen_partitions(self._node.partitioner(self.topic, key, value, count), count)
        except InvalidPartitionError as error:
            raise ProcessingError(
                f"The partitioner of node {self._node.name} chose {error} of topic {self.topic}, which has {count}.",
                remedy="return a number from 0 to the number of partitions less one, a set of these, or None",
            ) from error


def merge_outputs(batches: Sequence[OutputBatch], orders: Sequence[tuple[IntArray, ...]]) -> OutputBatch:
    """Returns the output of several sinks to one topic, in the order of a record-by-record walk.

    Args:
        batches: output of the sinks.
        orders: the order columns of each.
    """
    if len(batches) == 1:
        return replace(batches[0], order=orders[0])
    order = concat_orders(orders)
    rows = sorted_rows(order)
    keys = [key for batch in batches for key in batch.keys]
    values = [value for batch in batches for value in batch.values]
    headers = concat_objects([batch.headers for batch in batches], [len(batch) for batch in batches])
    listed = rows.tolist()
    return OutputBatch(
        batches[0].topic,
        [keys[row] for row in listed],
        [values[row] for row in listed],
        np.concatenate([batch.timestamps for batch in batches])[rows],
        np.concatenate([np.broadcast_to(batch.partitions, len(batch)) for batch in batches])[rows],
        None if headers is None else headers[rows],
        origins=np.concatenate([_origins(batch) for batch in batches])[rows],
        order=tuple(column[rows] for column in order),
    )


def _origins(batch: OutputBatch) -> IntArray:
    assert batch.origins is not None
    return batch.origins


def record_of(batch: OutputBatch, row: int) -> ProducerRecord:
    """Returns one record of a batch, for its handler."""
    partition = batch.partitions if isinstance(batch.partitions, int) else int(batch.partitions[row])
    return ProducerRecord(
        topic=batch.topic,
        key=batch.keys[row],
        value=batch.values[row],
        timestamp=int(batch.timestamps[row]),
        headers=[] if batch.headers is None else list(batch.headers[row] or ()),
        partition=None if partition == UNASSIGNED_PARTITION else partition,
    )
