"""A standby copy, and the thread by which it follows its changelogs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from millrace.errors import MillraceError, StateDirectoryLockedError, StateError, StateWriteError
from millrace.state.standby_copy import CopiedTask, CopyStatus, StandbyCopy

_log = structlog.get_logger(__name__)


class StandbyFollower:
    """A thread that opens a copy and follows its changelogs, until it is stopped or fails.

    Args:
        task: what is copied.
        open_copy: opens the copy.
        once: end when it has what there was at the beginning.
    """

    def __init__(self, task: CopiedTask, open_copy: Callable[[CopiedTask], StandbyCopy], *, once: bool = False) -> None:
        self.task = task
        self._open = open_copy
        self._once = once
        self._stop = threading.Event()
        self._copy: StandbyCopy | None = None
        self.state = "opening"
        """opening, copying, stopped, done (with ``once``), owned (a task or another standby has it), failed."""
        self.problem = ""
        self.error: MillraceError | None = None
        self._thread = threading.Thread(target=self._run, name=f"standby-{task.name}", daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def seen(self) -> CopyStatus | None:
        """The status of the copy, also after its end; ``None`` before it is open."""
        return None if self._copy is None else self._copy.status()

    def ask_to_stop(self) -> None:
        """Makes the thread end after its present batch."""
        self._stop.set()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Commits the copy's position and releases the directory; returns whether it did so in time."""
        self._stop.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._open(self.task) as copy:
                self._copy = copy
                self.state = "copying"
                if self._once:
                    copy.reach_ends(copy.ends(), until=self._stop.is_set)
                    self.state = "done"
                    return
                while not self._stop.is_set():
                    self._follow(copy)
            self.state = "stopped"
        except StateDirectoryLockedError as error:
            self.state, self.problem = "owned", error.message
        except MillraceError as error:
            _log.warning("copy failed", task=self.task.name, problem=error.message, remedy=error.remedy)
            self.state, self.problem, self.error = "failed", error.message, error
        except Exception as error:
            # Any other end of the thread must show as well.
            _log.exception("copy failed", task=self.task.name)
            self.state, self.problem = "failed", f"{type(error).__name__}: {error}"
            self.error = StateError(f"The copy of task {self.task.name} failed: {self.problem}")

    @staticmethod
    def _follow(copy: StandbyCopy) -> None:
        try:
            copy.catch_up()
        except StateWriteError:
            raise
        except StateError as error:
            _log.warning("copy lost its place, beginning again", reason=error.message)
            copy.restart_copy()
