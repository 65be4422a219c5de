"""The assignment of tasks to stream threads: pure functions of the tasks, the threads and their state.

Every task goes to exactly one thread. The numbers of tasks of any two threads differ by one at most. Under that, as few
tasks move as possible, and one that has no thread goes where its state is: open in the thread's process, or on the disk
of its host, as the task left it or as a standby copy, whichever is nearer to the end. Where nothing of that decides,
the tasks of a sub-topology are spread, then the measured load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from millrace.spark.stream_threads.messages import HeldState, HeldTask

Rank = tuple[bool, int, int]
"""Whether a task is open; how far its state is; what it is."""

_RANK = {HeldState.OPEN: 3, HeldState.DISK: 2, HeldState.STANDBY: 1}
"""Of two at the same position, a standby copy has nothing of stores that are not logged."""

_NOTHING: Rank = (False, 0, 0)

LOAD_TOLERANCE = 0.25
"""How much more than the mean a thread may be busy before tasks are exchanged for it, as a part of the mean."""


@dataclass(frozen=True)
class Candidate:
    """A thread to which tasks can be assigned.

    Args:
        thread: its name.
        held: what its process and host have of tasks, by task.
    """

    thread: str
    held: Mapping[str, HeldTask] = field(default_factory=dict)

    def rank(self, task: str) -> Rank:
        """Returns how close the thread's state of a task is to the newest; greater is closer."""
        held = self.held.get(task)
        if held is None:
            return _NOTHING
        return held.state is HeldState.OPEN, held.position, _RANK[held.state]


def assign(
    tasks: Mapping[str, float],
    candidates: Sequence[Candidate],
    current: Mapping[str, str],
) -> dict[str, str]:
    """Assigns every task to one thread.

    Args:
        tasks: measured load of each task, as a part of a thread's time; 0 where nothing is known.
        candidates: the threads, each once.
        current: thread that each task has, or is on its way to; threads that are no candidates do not count.

    Returns:
        the thread of each task; empty without threads.
    """
    if not candidates:
        return {}
    by_name = {each.thread: each for each in sorted(candidates, key=lambda each: each.thread)}
    having = _having(tasks, by_name, current)
    least, more = divmod(len(tasks), len(by_name))
    assigned: dict[str, str] = {}
    # Those that have most keep the ones beyond an even number, so that fewest move.
    for name in sorted(having, key=lambda name: (-len(having[name]), name)):
        kept = _by_need(name, having[name], by_name)
        beyond = more > 0 and len(kept) > least
        more -= beyond
        assigned.update(dict.fromkeys(kept[: least + beyond], name))
    _assign_remaining(tasks, by_name, assigned, least, more)
    return assigned


def exchange_for_load(
    loads: Mapping[str, float], assigned: Mapping[str, str], candidates: Sequence[Candidate]
) -> dict[str, str]:
    """Returns the one move, or exchange of two tasks, that evens out an uneven load most.

    Numbers of tasks differ by one at most afterwards too.

    Args:
        loads: measured load of each task, as a part of a thread's time.
        assigned: thread of each task, as returned by :func:`assign`.
        candidates: the threads.

    Returns:
        the new thread of one or two tasks; empty where the load is even, or cannot be made more so.
    """
    names = [each.thread for each in candidates]
    if len(names) < 2:
        return {}
    total = dict.fromkeys(names, 0.0)
    for task, name in assigned.items():
        total[name] += loads.get(task, 0.0)
    mean = sum(total.values()) / len(names)
    busiest = max(sorted(names), key=total.__getitem__)
    idlest = min(sorted(names), key=total.__getitem__)
    excess = total[busiest] - mean
    if excess <= LOAD_TOLERANCE * mean:
        return {}
    of = {name: sorted(task for task, thread in assigned.items() if thread == name) for name in (busiest, idlest)}
    options: list[tuple[str, str | None]] = list(product(of[busiest], of[idlest]))
    if len(of[busiest]) > len(of[idlest]):
        options += [(task, None) for task in of[busiest]]

    def highest(option: tuple[str, str | None]) -> float:
        given, taken = option
        moved = loads.get(given, 0.0) - (loads.get(taken, 0.0) if taken is not None else 0.0)
        return max(total[busiest] - moved, total[idlest] + moved)

    best = min(options, key=highest, default=None)
    # One that gains less than half of what is allowed would come back with the next measurement.
    if best is None or total[busiest] - highest(best) < LOAD_TOLERANCE * mean / 2:
        return {}
    given, taken = best
    return {given: idlest} | ({} if taken is None else {taken: busiest})


