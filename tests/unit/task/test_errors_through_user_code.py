"""Errors that user code meets and is not to blame for pass through it, whatever the handlers say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from millrace.dsl import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    Grouped,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    ValueTransformerWithKey,
)
from millrace.errors import (
    MillraceError,
    ProcessingError,
    SerializationError,
    StateCorruptedError,
    StateError,
    TransactionAbortedError,
)
from millrace.handlers import ErrorHandlerContext, Response
from millrace.metrics import DropReason
from millrace.serdes import BytesSerde, StringSerde, serde_from
from millrace.state import TaskPosition, TaskState
from millrace.testing import TestRecord, TopologyTestDriver
from tests.damage import flip_middle
from tests.sqlite_store import SqliteStore

S = StringSerde()
CONTINUE = {
    "deserialization.exception.handler": "continue",
    "processing.exception.handler": "continue",
    "production.exception.handler": "continue",
    "errors.dead.letter.queue.topic.name": "dead",
    "errors.dead.letter.queue.dropped.records": "all",
}
DAMAGED = StateCorruptedError("The database is damaged.", remedy="none needed")


def _as_it_is(error: MillraceError) -> None:
    raise error


def _wrapped(error: MillraceError) -> None:
    raise ValueError("cannot look it up") from error


def _in_a_clause(error: MillraceError) -> None:
    try:
        raise error
    except MillraceError:
        raise KeyError("cannot look it up") from None


def _in_a_group(error: MillraceError) -> None:
    raise ExceptionGroup("two look-ups", [ValueError("one"), error])


class Raising:
    """Fails in its way at the value ``bad``, wherever it is among the arguments; else gives its result."""

    def __init__(self, way: Callable[[MillraceError], None], error: MillraceError, result: Any = "ok") -> None:
        self._way = way
        self._error = error
        self._result = result

    def __call__(self, *arguments: Any) -> Any:
        if any(argument in ("bad", b"bad") for argument in arguments if isinstance(argument, str | bytes)):
            self._way(self._error)
        return self._result(*arguments) if callable(self._result) else self._result


Fails = Callable[..., Any]
"""Makes the function that fails: of its result."""
Define = Callable[[StreamsBuilder, KStream, Fails], Any]


def _table(builder: StreamsBuilder) -> KTable:
    return builder.table("table", Consumed.with_(S, S))


def _grouped(stream: KStream) -> Any:
    return stream.group_by_key(Grouped.with_(S, S))


def _store() -> Materialized:
    return Materialized.with_(S, S)


def _own_value(_: Any, value: Any) -> Any:
    return value


def _processor(fails: Fails) -> Callable[[], Processor[Any, Any]]:
    act = fails("ok")

    class Here(Processor[Any, Any]):
        def process(self, record: Record[Any, Any], /) -> None:
            self.context.forward(record.with_value(act(record.value)))

    return Here


def _fixed(fails: Fails) -> Callable[[], FixedKeyProcessor[Any, Any]]:
    act = fails("ok")

    class Here(FixedKeyProcessor[Any, Any]):
        def process(self, record: FixedKeyRecord[Any, Any], /) -> None:
            self.context.forward(record.with_value(act(record.value)))

    return Here


def _punctuating(fails: Fails) -> Callable[[], Processor[Any, Any]]:
    act = fails("ok")

    class Here(Processor[Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            self.last = ""
            context.schedule(1, PunctuationType.STREAM_TIME, lambda _: act(self.last))

        def process(self, record: Record[Any, Any], /) -> None:
            self.last = record.value

    return Here


def _transformer(fails: Fails) -> Callable[[], ValueTransformerWithKey[Any, Any, Any]]:
    act = fails("ok")

    class Here(ValueTransformerWithKey[Any, Any, Any]):
        def transform(self, key: Any, value: Any, /) -> Any:
            return act(value)

    return Here


NEAR = JoinWindows.of_time_difference_and_grace(10, 5)
TUMBLING = TimeWindows.of_size_and_grace(10, 5)
SLIDING = SlidingWindows.of_time_difference_and_grace(10, 5)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(10, 5)
WINDOWED = Materialized.with_(S, S)

PLACES: dict[str, Define] = {
    "filter": lambda _, stream, fails: stream.filter(fails(True)),
    "filter_not": lambda _, stream, fails: stream.filter_not(fails(True)),
    "map": lambda _, stream, fails: stream.map(fails(("k", "v"))),
    "map_values": lambda _, stream, fails: stream.map_values(fails()),
    "flat_map": lambda _, stream, fails: stream.flat_map(fails([("k", "v")])),
    "flat_map_values": lambda _, stream, fails: stream.flat_map_values(fails(["v"])),
    "select_key": lambda _, stream, fails: stream.select_key(fails()),
    "peek": lambda _, stream, fails: stream.peek(fails()),
    "foreach": lambda _, stream, fails: stream.foreach(fails()),
    "branch": lambda _, stream, fails: stream.split().branch(fails(True)),
    "group_by": lambda _, stream, fails: stream.group_by(fails(), Grouped.with_(S, S)).count(),
    "process": lambda _, stream, fails: stream.process(_processor(fails)),
    "process_values": lambda _, stream, fails: stream.process_values(_fixed(fails)),
    "a punctuation": lambda _, stream, fails: stream.process(_punctuating(fails)),
    "reduce": lambda _, stream, fails: _grouped(stream).reduce(fails(), _store()),
    "aggregate": lambda _, stream, fails: _grouped(stream).aggregate(str, fails(), _store()),
    "a tumbling reduce": lambda _, stream, fails: _grouped(stream).windowed_by(TUMBLING).reduce(fails(), WINDOWED),
    "a tumbling aggregate": lambda _, stream, fails: (
        _grouped(stream).windowed_by(TUMBLING).aggregate(str, fails(), WINDOWED)
    ),
    "a sliding aggregate": lambda _, stream, fails: (
        _grouped(stream).windowed_by(SLIDING).aggregate(str, fails(), WINDOWED)
    ),
    "an adder of sessions": lambda _, stream, fails: (
        _grouped(stream).windowed_by(SESSIONS).aggregate(str, fails(), lambda key, one, two: one + two, WINDOWED)
    ),
    "a merger of sessions": lambda _, stream, fails: (
        _grouped(stream)
        .windowed_by(SESSIONS)
        .aggregate(lambda: "bad", lambda key, value, aggregate: value, fails(), WINDOWED)
    ),
    "a cogroup": lambda _, stream, fails: _grouped(stream).cogroup(fails()).aggregate(str, _store()),
    "a left join with a table": lambda builder, stream, fails: stream.left_join(_table(builder), fails()),
    "a join with a global table": lambda builder, stream, fails: stream.left_join(
        builder.global_table("global", Consumed.with_(S, S)), lambda key, value: key, fails()
    ),
    "the key of a join with a global table": lambda builder, stream, fails: stream.left_join(
        builder.global_table("global", Consumed.with_(S, S)), fails(), lambda left, right: left
    ),
    "a join of streams": lambda _, stream, fails: stream.join(stream.filter(lambda key, value: True), fails(), NEAR),
    "a join of a stream with itself": lambda _, stream, fails: stream.join(stream, fails(), NEAR),
    "map_values of a table": lambda _, stream, fails: stream.to_table(_store()).map_values(fails()).to_stream(),
    "filter of a table": lambda _, stream, fails: stream.to_table(_store()).filter(fails(True)).to_stream(),
    "transform_values of a table": lambda _, stream, fails: (
        stream.to_table(_store()).transform_values(_transformer(fails)).to_stream()
    ),
    "group_by of a table": lambda _, stream, fails: (
        stream.to_table(_store()).group_by(fails(("k", "v")), Grouped.with_(S, S)).count()
    ),
    "the adder of a grouped table": lambda _, stream, fails: (
        stream.to_table(_store())
        .group_by(lambda key, value: (key, value), Grouped.with_(S, S))
        .aggregate(str, fails(), lambda key, value, aggregate: aggregate, _store())
    ),
    "a join of tables": lambda builder, stream, fails: (
        stream.to_table(_store()).left_join(_table(builder), fails()).to_stream()
    ),
    "the key of a foreign-key join": lambda builder, stream, fails: stream.to_table(_store()).left_join(
        _table(builder), lambda left, right: left, foreign_key_extractor=fails(), materialized=_store()
    ),
    "the joiner of a foreign-key join": lambda builder, stream, fails: stream.to_table(_store()).left_join(
        _table(builder), fails(), foreign_key_extractor=_own_value, materialized=_store()
    ),
    "a topic name extractor": lambda _, stream, fails: stream.to(fails("out"), Produced.with_(S, S)),
    "a partitioner": lambda _, stream, fails: stream.to("out", Produced.with_(S, S).with_stream_partitioner(fails(0))),
    "a serializer": lambda _, stream, fails: stream.to("out", Produced.with_(S, serde_from(fails(b"v"), bytes))),
    "the serializer of a store": lambda _, stream, fails: stream.to_table(
        Materialized.as_("rows").with_key_serde(S).with_value_serde(serde_from(fails(b"v"), bytes.decode))
    ),
}


def _fails(way: Callable[[MillraceError], None], error: MillraceError) -> Fails:
    return lambda result="ok": Raising(way, error, result)


def _piped(topology: Any, settings: dict[str, Any] | None = None) -> TopologyTestDriver:
    driver = TopologyTestDriver(topology, CONTINUE | (settings or {}))
    topic = driver.create_input_topic("in", S, S)
    topic.pipe_batch([TestRecord("a", "good", 1), TestRecord("a", "bad", 2)])
    return driver


def _built(place: str, fails: Fails) -> Any:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(S, S))
    PLACES[place](builder, stream, fails)
    return builder.build()


@pytest.mark.parametrize("way", [_as_it_is, _wrapped, _in_a_clause, _in_a_group])
@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_the_state_stops_the_batch_wherever_user_code_meets_it(
    place: str, way: Callable[[MillraceError], None]
) -> None:
    with pytest.raises(StateCorruptedError) as caught:
        _piped(_built(place, _fails(way, DAMAGED)))
    assert caught.value is DAMAGED


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_user_code_is_the_handlers(place: str) -> None:
    reason = DropReason.PRODUCTION if place == "a serializer" else DropReason.PROCESSING
    with _piped(_built(place, _fails(_as_it_is, ProcessingError("own fault")))) as driver:
        assert driver.dropped[reason] >= 1
        assert driver.create_output_topic("dead", BytesSerde(), BytesSerde()).read_records()


@pytest.mark.parametrize("error", [StateError("disk"), TransactionAbortedError("fenced")])
def test_other_errors_of_ours_pass_too(error: MillraceError) -> None:
    with pytest.raises(type(error)) as caught:
        _piped(_built("process", _fails(_wrapped, error)))
    assert caught.value is error


def failing_handler(context: ErrorHandlerContext, record: object, error: Exception) -> Response:
    try:
        raise DAMAGED
    except StateCorruptedError as damage:
        raise RuntimeError("cannot look up what to do") from damage


@pytest.mark.parametrize("kind", ["deserialization", "processing", "production"])
def test_handlers_let_them_pass(kind: str) -> None:
    builder = StreamsBuilder()
    unreadable = serde_from(str.encode, Raising(_as_it_is, SerializationError("not text"), bytes.decode))
    unwritable = serde_from(Raising(_as_it_is, SerializationError("not bytes"), str.encode), bytes.decode)
    stream = builder.stream("in", Consumed.with_(S, unreadable if kind == "deserialization" else S))
    if kind == "processing":
        stream = stream.map_values(Raising(_as_it_is, ProcessingError("own fault")))
    stream.to("out", Produced.with_(S, unwritable if kind == "production" else S))
    with pytest.raises(StateCorruptedError):
        _piped(builder.build(), {f"{kind}.exception.handler": f"{__name__}:failing_handler"})


def test_timestamp_extractors_and_deserializers_let_them_pass() -> None:
    for way in (_as_it_is, _wrapped):
        builder = StreamsBuilder()
        consumed = Consumed.with_(S, S).with_timestamp_extractor(Raising(way, DAMAGED, 5))
        builder.stream("in", consumed).to("out")
        with pytest.raises(StateCorruptedError):
            _piped(builder.build())
        builder = StreamsBuilder()
        builder.stream("in", Consumed.with_(S, serde_from(str.encode, Raising(way, DAMAGED, "v")))).to("out")
        with pytest.raises(StateCorruptedError):
            _piped(builder.build())


def test_a_processor_that_meets_one_in_init_lets_it_pass() -> None:
    class Here(Processor[Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            _wrapped(DAMAGED)

        def process(self, record: Record[Any, Any], /) -> None: ...

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(S, S)).process(Here)
    with pytest.raises(StateCorruptedError):
        TopologyTestDriver(builder.build(), CONTINUE)


# ---- damage on the disk

ENTRIES = 20_000
KEYS = [b"%06d" % number for number in range(ENTRIES)]
TOTALS = Stores.key_value_store_builder(Stores.persistent_key_value_store("totals"), S, S)


class Reading(Processor[str, str]):
    """Reads the store in a way that the test names, and lets what it meets pass or not."""

    read: Callable[[Any], Any]
    way: str

    def process(self, record: Record[str, str], /) -> None:
        self.run()
        self.context.forward(record)

    def run(self) -> None:
        try:
            type(self).read(self.context.get_state_store("totals"))
        except StateError as error:
            if self.way == "lets it pass":
                raise
            if self.way == "raises another":
                raise ValueError("no totals") from error


def _damaged_topology(read: Callable[[Any], Any], way: str, *, in_punctuation: bool) -> Topology:
    class Here(Reading):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            if in_punctuation:
                context.schedule(1, PunctuationType.STREAM_TIME, lambda _: self.run())

        def process(self, record: Record[str, str], /) -> None:
            if not in_punctuation:
                super().process(record)

    Here.read, Here.way = staticmethod(read), way
    topology = Topology().add_source("source", "in", key_serde=S, value_serde=S)
    topology.add_processor("process", Here, "source").add_state_store(TOTALS, "process")
    return topology.add_sink("sink", "out", "process", key_serde=S, value_serde=S)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory whose store has a block that does not fit its checksum."""
    directory = tmp_path_factory.mktemp("damaged")
    random = np.random.default_rng(3)
    for _ in range(2):  # what is in the write-ahead log comes into a table when the database is opened
        state = TaskState.open(directory / "0_0", [TOTALS.spec])
        if not state.position.inputs:
            values: list[bytes | None] = [random.bytes(20).hex().encode() for _ in KEYS]
            state.key_value_store("totals").put_many(KEYS, values, np.zeros(ENTRIES, np.int64))
            state.drain_changelog()
            state.commit(TaskPosition(inputs={("in", 0): 1}))
        state.close()
    assert flip_middle(directory / "0_0")
    return directory


