"""The operators against Kafka Streams' own test driver: same records, stores, changelogs and dropped counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millrace.errors import ProcessingError
from tests.parity.cogroup_scenarios import COGROUP_SCENARIOS
from tests.parity.comparing import Difference, difference
from tests.parity.emit_scenarios import EMIT_SCENARIOS
from tests.parity.foreign_key_scenarios import FOREIGN_KEY_SCENARIOS
from tests.parity.global_table_scenarios import GLOBAL_TABLE_SCENARIOS
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.processor_scenarios import PROCESSOR_SCENARIOS
from tests.parity.routing_scenarios import ROUTING_SCENARIOS
from tests.parity.scenario import Form, Result, compare_buffers, run_in_millrace, settled
from tests.parity.scenarios import FATAL
from tests.parity.scenarios import SCENARIOS as STREAM_SCENARIOS
from tests.parity.store_scenarios import STORE_SCENARIOS
from tests.parity.suppress_scenarios import SUPPRESS_SCENARIOS
from tests.parity.table_scenarios import TABLE_SCENARIOS
from tests.parity.topic_scenarios import TOPIC_SCENARIOS
from tests.parity.versioned_scenarios import VERSIONED_SCENARIOS
from tests.parity.windowed_table_scenarios import WINDOWED_TABLE_SCENARIOS

SCENARIOS = {
    **STREAM_SCENARIOS,
    **TABLE_SCENARIOS,
    **FOREIGN_KEY_SCENARIOS,
    **GLOBAL_TABLE_SCENARIOS,
    **COGROUP_SCENARIOS,
    **SUPPRESS_SCENARIOS,
    **EMIT_SCENARIOS,
    **PROCESSOR_SCENARIOS,
    **STORE_SCENARIOS,
    **VERSIONED_SCENARIOS,
    **ROUTING_SCENARIOS,
    **TOPIC_SCENARIOS,
    **WINDOWED_TABLE_SCENARIOS,
}
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.fixture(scope="session")
def of_kafka_streams() -> dict[str, Result]:
    """Results of the hand-written scenarios, once they were asked for."""
    return {}


@pytest.mark.parametrize("form", Form, ids=lambda form: form.name.lower())
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_result_of_kafka_streams(
    name: str, form: Form, kafka_streams: KafkaStreams, of_kafka_streams: dict[str, Result]
) -> None:
    if name not in of_kafka_streams:
        of_kafka_streams[name] = kafka_streams.run(SCENARIOS[name])
        compare_buffers(SCENARIOS[name], of_kafka_streams[name]["topics"])
    ours, theirs = run_in_millrace(SCENARIOS[name], form), of_kafka_streams[name]
    if form.in_batches and any(step["op"] == "foreign_key_join" for step in SCENARIOS[name]["topology"]):
        assert settled(ours) == settled(theirs)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", FATAL)
def test_what_stops_kafka_streams_stops_us(name: str, kafka_streams: KafkaStreams) -> None:
    assert "StreamsException" in kafka_streams.run(FATAL[name])["error"]
    for form in Form:
        with pytest.raises(ProcessingError, match="the timestamp extractor failed"):
            run_in_millrace(FATAL[name], form)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_difference_that_was_found_stays_mended(path: Path, kafka_streams: KafkaStreams) -> None:
    found = difference(json.loads(path.read_text()), kafka_streams)
    assert found is None, found.text


def test_a_difference_is_seen(kafka_streams: KafkaStreams) -> None:
    scenario = json.loads(FOUND[0].read_text())

    class Altered(KafkaStreams):
        def __init__(self) -> None:
            pass

        def submit(self, scenario: dict[str, object]) -> object:  # type: ignore[override]
            return lambda: kafka_streams.run(scenario) | {"dropped": 3}

    assert difference(scenario, Altered()) == Difference(
        "dropped", "in the form CALLABLES, ours first:\n/dropped: 0 != 3"
    )
