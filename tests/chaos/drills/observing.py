"""Looks at an application while something is done to it: states, lag and counters."""

from __future__ import annotations

import threading
from types import TracebackType

import httpx

from millrace.errors import MillraceError
from tests.application import Application

COUNTERS = (
    "millrace_stream_task_failed_attempts_total",
    "millrace_stream_query_restarts_total",
    "millrace_stream_task_state_rebuilds_total",
    "millrace_stream_task_restore_records_total",
)
EPOCH = "millrace_stream_driver_epoch"
LAG = "millrace_consumer_records_lag"
THREADS = "millrace_stream_threads"

_EVERY_S = 0.1
_TOLD = 1_000
"""A lag of more records than this is what an alert would see; a batch's worth of them is always there."""


class Observer:
    """What is seen of an application until the block ends.

    Args:
        application: it; another one may take its place: :meth:`follow`.
    """

    def __init__(self, application: Application) -> None:
        self.states: list[str] = []
        self.lag = 0
        self._application = application
        self._before = self._counters()
        self._fewest_threads = self._before[THREADS]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def follow(self, application: Application) -> None:
        """Looks at another driver from now on."""
        self._application = application

    def metrics(self) -> dict[str, float]:
        """Differences of the counters, which begin again with a driver, missing threads, and the highest lag."""
        now = self._counters()
        moved = {}
        is_new_driver = now[EPOCH] != self._before[EPOCH]
        for name in COUNTERS:
            change = now[name] - (0 if is_new_driver else self._before[name])
            if change:
                moved[name] = change
        if is_new_driver:
            moved[EPOCH] = now[EPOCH] - self._before[EPOCH]
        if lost := self._fewest_threads - self._before[THREADS]:
            moved[THREADS] = lost
        if self.lag > _TOLD:
            moved[LAG] = self.lag
        return moved

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(15)
        self._look()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_S):
            self._look()

    def _look(self) -> None:
        try:
            status = self._application.status()
        except (MillraceError, httpx.HTTPError):
            return
        if status is None:
            return
        if self.states[-1:] != [str(status.state)]:
            self.states.append(str(status.state))
        self.lag = max(self.lag, status.total_lag or 0)
        self._fewest_threads = min(self._fewest_threads, len(status.stream_threads))

    def _counters(self) -> dict[str, float]:
        return {name: self._application.metric(name) for name in (*COUNTERS, EPOCH, THREADS)}
