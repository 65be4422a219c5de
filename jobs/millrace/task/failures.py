"""Records that fail (reading, processing, writing) or are dropped by an operator: counted, dead-lettered, or fatal.

The handlers themselves are in :mod:`millrace.handlers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

import structlog

from millrace.config import StreamsConfig
from millrace.errors import (
    MillraceError,
    ProcessingError,
    RecordRefusedError,
    SerializationError,
    TransactionAbortedError,
    UnknownTopicError,
    error_not_of_user_code,
)
from millrace.handlers import (
    ConsumerRecord,
    ErrorHandlerContext,
    Handler,
    ProcessedRecord,
    ProducerRecord,
    Response,
    Result,
    SerializationExceptionOrigin,
    load_handler,
)
from millrace.metrics import DropReason, SilentDrop
from millrace.task.collector import Collector
from millrace.task.columns import IntArray
from millrace.task.dead_letters import NO_ROW, DeadLetters, context_of
from millrace.task.input import InputBatch
from millrace.task.records import RecordPosition, Records

_log = structlog.get_logger(__name__)


class FailureHandler:
    """The handlers of the configuration, applied to the records of one batch at a time.

    Args:
        config: the configuration, which names the handlers.
        task: the task's name.

    Raises:
        ConfigurationError: a handler cannot be imported or made.
    """

    def __init__(self, config: StreamsConfig, task: str) -> None:
        self._task = task
        topic = config.errors_dead_letter_queue_topic_name
        settings = config.to_mapping()
        self._deserialization, self._processing, self._production = (
            load_handler(name, dead_letter_topic=topic, settings=settings)
            for name in (
                config.deserialization_exception_handler,
                config.processing_exception_handler,
                config.production_exception_handler,
            )
        )
        self._batch: InputBatch | None = None
        self._dead_letters = DeadLetters(topic, config.dead_lettered_drops, task)
        self.node = ""
        """The node that is running."""
        self.dropped: Counter[DropReason] = Counter()
        self.silently_dropped: Counter[SilentDrop] = Counter()
        self.dead_letters = 0
        self.lateness: list[IntArray] = []

    def begin_batch(self, batch: InputBatch) -> None:
        """Resets the counts, for the rows of ``batch``."""
        self._batch = batch
        self._dead_letters.clear()
        self.node = ""
        self.dropped = Counter()
        self.silently_dropped = Counter()
        self.dead_letters = 0
        self.lateness = []

    @property
    def dead_letter_topics(self) -> frozenset[str]:
        """The topics for which handlers have returned dead-letter records in this batch."""
        return self._dead_letters.topics

    def end_batch(self, collector: Collector) -> None:
        """Sends the dead-letter records of the batch."""
        if self._batch is not None:
            self.dead_letters += self._dead_letters.send(self._batch, collector)

    def observe_lateness(self, lateness: IntArray) -> None:
        """Adds how far records were behind stream time, milliseconds, 0 or more."""
        self.lateness.append(lateness)

    def drop(self, reason: DropReason, rows: IntArray | Sequence[int], *, count: int | None = None) -> None:
        """Counts records that an operator drops by its definition, and dead-letters them where that is configured.

        Args:
            reason: why.
            rows: the rows of the task's input that they come from (``Records.origin``).
            count: how many drops are counted, where that is not the number of rows: a record that is too late for
                some of its windows is counted for each, and dropped only where it is too late for all of them.
        """
        counted = len(rows) if count is None else count
        if counted:
            self.dropped[reason] += counted
        if len(rows):
            self._dead_letters.drop(reason, self.node, rows if isinstance(rows, Sequence) else rows.tolist())

    def drop_silently(self, reason: SilentDrop, rows: IntArray | Sequence[int]) -> None:
        """Counts drops that Kafka Streams does not count, in a metric of their own; otherwise as :meth:`drop`.

        Args:
            reason: why.
            rows: the rows of the task's input that they come from.
        """
        if len(rows):
            self.silently_dropped[reason] += len(rows)
            self._dead_letters.drop(reason, self.node, rows if isinstance(rows, Sequence) else rows.tolist())

    def position(self, row: int) -> tuple[str, int, int]:
        """Returns topic, partition and offset of a row of the batch."""
        assert self._batch is not None
        return self._batch.position(row)

    def deserialization(self, error: Exception, row: int) -> None:
        """Asks the handler about a row whose key or value cannot be deserialized.

        Raises:
            SerializationError: the handler fails.
        """
        assert self._batch is not None
        context = self._context(row)
        record = ConsumerRecord(
            topic=context.topic or "",
            partition=context.partition,
            offset=context.offset,
            timestamp=context.timestamp,
            key=context.source_raw_key,
            value=context.source_raw_value,
            headers=context.headers,
        )
        response = self._ask(self._deserialization, context, record, error)
        self._dead_letters.add(row, response.dead_letter_queue_records)
        if response.result is not Result.RESUME:
            raise SerializationError(
                f"Task {self._task} cannot read the record at {self._text_of_position(row)}: {error}.",
                remedy="fix the record or the serde; or set deserialization.exception.handler to continue "
                "and errors.dead.letter.queue.topic.name to a topic",
            ) from error
        self.dropped[DropReason.DESERIALIZATION] += 1

    def processing(self, error: Exception, row: int | None, node: str, record: ProcessedRecord | None = None) -> None:
        """Asks the handler about an error that user code raised while it processed a row.

        An error that neither this code nor its record has caused (damaged state, above all) is raised: no handler is
        asked, and no record is skipped.

        Args:
            error: what it raised.
            row: the input row; ``None`` where no record was being processed (punctuation).
            node: the node.
            record: the node's input record.

        Raises:
            ProcessingError: the handler fails.
            StateError: user code met state that cannot be read; or another error that it is not to blame for.
        """
        _pass_on(error)
        response = self._ask(self._processing, self._context(row, node), record, error)
        self._dead_letters.add(row, response.dead_letter_queue_records)
        if response.result is not Result.RESUME:
            raise ProcessingError(
                f"Task {self._task}, node {node}, failed at the record at {self._text_of_position(row)}: "
                f"{type(error).__name__}: {error}.",
                remedy="fix the function; or set processing.exception.handler to continue and "
                "errors.dead.letter.queue.topic.name to a topic",
            ) from error
        self.dropped[DropReason.PROCESSING] += 1

    def serialization(
        self, error: SerializationError, row: int, record: ProducerRecord, origin: SerializationExceptionOrigin
    ) -> None:
        """Asks the handler about a record that cannot be serialized for its topic.

        Args:
            error: why; raised unless the handler resumes.
            row: the input row it comes from.
            record: the record, its key and value as they are.
            origin: which of them cannot.

        Raises:
            SerializationError: the handler fails, or asks for another attempt, which would give the same.
        """
        handle = self._production.handle_serialization_error
        response = Response.fail()
        if handle is not None:
            answer = Handler(
                self._production.name, lambda context, record, error: handle(context, record, error, origin)
            )
            response = self._ask(answer, self._context(row), record, error)
        self._dead_letters.add(row, response.dead_letter_queue_records)
        if response.result is not Result.RESUME:
            self._warn_of_retry(response, error)
            raise error
        self.dropped[DropReason.PRODUCTION] += 1

    def refused(self, error: RecordRefusedError, row: int | None, record: ProducerRecord) -> None:
        """Asks the handler about a record that its topic does not accept.

        Args:
            error: why; raised unless the handler resumes.
            row: the input row it comes from; ``None`` for records of a changelog.
            record: the record.

        Raises:
            RecordRefusedError: the handler fails, or asks for another attempt, which would give the same.
        """
        response = self._ask(self._production, self._context(row), record, error)
        self._dead_letters.add(row, response.dead_letter_queue_records)
        if response.result is not Result.RESUME:
            self._warn_of_retry(response, error)
            origin = "it is of a store" if row is None else f"it comes from {self._text_of_position(row)}"
            raise type(error)(
                f"Task {self._task}, {self.node or 'changelogs'}: {error.message.removesuffix('.')}; {origin}.",
                remedy=f"{error.remedy}; or set production.exception.handler to continue and "
                "errors.dead.letter.queue.topic.name to a topic",
            ) from error
        self.dropped[DropReason.PRODUCTION] += 1

    def unknown_topic(self, error: UnknownTopicError, row: int, record: ProducerRecord) -> None:
        """Asks the handler about a record for a topic that does not exist; once it is created, a retry may succeed.

        Args:
            error: why; raised unless the handler resumes or retries.
            row: the input row it comes from.
            record: the record.

        Raises:
            UnknownTopicError: the handler fails.
            TransactionAbortedError: the handler asks for another attempt.
        """
        response = self._ask(self._production, self._context(row), record, error)
        self._dead_letters.add(row, response.dead_letter_queue_records)
        if response.result is Result.RETRY:
            raise TransactionAbortedError(
                f"Task {self._task} gives the batch up: {error.message}",
                remedy="the same input is processed again; " + error.remedy,
            ) from error
        if response.result is not Result.RESUME:
            raise error
        self.dropped[DropReason.PRODUCTION] += 1

    def timestamp_extraction(self, error: Exception, position: tuple[str, int, int], node: str) -> NoReturn:
        """Raises the error of a timestamp extractor; as in Kafka Streams no handler is asked.

        Args:
            error: what it raised.
            position: topic, partition and offset of the record.
            node: the source node.

        Raises:
            ProcessingError: always, but for an error that the extractor is not to blame for, which passes.
        """
        _pass_on(error)
        remedy = error.remedy if isinstance(error, MillraceError) else ""
        reason = error.message if isinstance(error, MillraceError) else f"{type(error).__name__}: {error}"
        raise ProcessingError(
            f"Task {self._task}, source {node}: the timestamp extractor failed at the record at {_at(*position)}: "
            f"{reason}.",
            remedy=remedy or "fix the extractor; a negative result drops the record",
        ) from error

    def _ask(self, handler: Handler, context: ErrorHandlerContext, record: object, error: Exception) -> Response:
        try:
            response = handler.handle_error(context, record, error)
        except Exception as failure:
            _pass_on(failure)
            raise ProcessingError(
                f"Task {self._task}, node {context.processor_node_id}: the exception handler {handler.name} failed at "
                f"{type(error).__name__}: {error}: {type(failure).__name__}: {failure}.",
                remedy="fix the handler",
            ) from failure
        if not isinstance(response, Response):
            raise ProcessingError(
                f"The exception handler {handler.name} returned {response!r} at {type(error).__name__}: {error}.",
                remedy="return Response.resume(), Response.fail() or, for production, Response.retry()",
            ) from error
        return response

    def positions(self, records: Records) -> list[RecordPosition]:
        """Returns the positions of records: of rows of the batch or, for buffered records, of earlier ones."""
        assert self._batch is not None
        batch, rows = self._batch, records.origin
        topics = [batch.topics[topic] for topic in batch.topic[rows].tolist()]
        found = zip(topics, batch.partition[rows].tolist(), batch.offset[rows].tolist(), strict=True)
        if records.positions is None:
            return list(found)
        return [
            position if own is None else own for own, position in zip(records.positions.tolist(), found, strict=True)
        ]

    def _warn_of_retry(self, response: Response, error: Exception) -> None:
        if response.result is Result.RETRY:
            _log.warning("RETRY counts as FAIL: another attempt would fail as well", task=self._task, error=str(error))

    def _context(self, row: int | None, node: str | None = None) -> ErrorHandlerContext:
        input_row = None if row == NO_ROW else row
        return context_of(self._batch, input_row, self.node if node is None else node, self._task)

    def _text_of_position(self, row: int | None) -> str:
        assert self._batch is not None
        return "no input (punctuation)" if row in (None, NO_ROW) else _at(*self._batch.position(row))


def _pass_on(error: Exception) -> None:
    """Raises an error in user code that neither this code nor its record has caused."""
    own = error_not_of_user_code(error)
    if own is not None:
        raise own


def processed_record(records: Records, row: int) -> ProcessedRecord:
    """Returns a row as the node received it, for the node's handler."""
    headers = None if records.headers is None else records.headers[row]
    return ProcessedRecord(
        key=records.keys.objects[row],
        value=records.values.own_objects[row],
        timestamp=int(records.timestamps[row]),
        headers=list(headers or ()),
    )


def _at(topic: str, partition: int, offset: int) -> str:
    return f"{topic}-{partition} offset {offset}"
