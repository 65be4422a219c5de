"""Many generated scenarios through real tasks, or through Spark, on a broker of their own: see ``--help``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.broker import close_run, open_run, shared_broker_address
from tests.parity.real_path.searching import Tally, run_in_spark, run_one, scenario_of

_OF_AN_APPLICATION = 10
_SEEDS_OF_AN_APPLICATION = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many to try; a cluster can run about two in three")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--caching", action="store_true", help="with caches: last values instead of all records")
    parser.add_argument("--spark", action="store_true", help="many scenarios as one application, some with caches")
    options = parser.parse_args()
    owned = open_run()
    failed, seen, begin = 0, Tally(), time.monotonic()
    seeds = range(options.seed, options.seed + options.seeds)
    try:
        servers = shared_broker_address()
        with tempfile.TemporaryDirectory() as directory:
            runs = _in_spark(seeds, servers, seen) if options.spark else _alone(seeds, servers, seen, options.caching)
            for seed, run in runs:
                own = Path(directory) / str(seed)
                own.mkdir()
                try:
                    run(own)
                except Exception as error:
                    failed += 1
                    _say(f"from seed {seed}: {type(error).__name__}: {error}")
    finally:
        close_run(owned)
    _say(f"{seen}, {failed} failed, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


def _alone(seeds: range, servers: str, seen: Tally, caching: bool) -> Iterator[tuple[int, Callable[[Path], None]]]:
    for seed in seeds:
        scenario = scenario_of(seed, caching=caching)
        if scenario is not None:
            yield seed, partial(run_one, seed, scenario, servers, seen=seen)


def _in_spark(seeds: range, servers: str, seen: Tally) -> Iterator[tuple[int, Callable[[Path], None]]]:
    for seed in seeds[::_SEEDS_OF_AN_APPLICATION]:
        yield seed, partial(run_in_spark, seed, _OF_AN_APPLICATION, servers, seen=seen)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
