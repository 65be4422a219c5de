"""The operators against Kafka Streams' own test driver: same records, stores, changelogs and dropped counts."""

from __future__ import annotations

import json

import pytest

from tests.parity.generated import generate
from tests.parity.scenario import Form, Result, run_in_kafka_streams, run_in_millrace
from tests.parity.scenarios import SCENARIOS

GENERATED = 200


@pytest.fixture(scope="module")
def of_kafka_streams() -> dict[str, Result]:
    """Results of the hand-written scenarios."""
    return dict(zip(SCENARIOS, run_in_kafka_streams(list(SCENARIOS.values())), strict=True))


@pytest.mark.parametrize("form", Form, ids=lambda form: form.name.lower())
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_result_of_kafka_streams(name: str, form: Form, of_kafka_streams: dict[str, Result]) -> None:
    assert run_in_millrace(SCENARIOS[name], form) == of_kafka_streams[name]


def test_generated_scenarios_have_the_results_of_kafka_streams() -> None:
    scenarios = [generate(seed) for seed in range(GENERATED)]
    expected = run_in_kafka_streams(scenarios)
    for seed, (scenario, result) in enumerate(zip(scenarios, expected, strict=True)):
        for form in Form:
            assert run_in_millrace(scenario, form) == result, f"seed {seed}, {form.value}: {json.dumps(scenario)}"
