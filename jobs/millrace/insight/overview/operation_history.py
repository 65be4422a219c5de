"""What was done to an application: the ends of its journals, and its savepoints. Nothing here raises."""

from __future__ import annotations

import os
from typing import Any

import orjson
import structlog

from millrace.errors import MillraceError
from millrace.insight.overview.model import JournalEntry, OperationView, Savepoints, SavepointView
from millrace.install.application import Application
from millrace.install.home import ApplicationDirectory
from millrace.operations import OperationRecord, operations_of
from millrace.operations.savepoints import Manifest, list_savepoints

log = structlog.get_logger(__name__)

_READ_BYTES = 128 * 1024
_SHOWN_ENTRIES = 60
_SHOWN_OPERATIONS = 15
_LONGEST_DETAILS = 500


def journal_end(directory: ApplicationDirectory, *, limit: int = _SHOWN_ENTRIES) -> tuple[JournalEntry, ...]:
    """The last entries of an application's journal, the newest first; of a long journal only the end is read.

    Args:
        directory: the application's directory.
        limit: how many at most.
    """
    try:
        with directory.journal.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _READ_BYTES))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return ()
    if size > _READ_BYTES:
        lines = lines[1:]  # its beginning was not read
    entries = []
    for line in reversed(lines):
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            # Empty, or cut by a crash.
            continue
        entries.append(_entry(entry))
        if len(entries) == limit:
            break
    return tuple(entries)


def _entry(line: dict[str, Any]) -> JournalEntry:
    rest = {key: value for key, value in line.items() if key not in {"at", "operation", "what", "by"}}
    details = ", ".join(
        f"{key.replace('_', ' ')}: {_words(value)}" for key, value in rest.items() if value not in ("", None)
    )
    return JournalEntry(
        at=str(line.get("at", "")),
        operation=str(line.get("operation", "")),
        what=str(line.get("what", "")),
        details=details[:_LONGEST_DETAILS],
    )


def _words(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def last_operations(
    directory: ApplicationDirectory, *, limit: int = _SHOWN_OPERATIONS
) -> tuple[tuple[OperationView, ...], str]:
    """The last multi-step operations, the newest first, and why they could not be read.

    Args:
        directory: the application's directory.
        limit: how many at most.
    """
    try:
        return tuple(_operation(each) for each in reversed(operations_of(directory, last=limit))), ""
    except MillraceError as error:
        return (), str(error)


def _operation(record: OperationRecord) -> OperationView:
    return OperationView(
        id=record.id,
        kind=record.plan.operation,
        state=record.state.value,
        begun_at=record.begun_at,
        ended_at=record.ended_at,
        step=record.step,
        reason=record.plan.reason,
        error=record.error,
    )


def savepoints_of(application: Application) -> Savepoints:
    """The savepoints of an application; where they lie far away, this takes as long as that place does."""
    try:
        manifests = list_savepoints(application)
    except MillraceError as error:
        return Savepoints(problem=str(error))
    except Exception as error:
        # Places of savepoints are of many kinds, each with errors of its own.
        log.exception("savepoints could not be listed", application=application.name)
        return Savepoints(problem=f"{type(error).__name__}: {error}")
    newest_first = sorted(manifests, key=lambda manifest: -manifest.created_at)
    return Savepoints(known=True, all=tuple(_savepoint(each) for each in newest_first))


def _savepoint(manifest: Manifest) -> SavepointView:
    return SavepointView(
        name=manifest.name,
        state=manifest.state.value,
        created_at=manifest.created_at,
        size=manifest.size,
        reason=manifest.reason,
    )