def _having(
    tasks: Mapping[str, float], by_name: Mapping[str, Candidate], current: Mapping[str, str]
) -> dict[str, list[str]]:
    """Returns the tasks of each thread: those assigned to it, and unassigned ones that are open in its process."""
    having: dict[str, list[str]] = {name: [] for name in by_name}
    for task in sorted(tasks):
        owner = current.get(task)
        if owner not in by_name:
            opened = [name for name in by_name if by_name[name].rank(task)[0]]
            owner = max(opened, key=lambda name: by_name[name].rank(task), default=None)
        if owner is not None:
            having[owner].append(task)
    return having


def _by_need(name: str, tasks: Sequence[str], by_name: Mapping[str, Candidate]) -> list[str]:
    """Orders a thread's tasks. Those to give away come last: a part of each sub-topology, with state elsewhere."""

    def elsewhere(task: str) -> Rank:
        return max((each.rank(task) for other, each in by_name.items() if other != name), default=_NOTHING)

    of_sub_topology: dict[str, list[str]] = {}
    for task in sorted(tasks, key=lambda task: (elsewhere(task), task)):
        of_sub_topology.setdefault(_sub_topology(task), []).append(task)
    parts = {task: (number + 0.5) / len(same) for same in of_sub_topology.values() for number, task in enumerate(same)}
    return sorted(tasks, key=lambda task: (parts[task], elsewhere(task), task))


def _assign_remaining(
    tasks: Mapping[str, float],
    by_name: Mapping[str, Candidate],
    assigned: dict[str, str],
    least: int,
    more: int,
) -> None:
    """Assigns the remaining tasks to threads with room: those with the closest state first, then the heaviest.

    A thread has room for ``least`` tasks, and ``more`` of them for one beyond.
    """
    count = Counter(assigned.values())
    of_sub_topology = Counter((name, _sub_topology(task)) for task, name in assigned.items())
    load = dict.fromkeys(by_name, 0.0)
    for task, name in assigned.items():
        load[name] += tasks[task]
    missing = sorted(set(tasks) - assigned.keys())
    free: list[str] = []
    while missing:
        if free != (free := [name for name in by_name if count[name] < least + (more > 0)]):
            # The nearest state first; of equals, the one that fewest threads are near to. Taken from the end.
            ranks = {task: [by_name[name].rank(task) for name in free] for task in missing}
            missing.sort(key=lambda task: (*_nearest(ranks[task]), -tasks[task], task), reverse=True)
        task = missing.pop()
        name = max(
            free,
            key=lambda name: (
                by_name[name].rank(task),
                -of_sub_topology[name, _sub_topology(task)],
                -count[name],
                -load[name],
            ),
        )
        assigned[task] = name
        more -= count[name] == least
        count[name] += 1
        of_sub_topology[name, _sub_topology(task)] += 1
        load[name] += tasks[task]


def _nearest(ranks: Sequence[Rank]) -> tuple[int, int, int, int]:
    """Returns a sort key: tasks with the closest state first, then those of which the fewest threads have any state."""
    is_open, position, kind = max(ranks)
    return -is_open, -position, -kind, sum(rank > _NOTHING for rank in ranks)


def _sub_topology(task: str) -> str:
    return task.rpartition("_")[0]
