"""A dead-letter record as it was read, and the record in it as it was before it failed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millrace.dead_letter_headers import (
    DROPPED_NODE,
    DROPPED_REASON,
    EXCEPTION,
    MESSAGE,
    OFFSET,
    PARTITION,
    STACKTRACE,
    TIMESTAMP,
    TOPIC,
)

Headers = list[tuple[str, bytes | None]]

_SOURCE_HEADERS = frozenset({TOPIC, PARTITION, OFFSET, TIMESTAMP})
_ERRORS = (frozenset({EXCEPTION, MESSAGE, STACKTRACE}), frozenset({DROPPED_REASON, DROPPED_NODE}))
_NO_TOPIC = "None"


@dataclass(frozen=True, kw_only=True)
class DeadLetterRecord:
    """A dead-letter record.

    Args:
        partition: where it lies in the dead-letter topic.
        offset: where it lies there.
        key: of the record that failed; the same for ``value``, ``headers`` and ``timestamp`` (milliseconds).
        value: see ``key``.
        headers: see ``key``; what the dead-letter record says about the error is not among them.
        timestamp: see ``key``.
        has_own_timestamp: whether the timestamp is the record's, not the broker's of the dead-letter record.
        topic: where the record was read; ``None`` where the dead-letter record does not say.
        source_partition: partition of that.
        source_offset: offset of that.
        error: class of the exception, or the reason for which an operator dropped the record; empty where it says none.
        message: the exception's text, or the node that dropped the record.
        stacktrace: of the exception.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    has_own_timestamp: bool = True
    topic: str | None = None
    source_partition: int = -1
    source_offset: int = -1
    error: str = ""
    message: str = ""
    stacktrace: str = ""

    @property
    def position(self) -> tuple[int, int]:
        """Partition and offset in the dead-letter topic."""
        return self.partition, self.offset

    @property
    def name(self) -> str:
        """The name of a dead-letter record: ``partition:offset``."""
        return f"{self.partition}:{self.offset}"


def dead_letter_record_of(
    *,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    timestamp: int,
    has_own_timestamp: bool = True,
) -> DeadLetterRecord:
    """Returns the dead-letter record in a record of a dead-letter topic, whoever wrote it.

    What the built-in handlers add stands behind the headers of the record (:func:`millrace.handlers.dead_letter`),
    which may have such headers of its own where it was read from a dead-letter topic.
    """
    own = list(headers)
    source = _take(own, _SOURCE_HEADERS)
    error = next((taken for names in _ERRORS if (taken := _take(own, names))), {})
    topic = _text(source.get(TOPIC))
    return DeadLetterRecord(
        partition=partition,
        offset=offset,
        key=key,
        value=value,
        headers=own,
        timestamp=_number(source[TIMESTAMP]) if TIMESTAMP in source else timestamp,
        has_own_timestamp=has_own_timestamp or TIMESTAMP in source,
        topic=None if topic in {"", _NO_TOPIC} else topic,
        source_partition=_number(source.get(PARTITION)),
        source_offset=_number(source.get(OFFSET)),
        error=_text(error.get(EXCEPTION) or error.get(DROPPED_REASON)),
        message=_text(error.get(MESSAGE) or error.get(DROPPED_NODE)),
        stacktrace=_text(error.get(STACKTRACE)),
    )


def _take(headers: Headers, names: frozenset[str]) -> dict[str, bytes | None]:
    """Takes the last headers, as far as they have these names, each once."""
    taken: dict[str, bytes | None] = {}
    while headers and headers[-1][0] in names - set(taken):
        name, value = headers.pop()
        taken[name] = value
    return taken


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _number(value: bytes | None) -> int:
    text = _text(value)
    return int(text) if text.removeprefix("-").isdigit() else -1
