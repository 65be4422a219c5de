"""Named points at which a test can kill the process as a power cut would: without exception or clean-up.

A point is armed by a file of its name in the directory that ``MILLRACE_CRASH_POINTS`` names, which must appear whole
(by a rename). The process that reaches it removes the file and kills itself, so that each arming kills once; a file
that holds the name of another signal sends that one: ``SIGSTOP`` makes a process that hangs right there. Without the
variable a point costs one look-up.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from pathlib import Path

DIRECTORY_VARIABLE = "MILLRACE_CRASH_POINTS"


class CrashPoint(StrEnum):
    """The crash points, in the order of the protocol; those of drivers and stream threads begin with these words."""

    TASK_OPENED = "task-opened"
    BEFORE_PROCESSING = "before-processing"
    BEFORE_TRANSACTION = "before-transaction"
    INSIDE_TRANSACTION = "inside-transaction"
    RECORDS_SENT = "records-sent"
    OFFSETS_SENT = "offsets-sent"
    AFTER_COMMIT = "after-commit"
    AFTER_STORE_WRITE = "after-store-write"
    DRIVER_BEFORE_BATCH = "driver-before-batch"
    DRIVER_AFTER_BATCH = "driver-after-batch"
    THREAD_ASSIGNED = "thread-assigned"
    THREAD_RELEASES = "thread-releases"
    THREAD_COMMANDED = "thread-commanded"
    THREAD_REPORTS = "thread-reports"


def crash_here(point: CrashPoint | str) -> None:
    """Kills the process if the point is armed; operations have ``<operation>-<step>-begins`` and ``-ends``."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        return
    armed = Path(directory) / point
    try:
        name = armed.read_text().strip()
        armed.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.Signals[name] if name else signal.SIGKILL)
