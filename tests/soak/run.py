"""``make soak MINUTES=30``: a supervised application under load is killed, saved, compacted, its clone restored and
reset, at random, and whatever it committed is compared with an independent model.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from tests.application import PREFIX_VARIABLE
from tests.chaos.load import SteadyLoad
from tests.soak.disturbances import FREEZES, KILLS, Disturbance
from tests.soak.operations import operations
from tests.soak.tally import Tally
from tests.soak.verdict import judge_output
from tests.soak.world import SoakWorld, Supervision

FIRST_SHARE = 0.7
"""Share of the disturbances that are operations which have not come yet, until each has."""


def soak(
    directory: Path, *, minutes: float, seed: int, rate: int = 250, failures: Sequence[Disturbance] = KILLS
) -> Tally:
    """Runs one application for some minutes and disturbs it.

    Args:
        directory: where everything goes; removed by the caller.
        minutes: how long it is disturbed.
        seed: of what happens when.
        rate: input records per second.
        failures: what happens beside operations.
    """
    chance = random.Random(seed)
    tally = Tally()
    world = SoakWorld(directory, f"soak{uuid4().hex[:6]}")
    os.environ[PREFIX_VARIABLE] = world.prefix
    try:
        world.start()
        topic_partitions = world.inputs(world.application)
        with Supervision(world, world.application) as supervision:
            with SteadyLoad(world.bootstrap_servers, f"{world.prefix}-in", rate=rate) as load:
                # Each of them once, a clone's restoration behind a savepoint; then by chance.
                first = list(operations(tally))
                disturbances = (*failures, *first)
                until = time.monotonic() + 60 * minutes
                while first or time.monotonic() < until:
                    time.sleep(chance.uniform(0.0, 3.0))  # the moment is what is random here
                    one = first.pop(0) if first and chance.random() < FIRST_SHARE else _any_of(disturbances, chance)
                    _disturb(world, one, chance, topic_partitions, tally)
                load.stop()
            world.wait_until_healthy(world.application)
            world.wait_until_caught_up(world.application, topic_partitions)
        judge_output(world.bootstrap_servers, world.prefix, tally)
        _say(f"supervision: {len(supervision.actions)} actions")
    finally:
        world.close()
    return tally


def _any_of(disturbances: Sequence[Disturbance], chance: random.Random) -> Disturbance:
    return chance.choices(disturbances, [each.weight for each in disturbances])[0]


def _disturb(
    world: SoakWorld, one: Disturbance, chance: random.Random, topic_partitions: list[tuple[str, int]], tally: Tally
) -> None:
    begin = time.monotonic()
    one.act(world, chance)
    world.wait_until_committed(world.application, topic_partitions)
    seconds = time.monotonic() - begin
    tally.recovered(one.name, seconds)
    _say(f"{one.name}: {seconds:.1f} s")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """0 only if nothing was lost, doubled or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--rate", type=int, default=250)
    given = parser.parse_args(arguments)
    _say(f"seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="millrace-soak-") as directory:
        failures = (*KILLS, *FREEZES)
        tally = soak(Path(directory), minutes=given.minutes, seed=given.seed, rate=given.rate, failures=failures)
    _say(tally.text())
    return 0 if tally.ok else 1


if __name__ == "__main__":
    sys.exit(main())
