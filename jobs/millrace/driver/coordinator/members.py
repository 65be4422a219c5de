"""The connected stream threads, and what the coordinator knows of their tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from millrace.driver.coordinator.assignment import Candidate
from millrace.spark.stream_threads.messages import (
    Assign,
    Assignment,
    HeldState,
    HeldTask,
    Hello,
    Report,
    StandbyReport,
    TaskReport,
    TaskState,
    ThreadTiming,
)

TIMING_S = 30.0
"""Over which time the shares of a thread's time are shown, seconds."""


@dataclass
class Grant:
    """A task that was given to a thread, which is not known to have released it.

    Args:
        plan: digest of the plan that it is to be processed by.
        paused: whether it should pause after its next commit.
        generation: of the last ``Assign`` that had it; ``None`` until one is sent.
        paused_generation: of the ``Assign`` that had ``paused`` first; ``None`` until that is sent.
        is_stale: whether what the thread's process holds open of it is out of date.
        was_moved: whether it had another thread before, so that it counts among the moves until it is open.
        leaving_since: when the thread was asked to hand it over; ``None`` if it was not.
        report: what the thread said of it last.
    """

    plan: str
    paused: bool
    generation: int | None = None
    paused_generation: int | None = None
    is_stale: bool = False
    was_moved: bool = False
    leaving_since: float | None = None
    report: TaskReport | None = None

    @property
    def is_open(self) -> bool:
        """Whether its stores and producer are open, as far as is known."""
        return self.report is not None and self.report.state in (TaskState.RUNNING, TaskState.PAUSED)

    def is_known_at(self, generation: int) -> bool:
        """Returns whether a thread that has applied the ``Assign`` of a generation knows of this task.

        One that does not may have dropped the task, and still open it for an ``Assign`` that is on its way.
        """
        return self.generation is not None and generation >= self.generation


@dataclass
class Member:
    """A stream thread on one connection.

    Args:
        connection: number of the connection.
        hello: who it is.
        joined_at: when it came, by the coordinator's clock.
        grants: what it was given.
        standbys: tasks of which it is to keep a standby copy.
        copies: how far these are, as it said last.
        sent: the last ``Assign`` that was sent to it.
        sent_at: when.
        resent_at: when it was sent last.
        applied: generation that it follows, as it says.
        sequence: number of its last report.
        ending_since: when it was asked to leave; ``None`` if it was not.
        timings: what it spends its time on, and when it said so: the last one, and one from a while before.
    """

    connection: int
    hello: Hello
    joined_at: float
    grants: dict[str, Grant] = field(default_factory=dict)
    standbys: frozenset[str] = frozenset()
    copies: Mapping[str, StandbyReport] = field(default_factory=dict)
    sent: Assign | None = None
    sent_at: float = 0.0
    resent_at: float = 0.0
    applied: int = 0
    sequence: int = 0
    ending_since: float | None = None
    timings: list[tuple[float, ThreadTiming]] = field(default_factory=list)

    @property
    def thread(self) -> str:
        """Name of the thread."""
        return self.hello.thread

    def candidate(self, holders: Mapping[str, str]) -> Candidate:
        """Returns the thread as a candidate for the assignment of tasks.

        Args:
            holders: the thread whose process had each task last: what another one holds open is only on its disk.
        """
        held = {
            each.task: each
            if each.state is not HeldState.OPEN or holders.get(each.task) == self.thread
            else replace(each, state=HeldState.DISK)
            for each in self.hello.held
        }
        # What it says of a copy is newer than what it found when it came.
        held |= {
            task: HeldTask(task, HeldState.STANDBY, copy.position)
            for task, copy in self.copies.items()
            if task in self.standbys and copy.position
        }
        return Candidate(self.thread, held)

    @property
    def is_behind(self) -> bool:
        """Whether the thread has not yet confirmed the last ``Assign``."""
        return self.sent is not None and self.applied < self.sent.generation

    @property
    def waited_for_since(self) -> float | None:
        """Time since which an order to the thread is unfinished, by the coordinator's clock; ``None`` if none is."""
        moments = [each.leaving_since for each in self.grants.values()]
        moments += [self.ending_since, self.sent_at if self.is_behind else None]
        return min((each for each in moments if each is not None), default=None)

    def next_assign(self, generation: int, wanted: Mapping[str, tuple[str, bool]]) -> Assign | None:
        """Returns the next ``Assign`` to send; ``None`` if the last one is still true.

        Args:
            generation: its number.
            wanted: plan of each task, and whether it is paused.
        """
        for task, grant in self.grants.items():
            if task in wanted and grant.leaving_since is None:
                plan, paused = wanted[task]
                if paused != grant.paused:
                    grant.paused, grant.paused_generation = paused, None
                grant.plan = plan
        tasks = tuple(
            Assignment(task, grant.plan, grant.paused, grant.is_stale)
            for task, grant in sorted(self.grants.items())
            if grant.leaving_since is None
        )
        standbys = tuple(Assignment(task, wanted[task][0]) for task in sorted(self.standbys) if task in wanted)
        is_new = any(grant.generation is None for grant in self.grants.values())
        said = ((), ()) if self.sent is None else (self.sent.tasks, self.sent.standbys)
        if not is_new and (tasks, standbys) == said:
            return None
        for grant in self.grants.values():
            grant.generation = generation if grant.leaving_since is None else grant.generation
            grant.paused_generation = generation if grant.paused_generation is None else grant.paused_generation
        return Assign(generation, tasks, standbys)

    def released_by(self, report: Report) -> list[str]:
        """Returns the tasks that a report shows as released: absent from it, although the thread knows of them."""
        has = {each.task for each in report.tasks}
        return [task for task, grant in self.grants.items() if task not in has and grant.is_known_at(report.generation)]

    def has_paused(self, task: str) -> bool:
        """Returns whether a task is known to have paused after a commit, as its thread was asked to."""
        grant = self.grants.get(task)
        return (
            grant is not None
            and grant.paused
            and grant.paused_generation is not None
            and self.applied >= grant.paused_generation
            and grant.report is not None
            and grant.report.state is TaskState.PAUSED
        )

    def note_timing(self, now: float, timing: ThreadTiming) -> None:
        """Records the thread's timing, and discards what is older than half a minute."""
        self.timings.append((now, timing))
        while len(self.timings) > 2 and self.timings[1][0] <= now - TIMING_S:
            del self.timings[0]


