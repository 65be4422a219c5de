"""The operators against Kafka Streams' own test driver: same records, stores, changelogs and dropped counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.parity.generated import generate
from tests.parity.scenario import Form, Result, Scenario, run_in_kafka_streams, run_in_millrace

GENERATED = 200
HAND_WRITTEN: dict[str, Scenario] = json.loads((Path(__file__).parent / "scenarios.json").read_text())


@pytest.fixture(scope="module")
def of_kafka_streams() -> dict[str, Result]:
    """Results of the hand-written scenarios."""
    return dict(zip(HAND_WRITTEN, run_in_kafka_streams(list(HAND_WRITTEN.values())), strict=True))


@pytest.mark.parametrize("form", Form, ids=lambda form: form.name.lower())
@pytest.mark.parametrize("name", HAND_WRITTEN)
def test_a_scenario_has_the_result_of_kafka_streams(name: str, form: Form, of_kafka_streams: dict[str, Result]) -> None:
    assert run_in_millrace(HAND_WRITTEN[name], form) == of_kafka_streams[name]


def test_generated_scenarios_have_the_results_of_kafka_streams() -> None:
    scenarios = [generate(seed) for seed in range(GENERATED)]
    expected = run_in_kafka_streams(scenarios)
    for seed, (scenario, result) in enumerate(zip(scenarios, expected, strict=True)):
        for form in Form:
            assert run_in_millrace(scenario, form) == result, f"seed {seed}, {form.value}: {json.dumps(scenario)}"
