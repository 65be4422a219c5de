"""Runs generated scenarios through the real path: a seed decides about a scenario, and about what happens to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from uuid import uuid4

from millrace.task.crash_points import CrashPoint
from tests.parity.generating import generate
from tests.parity.real_path.application import COMMON_SETTINGS, ScenariosInSpark
from tests.parity.real_path.caching import Defined, defined_outputs, with_caching
from tests.parity.real_path.committed import compared, differences, expected_of
from tests.parity.real_path.preparing import for_broker
from tests.parity.real_path.tasks import ScenarioOnBroker
from tests.parity.scenario import Scenario

_MOST_KILLS = 3
_FEWEST_RECORDS = 5
_SEGMENTS, _SEGMENTS_IN_SPARK = 5, 2
_KILLS_IN_SPARK = 2


@dataclass
class Tally:
    """What was seen while scenarios ran.

    Args:
        scenarios: how many.
        records: of output topics, by what they are held to.
        restarts: of tasks, in good order.
        kills: by where the process of the tasks died.
    """

    scenarios: int = 0
    records: Counter[Defined] = field(default_factory=Counter)
    restarts: int = 0
    kills: Counter[CrashPoint] = field(default_factory=Counter)


def scenario_of(seed: int, *, caching: bool, segments: int = _SEGMENTS) -> Scenario | None:
    """The scenario of a seed as a cluster runs it; ``None`` if it cannot, or if there is nothing to be cached."""
    random = Random(seed)
    scenario = for_broker(generate(seed), random, segments=segments)
    if scenario is None or not caching:
        return scenario
    cached = with_caching(scenario, random)
    return cached if any(step.get("cached") for step in cached["topology"]) else None


def telling_seeds(first: int, scenarios: int, *, caching: bool, segments: int = _SEGMENTS) -> dict[int, Scenario]:
    """The first scenarios from a seed on whose output says something: most of a few random records go nowhere."""
    found: dict[int, Scenario] = {}
    for seed in count(first):
        if len(found) == scenarios:
            return found
        scenario = scenario_of(seed, caching=caching, segments=segments)
        if scenario is None:
            continue
        expected, wanted = expected_of(scenario), Defined.LAST_VALUES if caching else Defined.ORDER
        held = [topic for topic, output in defined_outputs(scenario).items() if output.defined is wanted]
        if sum(len(expected.get(topic, [])) for topic in held) >= _FEWEST_RECORDS:
            found[seed] = scenario
    raise AssertionError("seeds have no end")


def run_one(seed: int, scenario: Scenario, bootstrap_servers: str, directory: Path, seen: Tally) -> None:
    """Runs a scenario through tasks; the seed decides about batches, restarts and kills.

    Raises:
        AssertionError: its committed output is not as it must be.
    """
    run = ScenarioOnBroker(
        scenario,
        bootstrap_servers,
        f"s{uuid4().hex[:10]}-{seed}",
        directory,
        Random(seed),
        in_columns=seed % 2 == 0,
        most_kills=_MOST_KILLS,
    )
    try:
        committed = run.run()
    finally:
        run.delete_topics()
    difference = differences(scenario, expected_of(scenario), committed)
    assert not difference, f"seed {seed}: {difference}"
    seen.scenarios += 1
    seen.records += compared(scenario, committed)
    seen.restarts += run.restarts
    seen.kills += Counter(run.kills)


def run_in_spark(first: int, scenarios: int, bootstrap_servers: str, directory: Path, seen: Tally) -> None:
    """Runs scenarios from a seed on as one application, which is killed twice; the second half of them has caches.

    Raises:
        AssertionError: the committed output of some is not as it must be.
    """
    cached = scenarios // 2
    plain = telling_seeds(first, scenarios - cached, caching=False, segments=_SEGMENTS_IN_SPARK)
    chosen = plain | telling_seeds(max(plain) + 1, cached, caching=True, segments=_SEGMENTS_IN_SPARK)
    chosen = {seed: {**scenario, "settings": COMMON_SETTINGS} for seed, scenario in chosen.items()}
    name = f"s{uuid4().hex[:10]}"
    run = ScenariosInSpark(chosen, bootstrap_servers, name, directory, Random(first), kills=_KILLS_IN_SPARK)
    try:
        committed = run.run()
    finally:
        run.delete_topics()
    found = {seed: differences(each, expected_of(each), committed[seed]) for seed, each in chosen.items()}
    assert not any(found.values()), "\n".join(f"seed {seed}: {text}" for seed, text in found.items() if text)
    seen.scenarios += scenarios
    for seed, each in chosen.items():
        seen.records += compared(each, committed[seed])
