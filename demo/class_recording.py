"""The record of Spark's classes, made in the background: later starts are sooner with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LOWEST_PRIORITY = 19
_END_LIMIT_S = 120.0


@contextmanager
def recording_classes() -> Iterator[None]:
    """Runs ``millrace prepare`` meanwhile, behind everything else; ends it if it takes longer than the body.

    It leaves the whole record or nothing, so that the next demo tries again. Interrupted, it ends its broker itself.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "millrace", "prepare"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.nice(_LOWEST_PRIORITY),  # noqa: PLW1509 - no other thread holds what it calls
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(_END_LIMIT_S)
