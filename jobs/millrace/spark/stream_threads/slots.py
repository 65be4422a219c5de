"""The numbers of Spark's slots for stream threads: now, and once all executors have started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from millrace.config_advice import MOST_EXECUTORS, allocates_dynamically


@dataclass(frozen=True)
class Slots:
    """The slots of an application: the Spark tasks that run at the same time.

    Args:
        now: with the executors that there are.
        wanted: with all that the application asks Spark for.
        is_fixed: whether none comes or goes, as with a local master.
    """

    now: int
    wanted: int
    is_fixed: bool = False


@dataclass(frozen=True)
class EpochSize:
    """The number of stream threads of an epoch.

    Args:
        threads: how many there are to be; those that find no slot wait in Spark for one.
        awaited: how many of them are waited for before tasks are given to those that came.
    """

    threads: int
    awaited: int


SizeOfEpoch = Callable[[], EpochSize]


def epoch_size(threads: int | None, slots: Slots, tasks: int) -> EpochSize:
    """Returns the number of threads of an epoch.

    Args:
        threads: ``num.stream.threads``; ``None`` takes all slots.
        slots: what Spark has.
        tasks: number of the application's tasks, more threads would have nothing to do.
    """
    wanted = max(1, min(threads or max(slots.wanted, slots.now), tasks))
    return EpochSize(wanted, awaited=max(1, min(wanted, slots.now)) if slots.is_fixed else wanted)


def slots_of(session: SparkSession) -> Slots:
    """Returns the slots that Spark has for an application."""
    context = session.sparkContext
    machine = context._jsc.sc()
    # What defaultParallelism says is at least two, and whatever spark.default.parallelism says.
    now = int(machine.maxNumConcurrentTasks(machine.resourceProfileManager().defaultResourceProfile()))
    settings = dict(context.getConf().getAll())
    if context.master.startswith("local"):
        return Slots(now, now, is_fixed=True)
    return Slots(now, wanted_slots(settings))


def wanted_slots(settings: Mapping[str, str]) -> int:
    """Returns the slots that a session's settings ask a cluster for; 0 if they take all that there are.

    Args:
        settings: the session's settings.
    """
    cpus = int(settings.get("spark.task.cpus", "1"))
    of_one = int(settings.get("spark.executor.cores", "1")) // cpus
    if allocates_dynamically(settings):
        return int(settings.get(MOST_EXECUTORS, "0")) * of_one
    if "spark.executor.instances" in settings:
        return int(settings["spark.executor.instances"]) * of_one
    return int(settings.get("spark.cores.max", "0")) // cpus
