"""The lock of a sub-topology that stream threads execute: while it is held, all its tasks are paused after a commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class PauseLock:
    """A reentrant lock whose tasks are paused while it is held.

    Args:
        pause: makes the tasks pause after their next commits; returns once they have, or, after the given seconds,
            whether they have.
        resume: makes them resume.
    """

    def __init__(self, pause: Callable[[float], bool], resume: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._pause = pause
        self._resume = resume
        self._depth = 0
        self._pauses = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquires the lock.

        Args:
            blocking: whether to wait for who has it, and for the tasks. One that does not wait cannot have them paused:
                it only keeps others from doing so.
            timeout: longest wait, seconds; negative for any.

        Returns:
            Whether it is held now.
        """
        deadline = None if timeout < 0 else time.monotonic() + timeout
        if not self._lock.acquire(blocking, timeout if blocking else -1):
            return False
        self._depth += 1
        if not blocking or self._pauses:
            return True
        left_s = float("inf") if deadline is None else max(0.0, deadline - time.monotonic())
        self._pauses = True
        if self._pause(left_s):
            return True
        self.release()
        return False

    def release(self) -> None:
        """Releases the lock, and resumes the tasks."""
        self._depth -= 1
        if not self._depth and self._pauses:
            self._pauses = False
            self._resume()
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
