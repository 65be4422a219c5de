"""Exception handlers: what follows a record that cannot be read, processed or written.

A handler answers each error with a :class:`Response`: go on without the record, fail, or (production only) try the
batch again; with it may come dead-letter records. The built-in handlers are named in the configuration: ``continue``
and ``fail``, or by the names of their classes in Kafka Streams. One of your own is named as ``package.module:name`` and
is

- a function ``(context, record, error) -> Response`` (for production it is asked about both kinds of errors), or
- a class whose objects have ``handle_error(context, record, error)``; a production handler may also have
  ``handle_serialization_error(context, record, error, origin)``, and any of them ``configure(settings)``, which is
  called once with the application's dotted settings.

Dead-letter records travel in the transaction of the batch: they are visible exactly when the batch is, and a batch that
fails leaves none. Source: KIP-161, KIP-210, KIP-399, KIP-1033, KIP-1034, KIP-1065.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from millrace import dead_letter_headers
from millrace.callables import refuse_async
from millrace.errors import ConfigurationError, SerializationError

Headers = list[tuple[str, bytes | None]]

_KAFKA_PACKAGE = "org.apache.kafka.streams.errors."
_CONTINUES = frozenset({"continue", "LogAndContinueExceptionHandler", "LogAndContinueProcessingExceptionHandler"})
_FAILS = frozenset({
    "fail",
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "DefaultProductionExceptionHandler",
})  # fmt: skip
_OWN = re.compile(r"[\w.]+:\w+")
_REMEDY = (
    "name `continue`, `fail`, or package.module:name of a function (context, record, error) or of a class with "
    "handle_error"
)


class Result(StrEnum):
    """The result of a handler: what follows the error."""

    RESUME = "resume"
    """The record is dropped and counted; the other records of the batch are processed."""
    FAIL = "fail"
    """The application stops; nothing of the batch is committed, dead-letter records neither."""
    RETRY = "retry"
    """The transaction is aborted and the same input is processed again (production handlers, for errors that may go
    away; otherwise it counts as FAIL, as in Kafka Streams)."""


class SerializationExceptionOrigin(StrEnum):
    """The part of a record that could not be serialized."""

    KEY = "key"
    VALUE = "value"


@dataclass(frozen=True, kw_only=True)
class ConsumerRecord:
    """A record of an input topic. ``timestamp`` is in milliseconds.

    Handlers get key and value as bytes, timestamp extractors as their serdes read them.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers


@dataclass(frozen=True, kw_only=True)
class ProcessedRecord:
    """The record that a node was given when its function raised. ``timestamp`` is its event time, milliseconds."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers


@dataclass(frozen=True, kw_only=True)
class ProducerRecord:
    """A record to be written.

    Args:
        topic: the broker's name of the topic.
        key: key bytes; for an error of serialization the key itself. The same for ``value``.
        timestamp: milliseconds.
        headers: pairs of name and bytes.
        partition: ``None`` takes the murmur2 hash of the key, any partition where there is none.
    """

    topic: str
    key: Any
    value: Any
    timestamp: int
    headers: Headers
    partition: int | None = None


@dataclass(frozen=True, kw_only=True)
class ErrorHandlerContext:
    """The context of an error. Source: ``org.apache.kafka.streams.errors.ErrorHandlerContext`` (KIP-1033, KIP-1034).

    Args:
        topic: topic of the input record being processed; ``None`` where there is none (changelogs, punctuation).
        partition: its partition, otherwise -1.
        offset: its offset, otherwise -1.
        headers: its headers.
        processor_node_id: name of the node.
        task_id: the task, for example ``0_3``.
        timestamp: the input record's timestamp, milliseconds, otherwise -1.
        source_raw_key: the input record's key as it was read; the same for ``source_raw_value``.
    """

    topic: str | None
    partition: int
    offset: int
    headers: Headers
    processor_node_id: str
    task_id: str
    timestamp: int
    source_raw_key: bytes | None
    source_raw_value: bytes | None


@dataclass(frozen=True)
class Response:
    """A handler's answer; made with :meth:`resume`, :meth:`fail` or :meth:`retry`."""

    result: Result
    dead_letter_queue_records: tuple[ProducerRecord, ...] = ()

    @classmethod
    def resume(cls, dead_letter_queue_records: Sequence[ProducerRecord] = ()) -> Response:
        """Continues without the record, and writes these dead-letter records to the topics that they name."""
        return cls(Result.RESUME, tuple(dead_letter_queue_records))

    @classmethod
    def fail(cls, dead_letter_queue_records: Sequence[ProducerRecord] = ()) -> Response:
        """Stops the task.

        The dead-letter records are written into the transaction, which is then aborted: no consumer will see them.
        """
        return cls(Result.FAIL, tuple(dead_letter_queue_records))

    @classmethod
    def retry(cls) -> Response:
        """Process the batch again."""
        return cls(Result.RETRY)


HandleError = Callable[[ErrorHandlerContext, Any, Exception], Response]
HandleSerializationError = Callable[
    [ErrorHandlerContext, ProducerRecord, Exception, SerializationExceptionOrigin], Response
]


