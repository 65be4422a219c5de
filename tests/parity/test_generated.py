"""Random scenarios over all operators against Kafka Streams' own test driver; the same ones in every run.

``make parity N=... SEED=...`` runs others.
"""

from __future__ import annotations

import pytest

from tests.parity.generating import generate
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.reducing import reduced
from tests.parity.searching import search

SHARDS = 16
EXAMPLES = 125
NOT_GENERATED = {
    "add_processor",
    "add_sink",
    "add_source",
    "connect",
    "process",
    "process_values",
    "read_only_store",
    "state_store",
    "stateful_transform_values",
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(SHARDS))
def test_generated_scenarios_have_the_results_of_kafka_streams(seed: int, kafka_streams: KafkaStreams) -> None:
    search(kafka_streams, examples=EXAMPLES, seed=seed)


def test_every_operator_is_generated() -> None:
    from tests.parity.generating import draft

    used: set[object] = set()
    for made in draft.OPERATORS:
        assert made.weight > 0
    for seed in range(400):
        used |= {step["op"] for step in generate(seed)["topology"]}
    from tests.parity.scenario_topology import _OPERATORS

    assert set(_OPERATORS) - used == NOT_GENERATED


def test_a_scenario_is_reduced_to_what_matters() -> None:
    scenario = generate(3)

    def holds(candidate: dict[str, object]) -> bool:
        rows = candidate["input"]
        assert isinstance(rows, list)
        return any(row[1] == "b" for row in rows)

    assert holds(scenario)
    small = reduced(scenario, holds)
    assert (small["topology"], small["settings"]) == ([], [])
    assert [row[1] for row in small["input"]] == ["b"]
