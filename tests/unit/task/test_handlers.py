"""Exception handlers of users: what they are told, and what follows their answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder
from millrace.errors import ConfigurationError, ProcessingError, RecordTooLargeError, SerializationError
from millrace.handlers import (
    ErrorHandlerContext,
    ProcessedRecord,
    ProducerRecord,
    Response,
    SerializationExceptionOrigin,
    dead_letters_for,
)
from millrace.metrics import DropReason
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

TEXT = StringSerde()
JSON = JsonSerde()
HERE = "tests.unit.task.test_handlers"

seen: list[tuple[Any, ...]] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    seen.clear()
    yield
    seen.clear()


def resumes(context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
    """Notes what it was told, and writes two dead-letter records to topics of its own."""
    seen.append((context, record, error))
    record = ProducerRecord(topic="mine", key=b"k", value=str(error).encode(), timestamp=1, headers=[("h", b"1")])
    return Response.resume([record, *dead_letters_for("other", context, error)])


def fails(context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
    return Response.fail(dead_letters_for("mine", context, error))


def raises(context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
    raise RuntimeError("the handler is broken")


def answers_nonsense(context: ErrorHandlerContext, record: Any, error: Exception) -> Any:
    return True


class Production:
    """A production handler with a configuration and an answer for each kind of error."""

    settings: ClassVar[dict[str, Any]] = {}

    def configure(self, settings: dict[str, Any]) -> None:
        Production.settings = settings

    def handle_error(self, context: ErrorHandlerContext, record: ProducerRecord, error: Exception) -> Response:
        seen.append((context, record, error))
        return Response.resume(dead_letters_for("mine", context, error))

    def handle_serialization_error(
        self,
        context: ErrorHandlerContext,
        record: ProducerRecord,
        error: Exception,
        origin: SerializationExceptionOrigin,
    ) -> Response:
        seen.append((context, record, error, origin))
        return Response.retry() if record.value == "retry" else Response.resume()


class OnlySends:
    """A production handler without an answer for errors of serialization."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducerRecord, error: Exception) -> Response:
        return Response.resume()


def copied(*, value_serde: Any = TEXT, key_serde: Any = TEXT) -> FrozenTopology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(key_serde, value_serde))
    return builder.build()


def test_a_deserialization_handler_is_told_of_the_record_and_its_letters_go_where_it_says() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build(), {"deserialization.exception.handler": f"{HERE}:resumes"}) as driver:
        records = [TestRecord("a", "{", 5, headers=[("own", b"x")]), TestRecord("b", "{}", 6), TestRecord("c", "}", 7)]
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(records)
        assert [key for key, _ in driver.create_output_topic("out", TEXT, TEXT).read_key_values()] == ["b"]
        mine = driver.create_output_topic("mine", TEXT, TEXT).read_records()
        other = driver.create_output_topic("other", TEXT, TEXT).read_records()
        assert driver.dropped == {DropReason.DESERIALIZATION: 2}
    assert [(record.key, record.timestamp, record.headers) for record in mine] == [("k", 1, [("h", b"1")])] * 2
    assert [(record.key, record.value, record.timestamp) for record in other] == [("a", "{", 5), ("c", "}", 7)]
    context, record, error = seen[0]
    assert context.topic == record.topic == "in"
    assert (context.partition, context.offset, context.timestamp, context.headers) == (0, 0, 5, [("own", b"x")])
    assert (context.processor_node_id, context.task_id) == ("KSTREAM-SOURCE-0000000000", "0_0")
    assert (context.source_raw_key, context.source_raw_value) == (record.key, record.value) == (b"a", b"{")
    assert isinstance(error, SerializationError)


def test_a_processing_handler_is_told_of_the_record_as_the_node_saw_it() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).map_values(lambda _, value: [value])
    stream.filter(lambda _, value: 1 // len(value[0]) == 1, named="inspect").to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build(), {"processing.exception.handler": f"{HERE}:resumes"}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord("a", "", 5), TestRecord("b", "1", 6)])
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [("b", ["1"])]
    ((context, record, error),) = seen
    assert context.processor_node_id == "inspect"
    assert context.source_raw_value == b""
    assert record == ProcessedRecord(key="a", value=[""], timestamp=5, headers=[])
    assert isinstance(error, ZeroDivisionError)


def test_the_processing_handler_is_asked_about_aggregations_as_well() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key()
    grouped.aggregate(lambda: 0, lambda _, value, total: total + int(value), Materialized.with_(TEXT, LongSerde()))
    with TopologyTestDriver(builder.build(), {"processing.exception.handler": f"{HERE}:resumes"}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord("a", "1", 5), TestRecord("a", "x", 6)])
    ((_, record, error),) = seen
    assert (record.key, record.value, record.timestamp, type(error)) == ("a", "x", 6, ValueError)


@pytest.mark.parametrize(
    ("handler", "error", "message"),
    [
        ("fails", SerializationError, "cannot read the record at in-0 offset 0"),
        ("raises", ProcessingError, "exception handler .*:raises failed at SerializationError.*handler is broken"),
        ("answers_nonsense", ProcessingError, "answers_nonsense returned True.*Response.resume"),
    ],
)
def test_a_handler_that_fails_in_whatever_way_stops_the_batch(
    handler: str, error: type[Exception], message: str
) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build(), {"deserialization.exception.handler": f"{HERE}:{handler}"}) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(error, match=message):
            topic.pipe_input("a", "{")
        assert driver.produced_topic_names() == set()


def test_without_a_handler_a_value_that_cannot_be_written_stops_the_batch() -> None:
    with TopologyTestDriver(copied(value_serde=LongSerde())) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(SerializationError, match="cannot write a value to topic out with LongSerde"):
            topic.pipe_input("a", "text")


