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
    status = wait_until(lambda: world.status(world.application), timeout_s=120, what="status")
    workers = sorted({int(host.rpartition("/")[2]) for host in status.task_hosts.values()})
    alive = [pid for pid in workers if psutil.pid_exists(pid)]
    if alive:
        psutil.Process(chance.choice(alive)).kill()


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
    world.broker.start(timeout_s=180)


def lose_disk(world: SoakWorld, _: random.Random) -> None:
    """Ends everything and removes the local state; whoever is quicker, supervision or the removal, meets a rest."""
    _lead(world)
    world.kill_session(world.application)
    state = world.directory / "state" / world.application
    lost = state.with_name(f"{state.name}.lost")
    state.rename(lost)
    shutil.rmtree(lost)


def _lead(world: SoakWorld) -> psutil.Process:
    return wait_until(lambda: world.driver(world.application), timeout_s=120, what="a driver")  # type: ignore[no-any-return]


KILLS = (
    Disturbance("kill worker", 6, kill_worker),
    Disturbance("kill driver", 2, kill_driver),
    Disturbance("kill everything", 2, kill_everything),
    Disturbance("kill broker", 1, kill_broker),
    Disturbance("kill and lose the disk", 1, lose_disk),
)
