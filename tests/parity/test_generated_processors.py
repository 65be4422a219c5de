"""Random scenarios with processors against Kafka Streams' own test driver."""

from __future__ import annotations

import json

import pytest

from tests.parity.generated_processors import generate_processing
from tests.parity.kafka_streams import KafkaStreams
from tests.parity.scenario import Form, run_in_millrace

GENERATED = 150
PER_TEST = 50


@pytest.mark.parametrize("first", range(0, GENERATED, PER_TEST))
def test_generated_processors_have_the_results_of_kafka_streams(first: int, kafka_streams: KafkaStreams) -> None:
    for seed in range(first, first + PER_TEST):
        scenario = generate_processing(seed)
        theirs = kafka_streams.run(scenario)
        for form in Form:
            ours = run_in_millrace(scenario, form)
            assert ours == theirs, f"seed {seed}, {form.value}: {json.dumps(scenario)}"
