"""The lock of an application: of several operations on it, one at a time changes something."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from millrace.errors import OperationError
from millrace.install.home import ApplicationDirectory

_LOCK_POLL_S = 0.1


@contextmanager
def application_lock(directory: ApplicationDirectory, *, timeout_s: float = 120.0) -> Iterator[None]:
    """Holds the application's lock: of several operations on it, one at a time changes something.

    The kernel gives the lock back when its holder dies, so a crash leaves nothing behind.

    Args:
        directory: the application's directory.
        timeout_s: how long to wait for another operation to end, seconds.

    Raises:
        OperationError: another operation holds it for longer.
    """
    directory.path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory.operation_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _lock(descriptor, directory, timeout_s)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: ApplicationDirectory, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise OperationError(
                    f"Another operation on {directory.application} has held its lock for {timeout_s:.0f} s.",
                    remedy=f"see the end of {directory.journal} for what it does, and try again when it has ended",
                ) from error
            time.sleep(_LOCK_POLL_S)
        else:
            return
