"""Why a driver ended: what it wrote itself as it ended, or what its log says where it could not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from millrace.driver.ending import ExitCode, write_ending
from millrace.errors import MillraceError
from millrace.install.home import ApplicationDirectory

_READ_BYTES = 64 * 1024
_LOOKED_AT_LINES = 200
_ERROR_LEVELS = {"error", "critical", "exception", "fatal"}
_LAST_OF_TRACEBACK = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt)\b(?::|$)")


@contextmanager
def telling_why_it_ends(directory: ApplicationDirectory) -> Iterator[None]:
    """Write down the error with which what is inside fails, and raise it again.

    It is for what goes wrong before there is a driver, which writes down its own end.
    """
    try:
        yield
    except MillraceError as error:
        _write(directory, error.message, error.remedy)
        raise
    except Exception as error:
        _write(directory, f"{type(error).__name__}: {error}", f"see the traceback in {directory.log}")
        raise


def _write(directory: ApplicationDirectory, reason: str, remedy: str) -> None:
    write_ending(directory.ended, exit_code=ExitCode.FAILED, reason=reason, remedy=remedy)


def last_line(directory: ApplicationDirectory) -> str:
    """The line of the driver's log that says why it ended: its last error, or else its last line; empty without one."""
    lines = [line.strip() for line in _end_of(directory).splitlines() if line.strip()]
    told = [text for line in lines[-_LOOKED_AT_LINES:] if (text := _error(line))]
    return (told or [_shown(line) for line in lines[-1:]] or [""])[-1][:500]


def end_of_log(directory: ApplicationDirectory, *, lines: int = 5) -> str:
    """The last lines of the driver's log, for an error message."""
    text = _end_of(directory)
    return " | ".join(line.strip() for line in text.splitlines()[-lines:]) if text else "(no log)"


def _end_of(directory: ApplicationDirectory) -> str:
    try:
        with directory.log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _READ_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        # A driver that runs elsewhere has none here.
        return ""


def _error(line: str) -> str:
    if (entry := _entry(line)) is not None:
        return _of_entry(entry) if str(entry.get("level", "")).lower() in _ERROR_LEVELS else ""
    return line if line.startswith("error:") or _LAST_OF_TRACEBACK.match(line) else ""


def _shown(line: str) -> str:
    entry = _entry(line)
    return line if entry is None else _of_entry(entry)


def _entry(line: str) -> dict[str, object] | None:
    try:
        value = orjson.loads(line) if line.startswith("{") else None
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _of_entry(entry: dict[str, object]) -> str:
    parts = [str(entry[key]) for key in ("event", "reason", "problem", "error") if entry.get(key)]
    remedy = f" Remedy: {entry['remedy']}" if entry.get("remedy") else ""
    return ": ".join(parts) + remedy
