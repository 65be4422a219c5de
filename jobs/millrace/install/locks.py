"""The lock of an application: of several operations on it, one at a time changes something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millrace.errors import OperationError
from millrace.files import lock_file, unlock_file
from millrace.install.home import ApplicationDirectory


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
    descriptor = lock_file(directory.operation_lock, timeout_s=timeout_s)
    if descriptor is None:
        raise OperationError(
            f"Another operation on {directory.application} has held its lock for {timeout_s:.0f} s.",
            remedy=f"see the end of {directory.journal} for what it does, and try again when it has ended",
        )
    try:
        yield
    finally:
        unlock_file(descriptor)
