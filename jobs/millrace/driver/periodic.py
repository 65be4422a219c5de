"""A thread that repeats an action until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Periodic:
    """A daemon thread that calls ``action`` every ``interval_s`` seconds, first after one interval.

    Args:
        name: the thread's name.
        interval_s: wait between the end of one call and the start of the next, seconds; a function is asked each time.
        action: what to do.
        on_failure: gets what ``action`` raised; the thread goes on.
    """

    def __init__(
        self,
        name: str,
        interval_s: float | Callable[[], float],
        action: Callable[[], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._interval_s = interval_s
        self._action = action
        self._on_failure = on_failure
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Ends the thread; returns whether it ended within ``timeout_s`` seconds. Idempotent."""
        self._stopped.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s() if callable(self._interval_s) else self._interval_s):
            try:
                self._action()
            except Exception as error:
                self._on_failure(error)
