"""Records on their way to the topics that an extractor chooses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.dsl import Consumed, Produced, RecordContext, StreamsBuilder
from millrace.errors import ProcessingError
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
TYPED = JsonSerde(schema=pa.schema([("kind", pa.string()), ("amount", pa.int64())]))
RECORDS = [
    TestRecord("k", {"kind": "x", "amount": 1}, 3),
    TestRecord("l", {"kind": "y", "amount": 2}, 2),
    TestRecord("m", {"kind": None, "amount": 3}, 4),
    TestRecord("n", {"kind": "x", "amount": 4}, 1),
]
CONTINUE = {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dlq"}


def routed(extractor: Any) -> FrozenTopology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TYPED)).to(extractor, Produced.with_(TEXT, TYPED))
    return builder.build()


def keys(driver: TopologyTestDriver, topic: str) -> list[str]:
    return [key for key, _ in driver.create_output_topic(topic, TEXT, TYPED).read_key_values()]


def kind(key: str, value: Any, context: RecordContext) -> str:
    found: str = value["kind"]
    return found


@pytest.mark.parametrize("extractor", [kind, pc.field("kind")], ids=["callable", "expression"])
def test_within_a_topic_the_order_stays_and_a_record_without_a_topic_is_left_to_the_handler(extractor: Any) -> None:
    with TopologyTestDriver(routed(extractor), CONTINUE) as driver:
        driver.create_input_topic("in", TEXT, TYPED).pipe_batch(RECORDS)
        assert keys(driver, "x") == ["k", "n"]
        assert keys(driver, "y") == ["l"]
        assert keys(driver, "dlq") == ["m"]
        assert driver.dropped == {DropReason.PROCESSING: 1}
    with TopologyTestDriver(routed(extractor)) as driver:
        topic = driver.create_input_topic("in", TEXT, TYPED)
        with pytest.raises(ProcessingError, match="KSTREAM-SINK-0000000001 gave None, not the name of a topic"):
            topic.pipe_batch(RECORDS)


def test_an_extractor_that_fails_is_left_to_the_processing_handler() -> None:
    def fails_on_two(key: str, value: Any, context: RecordContext) -> str:
        if value["amount"] == 2:
            raise ValueError("two")
        return "rest"

    with TopologyTestDriver(routed(fails_on_two), CONTINUE) as driver:
        driver.create_input_topic("in", TEXT, TYPED).pipe_batch(RECORDS)
        assert keys(driver, "rest") == ["k", "m", "n"]
        assert keys(driver, "dlq") == ["l"]
    with TopologyTestDriver(routed(fails_on_two)) as driver:
        topic = driver.create_input_topic("in", TEXT, TYPED)
        with pytest.raises(ProcessingError, match="KSTREAM-SINK-0000000001, failed at the record at in-0 offset 1"):
            topic.pipe_batch(RECORDS)


def test_the_size_limit_is_that_of_the_chosen_topic() -> None:
    settings = {"production.exception.handler": "continue"}
    with TopologyTestDriver(routed(kind), settings, max_message_bytes={"x": 500}) as driver:
        topic = driver.create_input_topic("in", TEXT, TYPED)
        topic.pipe_batch([TestRecord("k" * 600, {"kind": each, "amount": 1}, 1) for each in "xy"])
        assert keys(driver, "x") == []
        assert keys(driver, "y") == ["k" * 600]
        assert driver.dropped == {DropReason.PRODUCTION: 1}
