"""The operators against Kafka Streams' own test driver: same records, stores, changelogs and dropped counts."""

from __future__ import annotations

import json

import pytest

from millrace.errors import ProcessingError
from tests.parity.cogroup_scenarios import COGROUP_SCENARIOS
from tests.parity.foreign_key_scenarios import FOREIGN_KEY_SCENARIOS
from tests.parity.generated import generate
from tests.parity.global_table_scenarios import GLOBAL_TABLE_SCENARIOS
from tests.parity.processor_scenarios import PROCESSOR_SCENARIOS
from tests.parity.scenario import Form, Result, run_in_kafka_streams, run_in_millrace, settled
from tests.parity.scenario_topology import ScenarioTopology, is_order_defined
from tests.parity.scenarios import FATAL
from tests.parity.scenarios import SCENARIOS as STREAM_SCENARIOS
from tests.parity.store_scenarios import STORE_SCENARIOS
from tests.parity.suppress_scenarios import SUPPRESS_SCENARIOS
from tests.parity.table_scenarios import TABLE_SCENARIOS

SCENARIOS = {
    **STREAM_SCENARIOS,
    **TABLE_SCENARIOS,
    **FOREIGN_KEY_SCENARIOS,
    **GLOBAL_TABLE_SCENARIOS,
    **COGROUP_SCENARIOS,
    **SUPPRESS_SCENARIOS,
    **PROCESSOR_SCENARIOS,
    **STORE_SCENARIOS,
}

GENERATED = 200
PER_JVM = 50


@pytest.fixture(scope="module")
def of_kafka_streams() -> dict[str, Result]:
    """Results of the hand-written scenarios."""
    return dict(zip(SCENARIOS, run_in_kafka_streams(list(SCENARIOS.values())), strict=True))


@pytest.mark.parametrize("form", Form, ids=lambda form: form.name.lower())
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_result_of_kafka_streams(name: str, form: Form, of_kafka_streams: dict[str, Result]) -> None:
    ours, theirs = run_in_millrace(SCENARIOS[name], form), of_kafka_streams[name]
    if form.in_batches and name in FOREIGN_KEY_SCENARIOS:
        assert settled(ours) == settled(theirs)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", FATAL)
def test_what_stops_kafka_streams_stops_us(name: str) -> None:
    with pytest.raises(AssertionError, match="StreamsException"):
        run_in_kafka_streams([FATAL[name]])
    for form in Form:
        with pytest.raises(ProcessingError, match="the timestamp extractor failed"):
            run_in_millrace(FATAL[name], form)


@pytest.mark.parametrize("first", range(0, GENERATED, PER_JVM))
def test_generated_scenarios_have_the_results_of_kafka_streams(first: int) -> None:
    seeds = range(first, first + PER_JVM)
    scenarios = [generate(seed) for seed in seeds]
    for seed, scenario, result in zip(seeds, scenarios, run_in_kafka_streams(scenarios), strict=True):
        in_batches = is_order_defined(ScenarioTopology(scenario, in_columns=False).build())
        for form in Form:
            if in_batches or not form.in_batches:
                ours = run_in_millrace(scenario, form)
                assert ours == result, f"seed {seed}, {form.value}: {json.dumps(scenario)}"
