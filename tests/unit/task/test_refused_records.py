"""Records that a topic refuses by its settings: the production exception handler is asked about them."""

from __future__ import annotations

import time

import pytest

from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.errors import InvalidTimestampError, RecordRefusedError
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.field_timestamp import field_timestamp
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
HOUR_MS = 3_600_000
DEFAULTS = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(HOUR_MS)}
CONTINUE = {"production.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dlq"}


def by_field() -> FrozenTopology:
    builder = StreamsBuilder()
    read = Consumed.with_(TEXT, JsonSerde()).with_timestamp_extractor(field_timestamp("at"))
    builder.stream("in", read).to("out", Produced.with_(TEXT, JsonSerde()))
    return builder.build()


def copied() -> FrozenTopology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


def ahead(now: int) -> list[TestRecord]:
    return [
        TestRecord("a", {"at": now, "n": 1}, now),
        TestRecord("b", {"at": now + 2 * HOUR_MS, "n": 2}, now),
        TestRecord("c", {"at": now + 1, "n": 3}, now),
    ]


def test_a_record_too_far_ahead_is_dead_lettered_and_the_others_are_written() -> None:
    """Case E16."""
    now = int(time.time() * 1000)
    with TopologyTestDriver(by_field(), CONTINUE, topic_settings={"out": DEFAULTS, "dlq": DEFAULTS}) as driver:
        driver.create_input_topic("in", TEXT, JsonSerde()).pipe_batch(ahead(now))
        assert [r.key for r in driver.create_output_topic("out", TEXT, JsonSerde()).read_records()] == ["a", "c"]
        (record,) = driver.create_output_topic("dlq", TEXT, TEXT).read_records()
        assert driver.dropped == {DropReason.PRODUCTION: 1}
    headers = dict(record.headers)
    assert (record.key, record.timestamp) == ("b", now)
    assert headers["__streams.errors.exception"] == b"millrace.errors.InvalidTimestampError"
    assert headers["__streams.errors.offset"] == b"1"


def test_under_fail_one_line_names_record_topic_setting_and_remedy() -> None:
    """Case E16."""
    now = int(time.time() * 1000)
    with TopologyTestDriver(by_field(), topic_settings={"out": DEFAULTS}) as driver:
        topic = driver.create_input_topic("in", TEXT, JsonSerde())
        with pytest.raises(InvalidTimestampError) as refused:
            topic.pipe_batch(ahead(now))
        assert driver.create_output_topic("out", TEXT, JsonSerde()).is_empty
    message = refused.value.message
    assert "\n" not in message
    assert f"topic out (key b'b') has the timestamp {now + 2 * HOUR_MS}" in message
    assert "message.timestamp.after.max.ms of the topic is 3600000" in message
    assert message.endswith("it comes from in-0 offset 1.")
    assert "raise message.timestamp.after.max.ms of out, or correct the timestamp" in refused.value.remedy
    assert "production.exception.handler" in refused.value.remedy


def test_a_dead_letter_topic_that_refuses_the_timestamp_gets_the_letter_at_the_present_time() -> None:
    """Case E16: the record's own timestamp is what is wrong with it."""
    now = int(time.time() * 1000)
    far = now + 2 * HOUR_MS
    with TopologyTestDriver(copied(), CONTINUE, topic_settings={"out": DEFAULTS, "dlq": DEFAULTS}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord("a", "1", far), TestRecord("b", "2", now)])
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("b", "2")]
        (record,) = driver.create_output_topic("dlq", TEXT, TEXT).read_records()
    assert dict(record.headers)["__millrace.timestamp"] == str(far).encode()
    assert now <= (record.timestamp or 0) < now + HOUR_MS


def test_a_record_without_a_key_for_a_compacted_topic_is_the_handlers() -> None:
    """Case E16."""
    compacted = {"out": {"cleanup.policy": "compact"}}
    records = [TestRecord("a", "1", 1), TestRecord(None, "2", 2), TestRecord("c", "3", 3)]
    with TopologyTestDriver(copied(), CONTINUE, topic_settings=compacted) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(records)
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("a", "1"), ("c", "3")]
        assert driver.create_output_topic("dlq", TEXT, TEXT).read_key_values() == [(None, "2")]
    with TopologyTestDriver(copied(), topic_settings=compacted) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(RecordRefusedError, match=r"has no key, .* cleanup.policy is compact; it comes from in-0 "):
            topic.pipe_batch(records)


@pytest.mark.parametrize("name", ["a b", "..", "t" * 250])
def test_a_chosen_topic_that_cannot_exist_is_the_handlers(name: str) -> None:
    """Case S19, for one record."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    stream.to(lambda key, value, context: value, Produced.with_(TEXT, TEXT))
    records = [TestRecord("a", "good", 1), TestRecord("b", name, 2), TestRecord("c", "good", 3)]
    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(records)
        assert [r.key for r in driver.create_output_topic("good", TEXT, TEXT).read_records()] == ["a", "c"]
        assert driver.create_output_topic("dlq", TEXT, TEXT).read_key_values() == [("b", name)]
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(RecordRefusedError, match=r"which cannot exist: its name .*; it comes from in-0 offset 1"):
            topic.pipe_batch(records)
