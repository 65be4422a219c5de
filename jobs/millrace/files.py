"""What is done to files that several processes read and write: replacing one as a whole, and locking one."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

_LOCK_POLL_S = 0.05


def write_atomically(
    path: Path, content: bytes, *, mode: int | None = None, waits_for_disk: bool = True, makes_directory: bool = True
) -> None:
    """Replace a file as a whole: whoever reads it finds the old or the new content, never a part.

    Args:
        path: the file.
        content: the new content.
        mode: permissions of the file; ``None`` leaves them to the process (``umask``).
        waits_for_disk: whether that also holds after a power loss, which costs a write to the disk.
        makes_directory: whether a missing directory is made.

    Raises:
        OSError: it cannot be written; the old content stays.
    """
    if makes_directory:
        path.parent.mkdir(parents=True, exist_ok=True)
    # One of its own for each write: several processes and threads may replace the file at once.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.{time.monotonic_ns()}")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else mode
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if waits_for_disk:
                file.flush()
                os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def lock_file(path: Path, *, timeout_s: float | None = 0.0) -> int | None:
    """Lock a file for this process alone, by ``flock``.

    The kernel gives the lock back when the process dies, however it dies; the file itself may stay and means nothing.

    Args:
        path: the file; it and its directory are made if they are missing.
        timeout_s: how long to wait while another process has the lock, seconds; ``None`` for as long as it has.

    Returns:
        a descriptor, for :func:`unlock_file`; ``None`` where another process has the lock.
    """
    if timeout_s is None:
        return _lock_file(path, waits=True)
    attempts = Retrying(
        retry=retry_if_result(lambda found: found is None),
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(_LOCK_POLL_S),
        retry_error_callback=lambda _: None,
    )
    return attempts(_lock_file, path, waits=False)


def _lock_file(path: Path, *, waits: bool) -> int | None:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # a clean-up removed the file between our open and our lock: lock the new one
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def unlock_file(descriptor: int) -> None:
    """Give a lock back and close the file.

    Closing alone would leave the lock to a child that was forked and still has the file open.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
