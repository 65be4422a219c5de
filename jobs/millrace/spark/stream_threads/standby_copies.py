"""The standby copies that a stream thread keeps, each followed by a thread of its own beside the loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from millrace.errors import MillraceError
from millrace.spark.stream_threads.messages import Assignment, StandbyReport
from millrace.state.standby_copy import CopiedTask, StandbyCopy
from millrace.state.standby_follower import StandbyFollower

_RETRY_S = 2.0
_NOT_OPEN = "opening"

_log = structlog.get_logger(__name__)


class Standbys(Protocol):
    """The standby copies of a stream thread, as its loop uses them."""

    def keep(self, assignments: Sequence[Assignment]) -> None:
        """Keeps the assigned copies from now on, and no others. Returns at once."""

    def reports(self) -> tuple[StandbyReport, ...]:
        """Returns the status of each copy."""

    def close(self) -> None:
        """Releases all copies."""


class NoStandbys:
    """The standby copies of a thread that keeps none."""

    def keep(self, assignments: Sequence[Assignment]) -> None:
        """Does nothing."""

    def reports(self) -> tuple[StandbyReport, ...]:
        """Returns no reports."""
        return ()

    def close(self) -> None:
        """Does nothing."""


class StandbyCopies:
    """The standby copies of tasks that other hosts process.

    Args:
        describe: what is copied of a task, by its assignment; ``None`` where there is nothing to copy. Raises
            ``MillraceError`` where its plan is missing.
        open_copy: opens a copy.
        take_directory: makes the process of this host that holds a task's directory release it.
        clock: a monotonic clock, seconds.
    """

    def __init__(
        self,
        describe: Callable[[Assignment], CopiedTask | None],
        open_copy: Callable[[CopiedTask], StandbyCopy],
        take_directory: Callable[[Path], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._describe = describe
        self._open_copy = open_copy
        self._take_directory = take_directory
        self._clock = clock
        self._guard = threading.Lock()
        self._wanted: dict[str, Assignment] = {}
        self._followers: dict[str, StandbyFollower] = {}
        self._ending: list[StandbyFollower] = []
        self._released: set[str] = set()
        self._retry_at: dict[str, float] = {}
        self._problems: dict[str, str] = {}

    def keep(self, assignments: Sequence[Assignment]) -> None:
        """Keeps the assigned copies from now on, and no others. Returns at once."""
        wanted = {each.task: each for each in assignments}
        with self._guard:
            for name in [name for name, each in self._wanted.items() if wanted.get(name) != each]:
                self._released.discard(name)
                self._problems.pop(name, None)
                self._retry_at.pop(name, None)
                if (follower := self._followers.pop(name, None)) is not None:
                    follower.ask_to_stop()
                    self._ending.append(follower)
            self._wanted = wanted
            self._follow_up()

    def reports(self) -> tuple[StandbyReport, ...]:
        """Returns the status of each copy, and starts those again that have failed."""
        with self._guard:
            self._follow_up()
            return tuple(self._report(name) for name in sorted(self._wanted))

    def release(self, directory: Path) -> None:
        """Closes the copy in a directory, for the process that asks for it; returns once the directory is free.

        It is not opened again before the driver has said that the thread keeps it again.
        """
        with self._guard:
            found = [
                (name, each)
                for name, each in self._followers.items()
                if each.task.directory == directory and each.state != _NOT_OPEN
            ]
            for name, _ in found:
                self._released.add(name)
                del self._followers[name]
            ending = [*self._ending, *(each for _, each in found)]
        for each in ending:
            if each.task.directory == directory:
                each.stop()

    def close(self) -> None:
        """Stops all followers, which releases their copies."""
        with self._guard:
            self._wanted = {}
            followers = [*self._followers.values(), *self._ending]
            self._followers, self._ending = {}, []
        for each in followers:
            each.ask_to_stop()
        for each in followers:
            each.stop()

    def _follow_up(self) -> None:
        """Starts the wanted copies that no follower keeps, at most once in a retry interval."""
        self._ending = [each for each in self._ending if each.is_active]
        ending = {each.task.name for each in self._ending}
        now = self._clock()
        for name, assignment in self._wanted.items():
            follower = self._followers.get(name)
            if (follower is not None and follower.is_active) or name in self._released or name in ending:
                continue
            if now < self._retry_at.get(name, now):
                continue
            self._retry_at[name] = now + _RETRY_S
            try:
                task = self._describe(assignment)
            except MillraceError as error:
                self._problems[name] = error.message
                continue
            if task is not None:
                self._followers[name] = StandbyFollower(task, self._opened)

    def _opened(self, task: CopiedTask) -> StandbyCopy:
        # The task itself is on another host, so whoever has the directory here has no use for it.
        self._take_directory(task.directory)
        copy = self._open_copy(task)
        _log.info("standby copy begins", task=task.name, positions=dict(copy.status().positions))
        return copy

    def _report(self, name: str) -> StandbyReport:
        follower = self._followers.get(name)
        if follower is None:
            return StandbyReport(name, problem=self._problems.get(name, ""))
        seen = follower.seen
        if seen is None or not follower.is_active:
            return StandbyReport(name, problem=follower.problem)
        return StandbyReport(name, position=sum(seen.positions.values()), lag=seen.lag)
