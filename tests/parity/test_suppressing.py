"""What the other comparisons leave out of suppression: every record of a buffer's changelog, and failures."""

from __future__ import annotations

import pytest

from millrace.errors import ProcessingError
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.scenario import Form, compare_buffers, run_in_millrace
from tests.parity.suppress_scenarios import BOUNDARIES, SUPPRESS_SCENARIOS


@pytest.mark.parametrize("name", SUPPRESS_SCENARIOS)
def test_a_buffer_logs_each_of_its_changes_as_kafka_streams_does(name: str, kafka_streams: KafkaStreams) -> None:
    theirs = kafka_streams.run(SUPPRESS_SCENARIOS[name])
    compare_buffers(SUPPRESS_SCENARIOS[name], theirs["topics"], every_change=True)
    for form in (Form.CALLABLES, Form.COLUMNS):
        assert run_in_millrace(SUPPRESS_SCENARIOS[name], form, every_buffer_change=True) == theirs


@pytest.mark.parametrize("limit", [{"records": 1}, {"bytes": 100}], ids=["records", "bytes"])
def test_a_strict_buffer_that_is_full_stops_both(limit: dict[str, int], kafka_streams: KafkaStreams) -> None:
    base = SUPPRESS_SCENARIOS["final results of tumbling windows"]
    steps = [step | limit if step["op"] == "suppress" else step for step in base["topology"]]
    scenario = {"topology": steps, "input": BOUNDARIES, "settings": []}
    assert "KTableSuppressProcessorSupplier" in kafka_streams.run(scenario)["error"]
    for form in Form:
        with pytest.raises(ProcessingError, match="The buffer held-store is full"):
            run_in_millrace(scenario, form)
