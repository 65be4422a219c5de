"""Records that cannot be read or processed, and records that an operator drops: counted, dead-lettered or fatal."""

from __future__ import annotations

import traceback
from collections import Counter
from typing import NoReturn

import numpy as np

from millrace.config import HandlerResponse, StreamsConfig
from millrace.errors import MillraceError, ProcessingError, SerializationError
from millrace.metrics import DropReason
from millrace.task.collector import UNASSIGNED_PARTITION, Collector, OutputBatch
from millrace.task.columns import IntArray
from millrace.task.input import InputBatch
from millrace.task.records import Headers, object_array


class FailureHandler:
    """Applies the handlers of the configuration to the records of one batch at a time.

    A dead letter has the original bytes, timestamp and headers of the task's input record, and the headers that
    Kafka Streams adds (KIP-1034).
    """

    def __init__(self, config: StreamsConfig, task: str) -> None:
        self._config = config
        self._task = task
        self._collector: Collector | None = None
        self._batch: InputBatch | None = None
        self.dropped: Counter[DropReason] = Counter()
        self.dead_letters = 0
        self.lateness: list[IntArray] = []

    def begin_batch(self, batch: InputBatch, collector: Collector) -> None:
        """Starts counting anew, for the rows of ``batch``."""
        self._batch = batch
        self._collector = collector
        self.dropped = Counter()
        self.dead_letters = 0
        self.lateness = []

    def observe_lateness(self, lateness: IntArray) -> None:
        """Remembers how far behind stream time records were, milliseconds, 0 or more."""
        self.lateness.append(lateness)

    def drop(self, reason: DropReason, count: int = 1) -> None:
        """Counts records that an operator drops by its definition."""
        if count:
            self.dropped[reason] += count

    def place(self, row: int) -> tuple[str, int, int]:
        """Topic, partition and offset of a row of the batch."""
        assert self._batch is not None
        return self._batch.place(row)

    def deserialization(self, error: Exception, row: int) -> None:
        """A row's key or value cannot be read.

        Raises:
            SerializationError: the handler is ``fail``.
        """
        if self._config.default_deserialization_exception_handler is HandlerResponse.FAIL:
            raise SerializationError(
                f"Task {self._task} cannot read the record at {self._place(row)}: {error}.",
                remedy="mend the record or the serde; or set default.deserialization.exception.handler to continue "
                "and errors.dead.letter.queue.topic.name to a topic",
            ) from error
        self.drop(DropReason.DESERIALIZATION)
        self._dead_letter(error, row)

    def processing(self, error: Exception, row: int, node: str) -> None:
        """User code raised while it processed a row.

        Raises:
            ProcessingError: the handler is ``fail``.
        """
        if self._config.processing_exception_handler is HandlerResponse.FAIL:
            raise ProcessingError(
                f"Task {self._task}, node {node}, failed at the record at {self._place(row)}: "
                f"{type(error).__name__}: {error}.",
                remedy="mend the function; or set processing.exception.handler to continue and "
                "errors.dead.letter.queue.topic.name to a topic",
            ) from error
        self.drop(DropReason.PROCESSING)
        self._dead_letter(error, row)

    def timestamp_extraction(self, error: Exception, place: tuple[str, int, int], node: str) -> NoReturn:
        """A timestamp extractor raised; as in Kafka Streams no handler is asked.

        Args:
            error: what it raised.
            place: topic, partition and offset of the record.
            node: the source node.

        Raises:
            ProcessingError: always.
        """
        remedy = error.remedy if isinstance(error, MillraceError) else ""
        reason = error.message if isinstance(error, MillraceError) else f"{type(error).__name__}: {error}"
        raise ProcessingError(
            f"Task {self._task}, source {node}: the timestamp extractor failed at the record at {_at(*place)}: "
            f"{reason}.",
            remedy=remedy or "mend the extractor; a negative result drops the record",
        ) from error

    def negative_timestamp(self, timestamp: int, row: int) -> None:
        """A row's event time is before 1970: it is dropped, counted and dead-lettered."""
        self.drop(DropReason.NEGATIVE_TIMESTAMP)
        self._dead_letter(ProcessingError(f"The timestamp {timestamp} ms is negative."), row)

    def _place(self, row: int) -> str:
        return _at(*self.place(row))

    def _dead_letter(self, error: Exception, row: int) -> None:
        topic = self._config.errors_dead_letter_queue_topic_name
        if topic is None:
            return
        assert self._batch is not None
        assert self._collector is not None
        batch = self._batch
        source_topic, partition, offset = batch.place(row)
        own: Headers = [] if batch.headers is None or batch.headers[row] is None else list(batch.headers[row])
        cause = error.__cause__ if isinstance(error, SerializationError) and error.__cause__ is not None else error
        own += [
            ("__streams.errors.exception", f"{type(cause).__module__}.{type(cause).__qualname__}".encode()),
            ("__streams.errors.message", str(cause).encode()),
            ("__streams.errors.stacktrace", "".join(traceback.format_exception(cause)).encode()),
            ("__streams.errors.topic", source_topic.encode()),
            ("__streams.errors.partition", str(partition).encode()),
            ("__streams.errors.offset", str(offset).encode()),
        ]
        self.dead_letters += 1
        self._collector.send(
            OutputBatch(
                topic=topic,
                keys=[_raw(batch.keys[row].as_py())],
                values=[_raw(batch.values[row].as_py())],
                timestamps=batch.timestamp[row : row + 1],
                partitions=np.array([UNASSIGNED_PARTITION], dtype=np.int32),
                headers=object_array([own]),
            )
        )


def _at(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition} offset {offset}"


def _raw(value: object) -> bytes | None:
    # A frame function may have decoded the value in Spark; its text is then all there is of the original.
    return value if value is None or isinstance(value, bytes) else repr(value).encode()
