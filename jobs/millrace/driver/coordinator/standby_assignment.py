"""The assignment of standby copies to stream threads: a pure function of tasks, threads and disks.

A copy is of use on another disk than the task's, and than the task's other copies. Under that, copies stay where they
are; a new one goes where most of the state is already, then to the thread that keeps fewest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from millrace.driver.coordinator.assignment import Candidate

Disk = tuple[str, str]
"""Host and state directory."""


def assign_standbys(
    owners: Mapping[str, Disk | None],
    candidates: Sequence[Candidate],
    disks: Mapping[str, Disk],
    current: Mapping[str, Collection[str]],
    *,
    replicas: int,
) -> dict[str, frozenset[str]]:
    """Chooses the threads that keep standby copies.

    Args:
        owners: where each task is that has stores to copy; ``None`` while no thread has it: its copies stay.
        candidates: the threads.
        disks: the disk of each thread.
        current: threads that keep a copy of each task.
        replicas: how many copies there are to be; fewer where there are fewer disks.

    Returns:
        the threads of each task.
    """
    by_name = {each.thread: each for each in candidates}
    kept: dict[str, set[str]] = {}
    count: Counter[str] = Counter()
    for task, owner in owners.items():
        kept[task] = set()
        taken = {owner}
        for name in sorted(current.get(task, ())):
            if name in by_name and disks[name] not in taken and len(kept[task]) < replicas:
                kept[task].add(name)
                taken.add(disks[name])
                count[name] += 1
    ring = {disk: number for number, disk in enumerate(sorted(set(disks.values())))}
    for task, owner in sorted(owners.items()):
        taken = {owner} | {disks[name] for name in kept[task]}
        while owner is not None and len(kept[task]) < replicas:
            free = [name for name in sorted(by_name) if disks[name] not in taken]
            if not free:
                break
            # Of equals the next disk after the task's: where tasks are spread evenly, so are their copies.
            beyond = {name: (ring[disks[name]] - ring.get(owner, 0)) % len(ring) for name in free}
            best = max(free, key=lambda name: (by_name[name].rank(task), -count[name], -beyond[name]))
            kept[task].add(best)
            taken.add(disks[best])
            count[best] += 1
    return {task: frozenset(names) for task, names in kept.items()}
