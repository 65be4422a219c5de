"""Runs generated scenarios through the real path: a seed decides about a scenario, and about what happens to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from uuid import uuid4

from millrace.task.crash_points import CrashPoint
from tests.parity.generating import generate
from tests.parity.real_path.application import COMMON_SETTINGS, ScenariosInSpark
from tests.parity.real_path.caching import Defined, with_caching
from tests.parity.real_path.committed import compared, differences, expected_of
from tests.parity.real_path.preparing import for_broker
from tests.parity.real_path.tasks import ScenarioOnBroker
from tests.parity.scenario import Scenario

_MOST_KILLS = 3
_SEGMENTS, _SEGMENTS_IN_SPARK = 5, 2


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


def run_in_spark(seeds: range, bootstrap_servers: str, directory: Path, seen: Tally, *, kills: int = 2) -> None:
    """Runs the scenarios of some seeds as one application, those of odd seeds with caches.

    Raises:
        AssertionError: the committed output of some is not as it must be.
    """
    scenarios = {
        seed: {**scenario, "settings": COMMON_SETTINGS}
        for seed in seeds
        if (scenario := scenario_of(seed, caching=seed % 2 == 1, segments=_SEGMENTS_IN_SPARK)) is not None
    }
    name = f"s{uuid4().hex[:10]}"
    run = ScenariosInSpark(scenarios, bootstrap_servers, name, directory, Random(seeds.start), kills=kills)
    try:
        committed = run.run()
    finally:
        run.delete_topics()
    found = {seed: differences(each, expected_of(each), committed[seed]) for seed, each in scenarios.items()}
    assert not any(found.values()), "\n".join(f"seed {seed}: {text}" for seed, text in found.items() if text)
    seen.scenarios += len(scenarios)
    for seed, each in scenarios.items():
        seen.records += compared(each, committed[seed])