@pytest.mark.parametrize("origin", list(SerializationExceptionOrigin))
def test_a_production_handler_may_go_on_without_a_record_that_cannot_be_written(
    origin: SerializationExceptionOrigin,
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT))
    turned = stream.map(lambda key, value: (key, 7 if value == "bad" else value))
    if origin is SerializationExceptionOrigin.KEY:
        turned = turned.map(lambda key, value: (value, key))
    turned.to("out", Produced.with_(TEXT, TEXT))
    settings = {"production.exception.handler": f"{HERE}:Production", "errors.dead.letter.queue.topic.name": "dlq"}
    with TopologyTestDriver(builder.build(), settings) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(
            [TestRecord("a", "1", 1), TestRecord("b", "bad", 2), TestRecord("c", "3", 3)]
        )
        found = driver.create_output_topic("out", TEXT, TEXT).read_records()
        assert [record.timestamp for record in found] == [1, 3]
        assert driver.dropped == {DropReason.PRODUCTION: 1}
    ((context, record, _, told),) = seen
    assert told is origin
    assert (context.offset, context.processor_node_id, record.topic) == (1, builder_sink(driver), "out")
    assert 7 in (record.key, record.value)
    assert Production.settings["errors.dead.letter.queue.topic.name"] == "dlq"


def builder_sink(driver: TopologyTestDriver) -> str:
    (part,) = driver._topology.sub_topologies
    (sink,) = part.sinks
    return sink.name


def test_continue_as_a_production_handler_writes_a_dead_letter_with_the_input_records_bytes() -> None:
    settings = {"production.exception.handler": "continue", "errors.dead.letter.queue.topic.name": "dlq"}
    with TopologyTestDriver(copied(value_serde=LongSerde()), settings) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch([TestRecord("a", "1", 1)])
        (record,) = driver.create_output_topic("dlq", TEXT, TEXT).read_records()
    headers = dict(record.headers)
    assert (record.key, record.value) == ("a", "1")
    assert headers["__streams.errors.exception"] == b"millrace.errors.SerializationError"
    assert headers["__streams.errors.topic"] == b"in"


def test_retry_counts_as_fail_where_another_attempt_would_give_the_same() -> None:
    settings = {"production.exception.handler": f"{HERE}:Production"}
    with TopologyTestDriver(copied(value_serde=LongSerde()), settings) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(SerializationError, match="cannot write a value"):
            topic.pipe_input("a", "retry")


def test_a_handler_class_that_knows_nothing_of_serialization_fails_there() -> None:
    settings = {"production.exception.handler": f"{HERE}:OnlySends"}
    with TopologyTestDriver(copied(value_serde=LongSerde()), settings) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(SerializationError, match="cannot write a value"):
            topic.pipe_input("a", "1")


def test_a_record_that_is_larger_than_its_topic_takes_is_left_to_the_production_handler() -> None:
    settings = {"production.exception.handler": f"{HERE}:Production"}
    with TopologyTestDriver(copied(), settings, max_message_bytes={"out": 1_000}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_batch(
            [TestRecord("a", "1", 1), TestRecord("b", "x" * 2_000, 2), TestRecord("c", "3", 3)]
        )
        assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == [("a", "1"), ("c", "3")]
        (written,) = driver.create_output_topic("mine", TEXT, TEXT).read_records()
        assert driver.dropped == {DropReason.PRODUCTION: 1}
    ((context, record, error),) = seen
    assert isinstance(error, RecordTooLargeError)
    assert (context.offset, record.topic, record.value) == (1, "out", b"x" * 2_000)
    assert written.value == "x" * 2_000


def test_without_a_handler_a_record_that_is_too_large_stops_the_batch() -> None:
    with TopologyTestDriver(copied(), max_message_bytes={"out": 1_000}) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(RecordTooLargeError, match="topic out has 2"):
            topic.pipe_input("a", "x" * 2_000)


def test_a_changelog_record_that_is_too_large_is_the_production_handlers_as_well() -> None:
    builder = StreamsBuilder()
    builder.table("in", Consumed.with_(TEXT, TEXT), Materialized.as_("table"))
    topology = builder.build()
    limits = {"topology-test-driver-table-changelog": 1_000}
    with TopologyTestDriver(topology, max_message_bytes=limits) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(RecordTooLargeError, match="table-changelog"):
            topic.pipe_input("a", "x" * 2_000)
    settings = {"production.exception.handler": f"{HERE}:Production"}
    with TopologyTestDriver(topology, settings, max_message_bytes=limits) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "x" * 2_000)
        assert driver.changelogs["topology-test-driver-table-changelog"] == []
    assert seen[-1][0].topic is None


@pytest.mark.parametrize(
    "name",
    ["continue", "LogAndContinueExceptionHandler", "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"],
)
@pytest.mark.parametrize("key", ["deserialization.exception.handler", "default.deserialization.exception.handler"])
def test_built_in_handlers_have_kafka_streams_names_too(name: str, key: str) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, JSON)).to("out", Produced.with_(TEXT, JSON))
    with TopologyTestDriver(builder.build(), {key: name}) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("a", "{")
        assert driver.dropped == {DropReason.DESERIALIZATION: 1}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no.such.module:handler", "ModuleNotFoundError"),
        (f"{HERE}:missing", "AttributeError"),
        (f"{HERE}:seen", "cannot be called and has no handle_error"),
    ],
)
def test_a_handler_that_is_not_there_is_refused_when_the_task_is_made(name: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        TopologyTestDriver(copied(), {"production.exception.handler": name})


def test_a_handler_by_an_unknown_short_name_is_refused_in_the_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"processing\.exception\.handler"):
        StreamsConfig.from_mapping(
            {"application.id": "a", "bootstrap.servers": "b:1", "processing.exception.handler": "carry on"}
        )
