"""``make parity N=100000 SEED=1``, ``make parity REPLAY=file``: looks for differences for as long as it takes."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path

from millrace.home import millrace_home
from tests.parity.comparing import as_text, difference
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.scenario import Scenario
from tests.parity.searching import ParityError, search, smallest

CHUNK = 250


@cache
def _kafka_streams() -> KafkaStreams:
    """The worker's JVM, which ends with the worker."""
    return KafkaStreams()


def _chunk(seed: int, examples: int) -> tuple[str, Scenario] | None:
    try:
        search(_kafka_streams(), examples=examples, seed=seed)
    except ParityError as error:
        return str(error), error.scenario
    return None


def _replay(path: Path) -> int:
    with KafkaStreams() as kafka_streams:
        scenario = json.loads(path.read_text())
        found = difference(scenario, kafka_streams)
        if found is None:
            _say("no difference")
            return 0
        _say(found.text)
        small = as_text(smallest(scenario, kafka_streams))
        if small != as_text(scenario):
            _say(f"smaller:\n{small}")
        return 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """0 only if no difference was found."""
    parser = argparse.ArgumentParser(prog="make parity", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, help="of the first chunk; the next ones count on")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run one scenario instead")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    chunks = -(-options.scenarios // CHUNK)
    begin, done, found = time.monotonic(), 0, 0
    with ProcessPoolExecutor(options.workers) as pool:
        first = options.seed * 1_000_000
        running = {
            pool.submit(_chunk, first + number, min(CHUNK, options.scenarios - number * CHUNK)): number
            for number in range(chunks)
        }
        for future in as_completed(running):
            done += min(CHUNK, options.scenarios - running[future] * CHUNK)
            difference_found = future.result()
            if difference_found is not None:
                found += 1
                text, scenario = difference_found
                path = millrace_home() / "parity" / f"found-{first + running[future]}.json"
                path.write_text(as_text(scenario))
                _say(f"\n{text}\n(in {path})")
            seconds = time.monotonic() - begin
            _say(f"{done:,} of {options.scenarios:,} scenarios, {found} with differences, {seconds:,.0f} s")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
