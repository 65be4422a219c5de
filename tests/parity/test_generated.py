"""Random scenarios over all operators against Kafka Streams' own test driver; the same ones in every run.

``make parity N=... SEED=...`` runs others.
"""

from __future__ import annotations

import pytest

from tests.parity.generating import generate
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.reducing import reduced
from tests.parity.scenario_topology import _LOSES_WINDOWS, _OPERATORS
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
GENERATED_OPTIONS = {
    "advance",
    "by",
    "difference",
    "emit",
    "gap",
    "grace",
    "history",
    "limit",
    "logged",
    "partitioner",
    "place",
    "places",
    "segment_interval",
    "start",
}
"""Options that stand for a way of an operator's, each of which takes part."""


@pytest.mark.parametrize("seed", range(SHARDS))
def test_generated_scenarios_have_the_results_of_kafka_streams(seed: int, kafka_streams: KafkaStreams) -> None:
    search(kafka_streams, examples=EXAMPLES, seed=seed)


def test_every_operator_is_generated() -> None:
    from tests.parity.generating import draft

    used: set[object] = set()
    options: set[str] = set()
    windowed_joins: set[str] = set()
    for made in draft.OPERATORS:
        assert made.weight > 0
    for seed in range(400):
        windowed: set[object] = set()
        for step in generate(seed)["topology"]:
            used.add(step["op"])
            options |= set(step)
            if step["op"] == "windowed_by" or (step.get("on") in windowed and step["op"] not in _LOSES_WINDOWS):
                windowed.add(step.get("as"))
                windowed_joins |= {step["op"]} if "join" in step["op"] else set()
    assert set(_OPERATORS) - used == NOT_GENERATED
    assert options >= GENERATED_OPTIONS
    joins = {"table_join", "table_left_join", "table_outer_join", "join", "left_join", "foreign_key_join"}
    assert windowed_joins == joins


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
