"""Calls of a client library that may never return, with a limit all the same."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable


class NeverReturnedError(Exception):
    """A call did not return in time; its thread is left behind with it."""


class TimedCalls:
    """Calls in a thread of their own, one at a time. Not safe for concurrent use.

    librdkafka may lose the answer to a transaction's request with the broker that was to give it (issue 5456), and its
    call then waits for ever, whatever limit it was given.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] | None = None

    def call(self, function: Callable[[], None], limit_s: float) -> None:
        """Calls a function; its error is raised here.

        Args:
            function: what is called.
            limit_s: longest wait for its end, seconds.

        Raises:
            NeverReturnedError: it did not end in time. The next call has a new thread.
        """
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            weakref.finalize(self, self._jobs.put, None)
            # One that hangs must not keep the process from ending.
            threading.Thread(target=_run, args=(self._jobs,), name=self._name, daemon=True).start()
        ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._jobs.put((function, ended))
        try:
            error = ended.get(timeout=limit_s)
        except queue.Empty:
            self.close()
            raise NeverReturnedError from None
        if error is not None:
            raise error

    def close(self) -> None:
        """Ends the thread, unless it hangs, as the last reference to this object does. Idempotent."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


_Job = tuple[Callable[[], None], "queue.SimpleQueue[BaseException | None]"]


def _run(jobs: queue.SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        function, ended = job
        error: BaseException | None = None
        try:
            function()
        except BaseException as caught:
            error = caught
        ended.put(error)
        # What was called holds the client, which would not be closed while this waits for the next job.
        del job, function, error
