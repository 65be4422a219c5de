"""One epoch of stream threads: how long the coordinator waits for its threads before it assigns tasks."""

from __future__ import annotations

import structlog

_log = structlog.get_logger(__name__)


class Epoch:
    """The Spark tasks that were launched together as stream threads.

    Tasks without a thread wait for a while when a thread has just come, or gone: the next one may have their state, and
    Spark starts one that failed again within a second or two.

    Args:
        number: of the epoch; they grow, over restarts of the query too.
        slots: how many threads there are to be.
        awaited: how many of them are waited for.
        wait_s: how long to wait, seconds.
    """

    def __init__(self, number: int, slots: int, *, awaited: int, wait_s: float) -> None:
        self.number = number
        self.slots = slots
        self.is_over = False
        self._awaited = awaited
        self._wait_s = wait_s
        self._waits_until: float | None = None
        self._was_short = False

    def joined(self, now: float) -> None:
        """Adds a thread; the first one waits for the others."""
        if self._waits_until is None:
            self._waits_until = now + self._wait_s

    def left(self, now: float, *, remaining: int) -> None:
        """Removes a thread, and begins to wait for its replacement unless a wait is in progress."""
        if not remaining:
            self._waits_until = None
        elif self._waits_until is not None and now >= self._waits_until:
            self._waits_until = now + self._wait_s

    def assigns_tasks(self, now: float, threads: int) -> bool:
        """Returns whether tasks without a thread should be assigned to the connected threads now."""
        if self.is_over or not threads or self._waits_until is None:
            return False
        if threads >= self._awaited:
            self._waits_until = min(self._waits_until, now)
        if now < self._waits_until:
            return False
        is_short = threads < self.slots
        if is_short and not self._was_short:
            _log.warning("fewer stream threads than there are to be", remedy=self.shortage(threads))
        self._was_short = is_short
        return True

    def shortage(self, threads: int) -> str:
        """Returns a message if fewer threads than wanted run; empty if all do."""
        if threads >= self.slots:
            return ""
        return (
            f"{threads} of {self.slots} stream threads have found a slot, and have all tasks: give Spark {self.slots} "
            "slots, or set num.stream.threads to what there is"
        )
