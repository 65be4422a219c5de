"""The lock of an application: of several operations on it, one at a time changes something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from millrace.errors import OperationError
from millrace.files import lock_file, unlock_file
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
    descriptor = _locked(directory, timeout_s)
    try:
        yield
    finally:
        unlock_file(descriptor)


def _locked(directory: ApplicationDirectory, timeout_s: float) -> int:
    attempts = Retrying(
        retry=retry_if_result(lambda found: found is None),
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(_LOCK_POLL_S),
    )
    try:
        descriptor = attempts(lock_file, directory.operation_lock)
    except RetryError:
        raise OperationError(
            f"Another operation on {directory.application} has held its lock for {timeout_s:.0f} s.",
            remedy=f"see the end of {directory.journal} for what it does, and try again when it has ended",
        ) from None
    assert descriptor is not None
    return descriptor