def dead_letters_for(topic: str | None, context: ErrorHandlerContext, error: Exception) -> tuple[ProducerRecord, ...]:
    """Returns the dead-letter record that the built-in handlers write (KIP-1034).

    It has the input record's bytes, timestamp and headers, and headers that say what happened to it.

    Args:
        topic: the dead-letter topic; ``None`` gives no dead-letter record.
        context: where the error came up.
        error: what was raised; for an error of a serde its cause, where it has one.
    """
    if topic is None:
        return ()
    cause = error.__cause__ if isinstance(error, SerializationError) and error.__cause__ is not None else error
    return (
        dead_letter(
            topic,
            context,
            (dead_letter_headers.EXCEPTION, f"{type(cause).__module__}.{type(cause).__qualname__}".encode()),
            (dead_letter_headers.MESSAGE, str(cause).encode()),
            (dead_letter_headers.STACKTRACE, "".join(traceback.format_exception(cause)).encode()),
        ),
    )


def dead_letter(topic: str, context: ErrorHandlerContext, *headers: tuple[str, bytes | None]) -> ProducerRecord:
    """Returns a dead-letter record: the input record's bytes, timestamp, headers and position, and further headers."""
    return ProducerRecord(
        topic=topic,
        key=context.source_raw_key,
        value=context.source_raw_value,
        timestamp=context.timestamp,
        headers=[
            *context.headers,
            *headers,
            (dead_letter_headers.TOPIC, str(context.topic).encode()),
            (dead_letter_headers.PARTITION, str(context.partition).encode()),
            (dead_letter_headers.OFFSET, str(context.offset).encode()),
        ],
    )


@dataclass(frozen=True)
class Handler:
    """A loaded handler.

    Args:
        name: how the configuration names it.
        handle_error: its answer to an error.
        handle_serialization_error: its answer where a record to be written cannot be serialized; ``None`` where it has
            none of its own: then the application fails, as in Kafka Streams.
    """

    name: str
    handle_error: HandleError
    handle_serialization_error: HandleSerializationError | None = None


def check_handler_name(name: Any) -> None:
    """Refuses what :func:`load_handler` would not know. Imports nothing.

    Raises:
        ConfigurationError: it is no text, no known name, and not of the form ``package.module:name``.
    """
    if not isinstance(name, str):
        shown = f"the class {name.__name__}" if isinstance(name, type) else f"{name!r} ({type(name).__name__})"
        raise ConfigurationError(
            f"A handler is named by a text, since each worker makes its own, and this is {shown}.", remedy=_REMEDY
        )
    short = name.removeprefix(_KAFKA_PACKAGE)
    if short in _CONTINUES or short in _FAILS or _OWN.fullmatch(name):
        return
    resumes = re.search("continue|resume|skip", name, re.IGNORECASE)
    meant = "continue" if resumes else "fail" if re.search("fail", name, re.IGNORECASE) else None
    raise ConfigurationError(
        f"There is no exception handler {name!r}.", remedy=f"write {meant}, or {_REMEDY}" if meant else _REMEDY
    )


def load_handler(name: str, *, dead_letter_topic: str | None, settings: Mapping[str, Any]) -> Handler:
    """Returns the handler that a setting names.

    Args:
        name: ``continue``, ``fail``, a class of Kafka Streams, or ``package.module:name``.
        dead_letter_topic: where the built-in handlers write; ``None`` writes nothing.
        settings: the application's dotted settings, for ``configure``.

    Raises:
        ConfigurationError: it cannot be imported, made or called.
    """
    short = name.removeprefix(_KAFKA_PACKAGE)
    if short in _CONTINUES or short in _FAILS:
        answer = Response.resume if short in _CONTINUES else Response.fail

        def handle(context: ErrorHandlerContext, _record: Any, error: Exception) -> Response:
            return answer(dead_letters_for(dead_letter_topic, context, error))

        return Handler(name, handle, lambda context, record, error, _: handle(context, record, error))
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
        handler: Any = found() if isinstance(found, type) else found
        if hasattr(handler, "configure"):
            handler.configure(dict(settings))
    except Exception as error:
        raise _no_handler(name, f"{type(error).__name__}: {error}") from error
    for method in ("handle_error", "handle_serialization_error"):
        if hasattr(handler, method):
            refuse_async(getattr(handler, method), what=f"{method}() of {name}", error=ConfigurationError)
    if hasattr(handler, "handle_error"):
        return Handler(name, handler.handle_error, getattr(handler, "handle_serialization_error", None))
    if not callable(handler):
        raise _no_handler(name, f"{handler!r} cannot be called and has no handle_error")
    refuse_async(handler, what="exception handler", error=ConfigurationError)
    function = cast(HandleError, handler)
    return Handler(name, function, lambda context, record, error, _: function(context, record, error))


def _no_handler(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"There is no exception handler {name!r}: {reason}.",
        remedy=_REMEDY,
    )
