"""Lost tasks: their thread left without a goodbye, and may still commit for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from millrace.driver.coordinator.effects import CheckDead, Fence
from millrace.spark.stream_threads.messages import Hello

RECHECK_S = 1.0
"""Time between two attempts to find out, seconds."""


@dataclass
class _Lost:
    hello: Hello
    since: float
    reason: str
    is_being_fenced: bool = False
    recheck_at: float = float("-inf")


class LostTasks:
    """The tasks that are lost, and the fences or leases after which they are free.

    Args:
        fences: whether tasks have transactional ids, which can be taken over.
        lease_s: without those: how long a thread may process after its last message that was seen, seconds.
    """

    def __init__(self, *, fences: bool, lease_s: float) -> None:
        self._fences = fences
        self._lease_s = lease_s
        self._tasks: dict[str, _Lost] = {}

    def __contains__(self, task: str) -> bool:
        return task in self._tasks

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, tasks: Collection[str], hello: Hello, *, now: float, reason: str) -> None:
        """Adds the tasks of a thread that has left, or of one whose tasks were lost already.

        A task that is being fenced is not fenced again: that would hit its thread after the first fence has ended, and
        an id that a thread took meanwhile is taken over when the next one opens the task.
        """
        for task in tasks:
            is_being_fenced = task in self._tasks and self._tasks[task].is_being_fenced
            self._tasks[task] = _Lost(hello, now, reason, is_being_fenced)

    def free_process(self, thread: str) -> None:
        """Removes the tasks of a thread that has certainly ended, unless they are being fenced.

        Those stay lost until their fence has ended: else it would hit the next thread of the task.
        """
        self._tasks = {
            task: lost for task, lost in self._tasks.items() if lost.is_being_fenced or lost.hello.thread != thread
        }

    def free(self, tasks: Collection[str]) -> None:
        """Removes tasks whose former threads can no longer commit anything for them."""
        for task in tasks:
            self._tasks.pop(task, None)

    def try_again(self, tasks: Collection[str], *, now: float, reason: str) -> None:
        """Records that a fence failed for now, and when to try again."""
        for task in tasks:
            if (lost := self._tasks.get(task)) is not None:
                lost.is_being_fenced, lost.recheck_at, lost.reason = False, now + RECHECK_S, reason

    def due(self, now: float) -> list[Fence | CheckDead]:
        """Returns the effects that are due now to free the tasks; removes tasks whose lease has ended."""
        by_thread: dict[str, list[str]] = {}
        for task, lost in sorted(self._tasks.items()):
            if not self._fences and now >= lost.since + self._lease_s:
                del self._tasks[task]
            elif not lost.is_being_fenced and now >= lost.recheck_at:
                lost.recheck_at = now + RECHECK_S
                lost.is_being_fenced = self._fences
                by_thread.setdefault(lost.hello.thread, []).append(task)
        hellos = [(self._tasks[tasks[0]].hello, tasks) for tasks in by_thread.values()]
        return [Fence(tuple(tasks), hello) if self._fences else CheckDead(hello) for hello, tasks in hellos]

    @property
    def reason(self) -> str:
        """The condition under which a lost task becomes free; empty if no task is lost."""
        if not self._tasks:
            return ""
        task, lost = min(self._tasks.items())
        condition = "its transactional id is taken over" if self._fences else "its process, or its lease, has ended"
        more = f" and {len(self._tasks) - 1} more tasks wait" if len(self._tasks) > 1 else " waits"
        return f"task {task}{more} until {condition}: stream thread {lost.hello.thread} went away ({lost.reason})"
