"""The stream threads that Spark has launched, among which the driver finds those that have not connected."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession

_MOST_NAMED = 3


@dataclass(frozen=True)
class LaunchedThread:
    """A running Spark task of an epoch, on an executor.

    Args:
        slot: number of its Spark partition.
        host: of the executor.
        running_s: for how long, seconds.
    """

    slot: int
    host: str
    running_s: float


def launched_threads(session: SparkSession, group: str) -> tuple[LaunchedThread, ...]:
    """Returns the running tasks of a job group, by their slots, as Spark reports them.

    Args:
        session: the session.
        group: the job group, for a streaming query the id of its run.
    """
    tracker = session.sparkContext.statusTracker()
    store = session.sparkContext._jsc.sc().statusStore()
    now = time.time()
    found = {}
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None and info.status == "RUNNING" else ():
            seen = tracker.getStageInfo(stage)
            if seen is None:
                continue
            tasks = store.taskList(stage, seen.currentAttemptId, seen.numTasks + seen.numFailedTasks)
            for each in (tasks.apply(number) for number in range(tasks.size())):
                if each.status() == "RUNNING":
                    running_s = max(0.0, now - each.launchTime().getTime() / 1000)
                    found[each.index()] = LaunchedThread(each.index(), each.host(), running_s)
    return tuple(found[slot] for slot in sorted(found))


def unconnected(
    launched: Collection[LaunchedThread], connected: Collection[int], *, after_s: float
) -> tuple[LaunchedThread, ...]:
    """Returns the threads that should have connected to the driver by now.

    Args:
        launched: what Spark runs.
        connected: slots of those that have.
        after_s: how long a thread may take, seconds.
    """
    return tuple(each for each in launched if each.slot not in connected and each.running_s >= after_s)


def described(threads: Collection[LaunchedThread], address: str) -> str:
    """Returns a text with the threads that have not connected, and the remedy; empty if there are none.

    The text stays the same while the threads do.

    Args:
        threads: the threads.
        address: ``host:port`` of the coordinator.
    """
    if not threads:
        return ""
    named = [f"{each.slot} on {each.host}" for each in threads][:_MOST_NAMED]
    more = f" and {len(threads) - len(named)} more" if len(threads) > len(named) else ""
    return (
        f"stream thread{'s' if len(threads) > 1 else ''} {', '.join(named)}{more} cannot reach the coordinator at "
        f"{address}: let the workers' hosts connect to the driver at that name and port"
    )
