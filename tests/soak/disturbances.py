"""What is done to an application while it runs. Each returns once the thing is done; recovery is measured outside."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from tests.application import wait_until
from tests.soak.world import SoakWorld
from tests.waiting import stop_process_for

_FROZEN_S = (2.0, 40.0)
"""Least and longest time that a process is stopped, seconds: shorter and longer than every limit of silence."""

Act = Callable[[SoakWorld, random.Random], None]


@dataclass(frozen=True)
class Disturbance:
    """One thing that may happen.

    Args:
        name: in the tally; kills begin with ``kill``.
        weight: how often, relative to the others.
        act: does it.
    """

    name: str
    weight: int
    act: Act


def kill_worker(world: SoakWorld, chance: random.Random) -> None:
    """Ends one of the Python workers that ran the last tasks."""
    workers = _workers(world)
    if workers:
        psutil.Process(chance.choice(workers)).kill()


def kill_driver(world: SoakWorld, _: random.Random) -> None:
    """Ends the driver's own process; supervision starts it again."""
    _lead(world).send_signal(signal.SIGKILL)


def kill_everything(world: SoakWorld, _: random.Random) -> None:
    """Ends the driver, its JVM and its workers at once."""
    _lead(world)
    world.kill_session(world.application)


def kill_broker(world: SoakWorld, _: random.Random) -> None:
    """Ends the broker and starts it again on its data."""
    world.broker.kill()
    world.broker.start()


def lose_disk(world: SoakWorld, _: random.Random) -> None:
    """Ends everything and removes the local state; whoever is quicker, supervision or the removal, meets a rest."""
    _lead(world)
    world.kill_session(world.application)
    state = world.directory / "state" / world.application
    lost = state.with_name(f"{state.name}.lost")
    state.rename(lost)
    shutil.rmtree(lost)


def freeze_worker(world: SoakWorld, chance: random.Random) -> None:
    """Stops one of the Python workers, and lets it go on after what others may have taken its tasks in."""
    workers = _workers(world)
    if workers:
        stop_process_for(chance.choice(workers), chance.uniform(*_FROZEN_S))


def freeze_driver(world: SoakWorld, chance: random.Random) -> None:
    """Stops the driver's own process; supervision may take it for hung, and start another one."""
    stop_process_for(_lead(world).pid, chance.uniform(*_FROZEN_S))


def freeze_broker(world: SoakWorld, chance: random.Random) -> None:
    """Stops the broker."""
    identity = world.broker.identity
    assert identity is not None
    stop_process_for(identity.pid, chance.uniform(*_FROZEN_S))


def _workers(world: SoakWorld) -> list[int]:
    """The workers that ran the last tasks, those that live."""
    status = wait_until(lambda: world.status(world.application), timeout_s=120, what="status")
    workers = sorted({int(host.rpartition("/")[2]) for host in status.task_hosts.values()})
    return [pid for pid in workers if psutil.pid_exists(pid)]


def _lead(world: SoakWorld) -> psutil.Process:
    return wait_until(lambda: world.driver(world.application), timeout_s=120, what="a driver")  # type: ignore[no-any-return]


KILLS = (
    Disturbance("kill worker", 6, kill_worker),
    Disturbance("kill driver", 2, kill_driver),
    Disturbance("kill everything", 2, kill_everything),
    Disturbance("kill broker", 1, kill_broker),
    Disturbance("kill and lose the disk", 1, lose_disk),
)
FREEZES = (
    Disturbance("freeze worker", 2, freeze_worker),
    Disturbance("freeze driver", 2, freeze_driver),
    Disturbance("freeze broker", 1, freeze_broker),
)
