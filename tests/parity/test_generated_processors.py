"""Random scenarios with processors against Kafka Streams' own test driver."""

from __future__ import annotations

import json

import pytest

from tests.parity.generated_processors import generate_processing
from tests.parity.scenario import Form, run_in_kafka_streams, run_in_millrace

GENERATED = 150
PER_JVM = 75


@pytest.mark.parametrize("first", range(0, GENERATED, PER_JVM))
def test_generated_processors_have_the_results_of_kafka_streams(first: int) -> None:
    seeds = range(first, first + PER_JVM)
    scenarios = [generate_processing(seed) for seed in seeds]
    for seed, scenario, result in zip(seeds, scenarios, run_in_kafka_streams(scenarios), strict=True):
        for form in Form:
            ours = run_in_millrace(scenario, form)
            assert ours == result, f"seed {seed}, {form.value}: {json.dumps(scenario)}"