READS: dict[str, Callable[[Any], Any]] = {
    "get": lambda store: [store.get(key.decode()) for key in KEYS],
    "all": lambda store: list(store.all()),
    "range": lambda store: list(store.range("000005", "019999")),
    "reverse_all": lambda store: list(store.reverse_all()),
    "prefix_scan": lambda store: list(store.prefix_scan("0")),
    "delete": lambda store: [store.delete(key.decode()) for key in KEYS],
    "put_if_absent": lambda store: [store.put_if_absent(key.decode(), "1") for key in KEYS],
}


@pytest.mark.parametrize("in_punctuation", [False, True], ids=["in process", "in a punctuation"])
@pytest.mark.parametrize("handler", ["continue", "fail"])
@pytest.mark.parametrize("way", ["lets it pass", "raises another", "goes on"])
@pytest.mark.parametrize("read", READS)
def test_damaged_bytes_that_a_processor_meets_are_no_failure_of_its_record(
    read: str, way: str, handler: str, in_punctuation: bool, damaged: Path, tmp_path: Path
) -> None:
    if read != "get" and (way, handler, in_punctuation) not in (
        ("lets it pass", "continue", False),
        ("goes on", "fail", True),
    ):
        return
    _copy(damaged, tmp_path)
    topology = _damaged_topology(READS[read], way, in_punctuation=in_punctuation)
    driver = TopologyTestDriver(
        topology, CONTINUE | {"processing.exception.handler": handler}, state_directory=tmp_path
    )
    with driver:
        with pytest.raises(StateCorruptedError, match="is damaged"):
            driver.create_input_topic("in", S, S).pipe_batch([TestRecord("a", "v", 5)])
        assert driver.create_output_topic("dead", S, S).read_records() == []
    # Nothing that was raised keeps the files from being opened again.
    state = TaskState.open(tmp_path / "0_0", [TOTALS.spec])
    state.wipe()
    state.close()


