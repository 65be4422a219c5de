"""Small files that several processes read and write: atomic JSON, and a journal."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from millrace.errors import OperationError
from millrace.files import write_atomically
from millrace.install.home import ApplicationDirectory


def write_json(path: Path, value: Any) -> None:
    """Writes ``value`` as JSON, as a whole; numbers that JSON does not know become null."""
    write_atomically(path, orjson.dumps(strict_json(value), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read_json(path: Path) -> dict[str, Any] | None:
    """Returns the JSON object in ``path``, or none if there is no such file.

    Raises:
        OperationError: the file is there, and cannot be read or is no JSON object.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(value, dict):
        raise _unreadable(path, f"it holds a {type(value).__name__}, not an object")
    return value


def _unreadable(path: Path, why: str) -> OperationError:
    return OperationError(
        f"{path} cannot be read: {why}.",
        remedy="look whether the job runs (`millrace status`), stop it, remove the file and deploy again",
    )


def strict_json(value: Any) -> Any:
    """Returns ``value`` with null for NaN and infinities, and text keys, so that every JSON parser takes it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [strict_json(item) for item in value]
    return value


def append_journal(directory: ApplicationDirectory, operation: str, what: str, **details: Any) -> None:
    """Adds one line to the application's journal.

    Args:
        directory: the application's directory.
        operation: the operation that did it: ``deploy``, ``stop``, ``reconcile``.
        what: what it did, as a word or two.
        details: anything that helps to understand it later; JSON-compatible.
    """
    line = {"at": now_text(), "operation": operation, "what": what, "by": os.getpid(), **strict_json(details)}
    directory.path.mkdir(parents=True, exist_ok=True)
    append_line(directory.journal, line)


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Adds a line of JSON to a file, whose directory exists; lines of several processes do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, orjson.dumps(value) + b"\n")
    finally:
        os.close(descriptor)


def read_journal(directory: ApplicationDirectory) -> list[dict[str, Any]]:
    """Returns all lines of the journal, oldest first; a line that was cut by a crash is left out."""
    try:
        lines = directory.journal.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    entries = []
    for line in lines:
        try:
            entries.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            # Only the last line of a process that was killed while it wrote can be cut.
            continue
    return entries


def now_text() -> str:
    """Returns the present moment in UTC, ISO 8601 with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
