"""What the other comparisons leave out of suppression: every record of a buffer's changelog, and failures."""

from __future__ import annotations

import pytest

from millrace.errors import ProcessingError
from tests.parity.scenario import Form, Result, run_in_kafka_streams, run_in_millrace
from tests.parity.suppress_scenarios import BOUNDARIES, SUPPRESS_SCENARIOS


@pytest.fixture(scope="module")
def of_kafka_streams() -> dict[str, Result]:
    results = run_in_kafka_streams(list(SUPPRESS_SCENARIOS.values()), every_buffer_change=True)
    return dict(zip(SUPPRESS_SCENARIOS, results, strict=True))


@pytest.mark.parametrize("form", [Form.CALLABLES, Form.COLUMNS], ids=["callables", "columns"])
@pytest.mark.parametrize("name", SUPPRESS_SCENARIOS)
def test_a_buffer_logs_each_of_its_changes_as_kafka_streams_does(
    name: str, form: Form, of_kafka_streams: dict[str, Result]
) -> None:
    ours = run_in_millrace(SUPPRESS_SCENARIOS[name], form, every_buffer_change=True)
    assert ours == of_kafka_streams[name]


@pytest.mark.parametrize("limit", [{"records": 1}, {"bytes": 100}], ids=["records", "bytes"])
def test_a_strict_buffer_that_is_full_stops_both(limit: dict[str, int]) -> None:
    base = SUPPRESS_SCENARIOS["final results of tumbling windows"]
    steps = [step | limit if step["op"] == "suppress" else step for step in base["topology"]]
    scenario = {"topology": steps, "input": BOUNDARIES, "settings": []}
    with pytest.raises(AssertionError, match="KTableSuppressProcessorSupplier"):
        run_in_kafka_streams([scenario])
    for form in Form:
        with pytest.raises(ProcessingError, match="The buffer held-store is full"):
            run_in_millrace(scenario, form)