class Members:
    """The threads that are connected."""

    def __init__(self) -> None:
        self._by_connection: dict[int, Member] = {}

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_connection.values()))

    def __len__(self) -> int:
        return len(self._by_connection)

    def get(self, connection: int) -> Member | None:
        """Returns the thread on a connection that has not ended."""
        return self._by_connection.get(connection)

    def add(self, member: Member) -> None:
        """Adds a thread that has connected."""
        self._by_connection[member.connection] = member

    def remove(self, connection: int) -> None:
        """Removes the thread of a connection that has ended."""
        self._by_connection.pop(connection, None)

    def working(self) -> list[Member]:
        """Returns the threads to which tasks may be given."""
        return [each for each in self if each.ending_since is None]

    def owner(self, task: str) -> Member | None:
        """Returns the thread that has a task, even if it is to hand it over."""
        return next((each for each in self if task in each.grants), None)

    def by_connection(self, tasks: Collection[str]) -> tuple[dict[int, tuple[str, ...]], list[str]]:
        """Returns the tasks by the connections of the threads that have and keep them.

        It also returns the other tasks.
        """
        found: dict[int, tuple[str, ...]] = {}
        absent = []
        for task in sorted(tasks):
            owner = self.owner(task)
            if owner is None or owner.ending_since is not None or owner.grants[task].leaving_since is not None:
                absent.append(task)
            else:
                found[owner.connection] = (*found.get(owner.connection, ()), task)
        return found, absent

    def not_paused(self, tasks: Collection[str]) -> list[str]:
        """Returns the tasks that are not known to have paused after a commit."""
        return [task for task in sorted(tasks) if not any(each.has_paused(task) for each in self)]

    def not_open(self, tasks: Collection[str]) -> list[str]:
        """Returns the tasks that no thread is known to have open."""
        opened = {task for each in self for task, grant in each.grants.items() if grant.is_open}
        return sorted(set(tasks) - opened)

    def without_owner(self, tasks: Iterable[str]) -> list[str]:
        """Returns the tasks that no thread has."""
        owned = {task for each in self for task in each.grants}
        return [task for task in tasks if task not in owned]
