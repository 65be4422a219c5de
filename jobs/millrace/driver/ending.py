"""``ended.json``: how a driver ended, for readers after its process is gone.

It says what the status topic cannot: a driver that a newer one replaced publishes nothing any more.
"""

from __future__ import annotations

import os
import time
from enum import IntEnum
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from millrace.files import write_atomically
from millrace.processes import ProcessIdentity

log = structlog.get_logger(__name__)

ENDED_FILE = "ended.json"
"""Its name, beside ``control.json``."""


class ExitCode(IntEnum):
    """The exit code of the driver's process."""

    STOPPED = 0
    FAILED = 1
    FENCED = 3  # 2 is the command line's own, for wrong usage


class Ending(BaseModel):
    """The end of a driver: when and why, with the exit code."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pid: int = Field(description="Its process.")
    start_time: int = Field(description="When the kernel started that process, as in ProcessIdentity.")
    session: int = Field(description="The session of that process: the launched process leads it.")
    exit_code: int = Field(description="0 stopped, 1 failed, 3 fenced by a newer driver.")
    reason: str = Field(description="Why it ended.")
    remedy: str = Field("", description="What the operator should do now.")
    at: float = Field(description="When it ended, seconds since the epoch.")

    @classmethod
    def of_this_process(cls, *, exit_code: int, reason: str, remedy: str) -> Ending:
        """Returns the end of the calling process, now."""
        process = ProcessIdentity.current()
        return cls(
            pid=process.pid,
            start_time=process.start_time,
            session=os.getsid(0),
            exit_code=exit_code,
            reason=reason,
            remedy=remedy,
            at=time.time(),
        )

    def is_of(self, process: ProcessIdentity) -> bool:
        """Returns whether it is the end of ``process`` itself, or of a child in its session."""
        if self.pid == process.pid:
            return self.start_time == process.start_time
        return self.session == process.pid and self.start_time >= process.start_time

    def write(self, path: Path) -> None:
        """Writes the file, replaced as a whole."""
        write_atomically(path, self.model_dump_json().encode(), mode=0o600)

    @classmethod
    def read(cls, path: Path) -> Ending | None:
        """Reads the file; returns ``None`` if there is none, or none that can be parsed."""
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValidationError, UnicodeDecodeError):
            return None


def write_ending(path: Path, *, exit_code: int, reason: str, remedy: str) -> None:
    """Writes how the calling process ends.

    A disk that refuses it is logged, as it must not keep a driver from ending.

    Args:
        path: the file.
        exit_code: see :class:`ExitCode`.
        reason: why it ends.
        remedy: what the operator should do now.
    """
    try:
        Ending.of_this_process(exit_code=exit_code, reason=reason, remedy=remedy).write(path)
    except OSError as error:
        log.warning("the end is not written down", path=str(path), problem=str(error))