def _copy(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file() and path.name != "LOCK":
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())


def test_stored_bytes_that_the_serde_cannot_read_are_no_failure_of_a_record() -> None:
    class Here(Processor[str, str]):
        def process(self, record: Record[str, str], /) -> None:
            store = self.context.get_state_store("totals")
            if record.value == "bad":
                list(store.all())
            store.put(record.key, record.value)

    unreadable = serde_from(str.encode, Raising(_as_it_is, SerializationError("an older layout"), "v"))
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("totals"), S, unreadable)
    builder = StreamsBuilder()
    builder.add_state_store(store).stream("in", Consumed.with_(S, S)).process(Here, "totals")
    with TopologyTestDriver(builder.build(), CONTINUE) as driver:
        topic = driver.create_input_topic("in", S, S)
        topic.pipe_input("a", "bad", 1)
        with pytest.raises(
            StateError, match="Store totals holds 3 bytes that FunctionSerde cannot read: an older layout"
        ):
            topic.pipe_input("a", "bad", 2)


# ---- stores of the user's own


class FailingStore(SqliteStore):
    """Raises at a read of ``bad`` what the test names, and at scans."""

    error: Exception = OSError("disk gone")

    def get(self, key: bytes) -> bytes | None:
        if key == b"bad":
            raise self.error
        return super().get(key)

    def range(self, from_key: bytes, before: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        yield from super().range(from_key, before)
        if from_key == b"bad":
            raise self.error


@pytest.mark.parametrize("read", ["get", "range"])
@pytest.mark.parametrize(
    ("error", "kind", "problem"),
    [
        (OSError("disk gone"), StateError, r"The store own \(Failing\) failed at a (read|scan): OSError: disk gone"),
        (DAMAGED, StateCorruptedError, "The database is damaged"),
    ],
)
def test_what_a_store_of_the_users_own_raises_is_no_failure_of_a_record(
    read: str, error: Exception, kind: type[StateError], problem: str, tmp_path: Path
) -> None:
    class Failing(FailingStore):
        pass

    class Here(Processor[str, str]):
        def process(self, record: Record[str, str], /) -> None:
            store = self.context.get_state_store("own")
            found = store.get(record.value) if read == "get" else list(store.range(record.value, None))
            assert not found

    Failing.error = error
    store = Stores.key_value_store_builder(Stores.custom_key_value_store("own", Failing), S, S)
    builder = StreamsBuilder()
    builder.add_state_store(store).stream("in", Consumed.with_(S, S)).process(Here, "own")
    # What the store is known to hold is not asked for: there must be something in it.
    with TopologyTestDriver(builder.build(), CONTINUE, state_directory=tmp_path) as driver:
        state = driver._tasks[0].state
        state.restore_batch("own", [b"a"], [b"v"], np.zeros(1, np.int64))
        with pytest.raises(kind, match=problem):
            driver.create_input_topic("in", S, S).pipe_batch([TestRecord("x", "good", 1), TestRecord("x", "bad", 2)])
        assert state.is_damaged == (kind is StateCorruptedError)
        state.wipe()
        assert not state.is_damaged
