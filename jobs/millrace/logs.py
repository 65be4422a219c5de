"""The logging of a process: structlog, configured once, to standard error."""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum

FORMAT_VARIABLE = "MILLRACE_LOG_FORMAT"


class LogFormat(StrEnum):
    """The format of a line of the log."""

    JSON = "json"
    CONSOLE = "console"


def default_format() -> LogFormat:
    """Returns ``$MILLRACE_LOG_FORMAT`` where it is set; else for people on a terminal, and JSON lines elsewhere."""
    configured = os.environ.get(FORMAT_VARIABLE)
    if configured:
        return LogFormat(configured)
    return LogFormat.CONSOLE if sys.stderr.isatty() else LogFormat.JSON


def configure_logs(*, level: int = logging.INFO, log_format: LogFormat | None = None) -> None:
    """Sends the events of this process to standard error.

    Args:
        level: events below it are dropped before they cost anything.
        log_format: one JSON object a line, or text for people; none takes :func:`default_format`.
    """
    import structlog  # here, since it is slow to import and `millrace --help` needs only the formats' names

    chosen = log_format or default_format()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=chosen is LogFormat.JSON),
    ]
    if chosen is LogFormat.JSON:
        rendering: list[structlog.typing.Processor] = [
            # Without the variables of each frame: settings have secrets.
            structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
            structlog.processors.JSONRenderer(),
        ]
    else:
        rendering = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
