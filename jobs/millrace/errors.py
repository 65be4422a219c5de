"""The exceptions of Millrace: one tree, each of which says what happened and what to do now."""

from __future__ import annotations


class MillraceError(Exception):
    """Base of every error that Millrace raises on purpose.

    Args:
        message: what happened, naming the task, store, topic and offset it happened at.
        remedy: what the operator should do now; shown on a line of its own.
    """

    named_call = ""
    """The call of the DSL that the message names; the outer calls that it came up through then leave it alone."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} Remedy: {self.remedy}" if self.remedy else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross process borders.
        return (_rebuild, (type(self), self.message, self.remedy))


def _rebuild(kind: type[MillraceError], message: str, remedy: str) -> MillraceError:
    return kind(message, remedy=remedy)


class ConfigurationError(MillraceError):
    """A setting is unknown, malformed or contradicts another one."""


class TopologyError(MillraceError):
    """The topology cannot be built, or does not fit the running one."""


class MissingMethodError(TopologyError, AttributeError):
    """An object of the DSL has no method of that name; the remedy names the one that was meant."""


class ArgumentError(TopologyError, TypeError):
    """A call of the DSL has arguments that the method does not take; the remedy shows the call or what to pass."""


class SerializationError(MillraceError):
    """Bytes could not be read, or a value could not be written, with the serde of its topic or store."""


class SchemaRegistryUnavailableError(MillraceError):
    """The schema registry does not answer. No record is to blame, so no handler skips it; the batch is tried again."""


class PreflightError(MillraceError):
    """Something outside the application is not as it needs it: broker, topics, settings, group members."""


class BrokerUnavailableError(PreflightError):
    """No broker answered at the bootstrap servers."""


class StateError(MillraceError):
    """A store, its changelog and the committed offsets do not agree, or the state directory is unusable."""


class StateWriteError(StateError):
    """The disk refused a write of the state; what was committed to Kafka is brought to the stores at the next start."""


class StateCorruptedError(StateError):
    """The files of a store are damaged or gone; a task empties its stores then and restores them from changelogs."""


class StateDirectoryLockedError(StateError):
    """Another live process holds the state directory of the task or the application."""


GROWN_INPUT_REMEDY = (
    "restore a savepoint to the new number of partitions, which takes every key to its task; or reset the application "
    "to the end of its inputs (--to-latest); or create the input again with all partitions, write its records again, "
    "and reset. A reset to an earlier offset is enough only where records are repartitioned before they meet a store: "
    "elsewhere the records from before lie where the old number of partitions had put their keys, and a key's results "
    "would be split over two tasks"
)
"""For an input that has got more partitions than the state of its tasks was made for."""


class TaskMigratedError(MillraceError):
    """A newer attempt at the same task fenced this one; the newer one goes on, this one does nothing more."""


class DriverFencedError(MillraceError):
    """A newer driver of the same application took over; this one launches nothing more."""


class TransactionAbortedError(MillraceError):
    """The batch's transaction was aborted; the same input is processed again."""


class OffsetsMovedError(MillraceError):
    """Committed offsets do not carry the application's own signature: another client moved them."""


class OffsetOutOfRangeError(MillraceError):
    """A committed offset is not in the log any more."""


class ProcessingError(MillraceError):
    """User code raised while a record was processed."""


class BufferFullError(MillraceError):
    """A strict suppression buffer holds more than it may."""


class RecordRefusedError(MillraceError):
    """A topic does not take a record: by its settings, or as the broker has said."""


class RecordTooLargeError(RecordRefusedError):
    """A record is larger than the topic takes."""


class InvalidTimestampError(RecordRefusedError):
    """A record's timestamp is further from the broker's clock than the topic takes."""


class TopicRefusedError(RecordRefusedError):
    """The application may not write to a topic."""


class UnknownTopicError(MillraceError):
    """A record is for a topic that does not exist."""


class QueryError(MillraceError):
    """A state store could not be queried."""


class OperationError(MillraceError):
    """An operation (deploy, stop, reconcile, ...) could not reach its goal."""


class OpenTransactionError(OperationError):
    """Committed offsets are not known, since a transaction that carries some has not ended in time."""


PASS_THROUGH_USER_CODE = (
    StateError,
    PreflightError,
    SchemaRegistryUnavailableError,
    TaskMigratedError,
    DriverFencedError,
    TransactionAbortedError,
    OffsetsMovedError,
    OffsetOutOfRangeError,
    OperationError,
)
"""Errors that user code may meet, in a store or a client, and that neither it nor its record is to blame for."""


def error_not_of_user_code(error: BaseException) -> MillraceError | None:
    """Returns the error of :data:`PASS_THROUGH_USER_CODE` that user code let through or raised something else about.

    Args:
        error: what user code raised.

    Returns:
        the error itself, or the first such among its causes; ``None`` where user code, or its record, is to blame.
    """
    remaining: list[BaseException | None] = [error]
    seen: set[int] = set()
    while remaining:
        one = remaining.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, PASS_THROUGH_USER_CODE):
            return one
        remaining += [*(one.exceptions if isinstance(one, BaseExceptionGroup) else ()), one.__cause__, one.__context__]
    return None
