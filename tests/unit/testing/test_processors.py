"""Processors of users: their life, their context, their stores, and what is refused."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from millrace.dsl import (
    Consumed,
    FixedKeyProcessor,
    FixedKeyRecord,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    RecordMetadata,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    Topology,
    ValueAndTimestamp,
    ValueTransformerWithKey,
)
from millrace.dsl import aggregators as agg
from millrace.errors import ProcessingError, TopologyError
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology.topology import FrozenTopology

S, L = StringSerde(), LongSerde()
TOTALS = Stores.key_value_store_builder(Stores.in_memory_key_value_store("totals"), S, L)


class Remembering(Processor[str, int]):
    """Counts in a field and in a store, and fails at 13."""

    made: ClassVar[list[Remembering]] = []

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.count = 0
        self.closed = 0
        self.made.append(self)
        context.schedule(10, PunctuationType.STREAM_TIME, self.punctuate)

    def process(self, record: Record[str, int], /) -> None:
        self.count += 1
        totals = self.context.get_state_store("totals")
        totals.put(record.key, (totals.get(record.key) or 0) + record.value)
        self.context.forward(record.with_value(self.count))
        if record.value == 13:
            raise ValueError("13")

    def punctuate(self, now: int) -> None:
        self.context.forward(Record("punctuation", self.count, now))

    def close(self) -> None:
        self.closed += 1


def _driver(processor: Any, *stores: StoreBuilder, **settings: Any) -> TopologyTestDriver:
    topology = Topology().add_source("source", "in", key_serde=S, value_serde=L)
    topology.add_processor("process", processor, "source")
    for store in stores:
        topology.add_state_store(store, "process")
    topology.add_sink("sink", "out", "process", key_serde=S, value_serde=L)
    return TopologyTestDriver(topology, {key.replace("_", "."): value for key, value in settings.items()})


def _pipe(driver: TopologyTestDriver, *records: tuple[str, int, int]) -> None:
    driver.create_input_topic("in", S, L).pipe_batch([TestRecord(*record) for record in records])


def _out(driver: TopologyTestDriver) -> list[tuple[Any, Any, int | None]]:
    return [
        (record.key, record.value, record.timestamp)
        for record in driver.create_output_topic("out", S, L).read_records()
    ]


def test_after_a_failed_batch_a_processor_is_made_anew() -> None:
    Remembering.made.clear()
    with _driver(Remembering, TOTALS) as driver:
        _pipe(driver, ("a", 1, 25), ("a", 2, 26))
        with pytest.raises(ProcessingError, match="node process, failed at the record at in-0 offset 3"):
            _pipe(driver, ("a", 4, 31), ("a", 13, 32), ("a", 8, 33))
        first, *others = Remembering.made
        assert first.closed == 1
        assert others == []
        assert driver.key_value_store("totals").all() == {"a": 3}
        _pipe(driver, ("a", 16, 27))
        assert driver.key_value_store("totals").all() == {"a": 19}
        second = Remembering.made[1]
        assert second.count == 1
        # It schedules again, and stream time goes on from the last batch that was committed.
        assert _out(driver) == [
            ("a", 1, 25),
            ("punctuation", 1, 25),
            ("a", 2, 26),
            ("a", 1, 27),
            ("punctuation", 1, 27),
        ]
    assert second.closed == 1


def test_the_context_tells_where_the_processor_is() -> None:
    seen: dict[str, Any] = {}

    class Looking(Processor[str, int]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            seen["in init"] = (context.record_metadata(), context.current_stream_time_ms())

        def process(self, record: Record[str, int], /) -> None:
            context = self.context
            seen["task"] = (context.application_id, context.task_id, context.state_dir)
            seen["configs"] = context.app_configs()["processing.guarantee"]
            seen["with prefix"] = context.app_configs_with_prefix("producer.")
            seen["metadata"] = context.record_metadata()
            seen["stream time"] = context.current_stream_time_ms()
            context.commit()

    with _driver(Looking, producer_linger="5") as driver:
        _pipe(driver, ("a", 1, 30), ("b", 2, 20))
    assert seen == {
        "in init": (None, -1),
        "task": ("topology-test-driver", "0_0", None),
        "configs": "exactly_once_v2",
        "with prefix": {"linger": "5"},
        "metadata": RecordMetadata("in", 0, 1),
        "stream time": 30,
    }


def test_in_a_punctuation_there_is_no_input_record() -> None:
    seen: list[Any] = []

    class Punctuating(Processor[str, int]):
        def init(self, context: ProcessorContext) -> None:
            super().init(context)
            context.schedule(10, PunctuationType.STREAM_TIME, lambda _: seen.append(context.record_metadata()))

        def process(self, record: Record[str, int], /) -> None:
            seen.append(self.context.record_metadata())

    with _driver(Punctuating) as driver:
        _pipe(driver, ("a", 1, 5))
    assert seen == [RecordMetadata("in", 0, 0), None]


class _Misbehaving(Processor[str, int]):
    def __init__(self, action: Any) -> None:
        self._action = action

    def process(self, record: Record[str, int], /) -> None:
        self._action(self.context, record)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda context, record: context.get_state_store("other"), "no access to store other"),
        (lambda context, record: context.forward(record, "nowhere"), "no child 'nowhere'; it has sink"),
        (lambda context, record: context.forward((1, 2)), "forwards tuple, not a Record"),
        (lambda context, record: context.schedule(0, PunctuationType.STREAM_TIME, print), "every 0 ms"),
        (lambda context, record: context.schedule(1, PunctuationType.STREAM_TIME, 5), "5, which cannot be called"),
        (lambda context, record: record.with_timestamp(-1), "timestamp -1 ms"),
        (lambda context, record: context.get_state_store("totals").put(None, 1), "asked for the key None"),
        (lambda context, record: context.get_state_store("stamped").put("a", 1), "write a ValueAndTimestamp"),
    ],
)
def test_misuse_is_an_error_that_says_what_to_do(action: Any, message: str) -> None:
    stamped = Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("stamped"), S, L)
    with (
        _driver(lambda: _Misbehaving(action), TOTALS, stamped) as driver,
        pytest.raises(ProcessingError, match="node process, failed") as raised,
    ):
        _pipe(driver, ("a", 1, 5))
    assert message in str(raised.value)


def test_a_processor_with_a_fixed_key_keeps_it() -> None:
    class Renaming(FixedKeyProcessor[str, int]):
        def process(self, record: FixedKeyRecord[str, int], /) -> None:
            self.context.forward(record if record.value else FixedKeyRecord("other", 1, record.timestamp))

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(S, L)).process_values(Renaming).to("out", Produced.with_(S, L))
    with TopologyTestDriver(builder.build()) as driver:
        _pipe(driver, ("a", 1, 5))
        with pytest.raises(ProcessingError, match="forwards the key 'other' for a record with the key 'a'"):
            _pipe(driver, ("a", 0, 6))


def test_a_processor_that_cannot_be_initialised_stops_the_task() -> None:
    class Failing(Processor[str, int]):
        def init(self, context: ProcessorContext) -> None:
            raise ValueError("no")

        def process(self, record: Record[str, int], /) -> None: ...

    with pytest.raises(ProcessingError, match="processor process cannot be initialised: ValueError: no"):
        _driver(Failing)


def test_a_processor_does_not_write_what_an_aggregation_needs_to_go_on() -> None:
    values = JsonSerde()

    class Writing(Processor[str, Any]):
        def process(self, record: Record[str, Any], /) -> None:
            store = self.context.get_state_store("averages")
            found = store.get(record.key)
            self.context.forward(record.with_value(found.value))
            if record.value == 9:
                store.put(record.key, ValueAndTimestamp(1.5, 0))

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(S, values))
    stream.group_by_key().aggregate(agg.avg(), materialized=Materialized.as_("averages"))
    stream.process(Writing, "averages").to("out", Produced.with_(S, values))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", S, values)
        topic.pipe_batch([TestRecord("a", 1, 1), TestRecord("a", 4, 2)])
        assert [record.value for record in driver.create_output_topic("out", S, values).read_records()] == [1.0, 2.5]
        with pytest.raises(ProcessingError, match="what an aggregation needs to go on"):
            topic.pipe_batch([TestRecord("a", 9, 3)])


class Pass(Processor[Any, Any]):
    def process(self, record: Record[Any, Any], /) -> None:
        self.context.forward(record)


SHARED = Pass()
OTHER_TOTALS = Stores.key_value_store_builder(Stores.in_memory_key_value_store("totals"), S, S)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda t: t.add_source("source", "more"), "'source' is already added"),
        (lambda t: t.add_source("more"), "reads no topic"),
        (lambda t: t.add_source("more", "in"), "already been registered by another source"),
        (lambda t: t.add_source("more", "x", "x"), "already been registered by another source"),
        (lambda t: t.add_processor("more", Pass), "at least one parent"),
        (lambda t: t.add_processor("more", Pass, "more"), "cannot be its own parent"),
        (lambda t: t.add_processor("more", Pass, "nobody"), "'nobody' of 'more' is not added yet"),
        (lambda t: t.add_processor("more", Pass, "sink"), "sink 'sink' cannot be a parent"),
        (lambda t: t.add_processor("more", Pass, "source", "source"), "names a parent twice"),
        (lambda t: t.add_processor("more", lambda: SHARED, "source"), "the same object at each call"),
        (lambda t: t.add_processor("more", SHARED, "source"), "not callable"),
        (lambda t: t.add_sink("more", "out"), "at least one parent"),
        (lambda t: t.add_sink("process", "out", "source"), "'process' is already added"),
        (lambda t: t.add_state_store(OTHER_TOTALS), "A different store has already been added"),
        (lambda t: t.add_state_store(TOTALS, "nobody"), "'nobody' is not added yet"),
        (lambda t: t.add_state_store(TOTALS, "sink"), "which is a source or a sink"),
        (lambda t: t.connect_processor_and_state_stores("process"), "connected to no store"),
        (lambda t: t.connect_processor_and_state_stores("process", "none"), "'none' is not added yet"),
    ],
)
def test_a_topology_put_together_by_hand_is_checked_step_by_step(step: Any, message: str) -> None:
    topology = Topology().add_source("source", "in").add_processor("process", Pass, "source")
    topology.add_sink("sink", "out", "process").add_state_store(TOTALS)
    with pytest.raises(TopologyError) as raised:
        step(topology)
    assert message in str(raised.value)


def test_an_empty_topology_cannot_be_built() -> None:
    with pytest.raises(TopologyError, match="The topology is empty"):
        Topology().build()


def test_streams_refuse_unknown_stores_and_shared_processors() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in")
    with pytest.raises(TopologyError, match="the same object at each call"):
        stream.process(lambda: SHARED)
    builder.add_state_store(TOTALS)
    with pytest.raises(TopologyError, match="A different store has already been added"):
        builder.add_state_store(OTHER_TOTALS)
    stream.process(Pass, "missing", named="mine")
    with pytest.raises(TopologyError, match="Node 'mine' uses store 'missing', which is unknown"):
        builder.build()


def test_a_plain_callable_gets_no_stores() -> None:
    builder = StreamsBuilder()
    with pytest.raises(TopologyError, match="cannot be connected to a plain callable"):
        builder.table("in").transform_values(lambda key, value: value, "totals")


def test_the_table_of_a_transformer_is_looked_up_only_where_it_is_stored() -> None:
    class Transform(ValueTransformerWithKey[Any, Any, Any]):
        def transform(self, key: Any, value: Any, /) -> Any:
            return value

    builder = StreamsBuilder()
    table = builder.table("table").transform_values(Transform)
    builder.stream("in").join(table, lambda value, other: value).to("out")
    with pytest.raises(TopologyError, match="a transformer computes and nothing stores"):
        builder.build()


def test_window_stores_keep_their_windows_long_enough() -> None:
    with pytest.raises(TopologyError, match="a retention of 5 ms"):
        Stores.persistent_window_store("windows", 5, 10)
    with pytest.raises(TopologyError, match="windows of 0 ms") as error:
        Stores.persistent_window_store("windows", 5, 0)
    assert "at least 1 ms" in str(error.value.remedy)
    with pytest.raises(TopologyError, match="makes a key-value store, not a session store"):
        Stores.session_store_builder(Stores.in_memory_key_value_store("x"), S, S)


class Filling(Processor[str, int]):
    def process(self, record: Record[str, int], /) -> None:
        store = self.context.get_state_store("prices")
        store.put(record.key, None if record.value is None else record.value * 100)


class Pricing(Processor[str, int]):
    def process(self, record: Record[str, int], /) -> None:
        store = self.context.get_state_store("prices")
        self.context.forward(record.with_value(store.get(record.key) or -1))
        assert not hasattr(store, "put")


PRICES = Stores.key_value_store_builder(Stores.in_memory_key_value_store("prices"), S, L).with_logging_disabled()


def _global_by_hand() -> FrozenTopology:
    topology = Topology().add_source("source", "in", key_serde=S, value_serde=L)
    topology.add_processor("price", Pricing, "source").add_sink("sink", "out", "price", key_serde=S, value_serde=L)
    topology.add_global_store(PRICES, "prices-in", "prices", "fill", Filling, key_serde=S, value_serde=L)
    return topology.build()


def _global_by_builder() -> FrozenTopology:
    builder = StreamsBuilder()
    builder.add_global_store(PRICES, "prices", Consumed.with_(S, L), Filling)
    builder.stream("in", Consumed.with_(S, L)).process(Pricing).to("out", Produced.with_(S, L))
    return builder.build()


@pytest.mark.parametrize("topology", [_global_by_hand, _global_by_builder])
def test_a_processor_fills_a_global_store_and_others_read_it(topology: Any) -> None:
    with TopologyTestDriver(topology()) as driver:
        prices = driver.create_input_topic("prices", S, L)
        _pipe(driver, ("a", 1, 5))
        prices.pipe_batch([TestRecord("a", 7, 1), TestRecord("b", 8, 2)])
        _pipe(driver, ("a", 1, 6), ("b", 1, 7))
        prices.pipe_batch([TestRecord("a", None, 3)])
        _pipe(driver, ("a", 1, 8))
        assert _out(driver) == [("a", -1, 5), ("a", 700, 6), ("b", 800, 7), ("a", -1, 8)]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda t: t.add_global_store(PRICES, "x", "prices", "x", Pass), "both named 'x'"),
        (lambda t: t.add_global_store(TOTALS, "x", "prices", "y", Pass), "is logged"),
        (lambda t: t.add_global_store(PRICES, "x", "in", "y", Pass), "registered by another source"),
        (lambda t: t.add_global_store(PRICES, "source", "prices", "y", Pass), "'source' is already added"),
        (lambda t: t.add_processor("more", Pass, "global"), "feeds a global store"),
        (lambda t: t.add_processor("more", Pass, "global-in"), "feeds a global store"),
        (lambda t: t.connect_processor_and_state_stores("process", "kept"), "every processor may read it"),
    ],
)
def test_global_stores_put_together_by_hand_are_checked(step: Any, message: str) -> None:
    kept = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), S, L).with_logging_disabled()
    topology = Topology().add_source("source", "in").add_processor("process", Pass, "source")
    topology.add_global_store(kept, "global-in", "global-topic", "global", Pass)
    with pytest.raises(TopologyError) as raised:
        step(topology)
    assert message in str(raised.value)


def test_the_partitioner_of_a_sink_is_asked_and_must_name_a_partition_that_exists() -> None:
    asked: list[Any] = []

    def choose(topic: str, key: Any, value: Any, partitions: int) -> int:
        asked.append((topic, key, value, partitions))
        return 0 if value < 10 else 1

    topology = Topology().add_source("source", "in", key_serde=S, value_serde=L)
    topology.add_sink("sink", "out", "source", key_serde=S, value_serde=L, partitioner=choose)
    with TopologyTestDriver(topology) as driver:
        _pipe(driver, ("a", 1, 5), ("b", 2, 6))
        assert asked == [("out", "a", 1, 1), ("out", "b", 2, 1)]
        assert _out(driver) == [("a", 1, 5), ("b", 2, 6)]
        with pytest.raises(ProcessingError, match="partition 1"):
            _pipe(driver, ("a", 10, 7))
