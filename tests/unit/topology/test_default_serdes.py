"""``default.key.serde`` and ``default.value.serde``, and what is refused where no serde is named at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow.compute as pc
import pytest

from millrace.config import StreamsConfig
from millrace.dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Processor,
    Produced,
    Record,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    aggregators,
)
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError, ProcessingError, SerializationError, TopologyError
from millrace.serdes import (
    BytesSerde,
    JsonSerde,
    LongSerde,
    Serde,
    SessionWindowedSerde,
    StringSerde,
    TimeWindowedSerde,
    Windowed,
    serde_from,
)
from millrace.serdes.unset import UnsetSerde
from millrace.testing import TestRecord, TopologyTestDriver
from millrace.topology import topology as frozen
from millrace.topology.default_serdes import with_default_serdes

TEXT, JSON, LONG, BYTES = StringSerde(), JsonSerde(), LongSerde(), BytesSerde()
READ = Consumed.with_(TEXT, JSON)
WINDOWS = TimeWindows.of_size_with_no_grace(10)
NEAR = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))
DEFAULTS = {"default.key.serde": "string", "default.value.serde": "json"}
OWN = serde_from(lambda value: repr(value).encode(), lambda data: data.decode())


def settings(**other: Any) -> StreamsConfig:
    return StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "none:0", **other})


def add(key: Any, value: Any, aggregate: Any) -> Any:
    return aggregate + value


def everything(builder: StreamsBuilder) -> None:
    """Every kind of operator with a serde of its own, none of which is named."""
    stream = builder.stream("stream")
    other = builder.stream("other")
    table = builder.table("table", materialized=Materialized.as_("table"))
    second = builder.table("second")
    stream.map_values(lambda key, value: value).to("mapped")
    keyed = stream.select_key(lambda key, value: value)
    grouped = keyed.group_by_key()
    grouped.aggregate(int, add, Materialized.as_("sums"))
    grouped.reduce(lambda one, two: one + two, Materialized.as_("reduced"))
    grouped.windowed_by(WINDOWS).reduce(lambda one, two: one, Materialized.as_("windows")).to_stream().to("windows")
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10)).reduce(
        lambda one, two: one, Materialized.as_("sessions")
    ).suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("held")).to_stream().to("sessions")
    keyed.repartition(Repartitioned.as_("moved")).to("moved")
    keyed.to_table(Materialized.as_("latest"))
    stream.join(other, lambda one, two: one, NEAR).to("joined")
    stream.left_join(table, lambda one, two: one).to("looked-up")
    table.join(second, lambda one, two: one, Materialized.as_("both"))
    table.join(second, lambda one, two: one, foreign_key_extractor=lambda value: value)
    table.group_by(lambda key, value: (value, value)).aggregate(int, add, add, Materialized.as_("by-value"))
    table.map_values(lambda key, value: value, Materialized.as_("values"))


def serdes_of(topology: frozen.FrozenTopology) -> list[Serde | None]:
    found = []
    for part in topology.sub_topologies:
        for item in (*part.nodes, *(store for store in part.stores if "OUTERSHARED" not in store.name)):
            for holder in (item, getattr(item, "operator", None)):
                found += [
                    value
                    for name, value in getattr(holder, "__dict__", {}).items()
                    if name.endswith(("key_serde", "value_serde"))
                ]
    return found


def test_a_default_stands_wherever_the_topology_names_none() -> None:
    builder = StreamsBuilder()
    everything(builder)
    resolved = with_default_serdes(builder.build(), settings(**DEFAULTS))
    serdes = serdes_of(resolved)
    assert len(serdes) > 80
    assert "Unset" not in repr(serdes)
    assert None not in serdes
    assert {type(serde).__name__ for serde in serdes} >= {
        "StringSerde", "JsonSerde", "TimeWindowedSerde", "SessionWindowedSerde", "ChangeSerde", "CombinedKeySerde",
        "SubscriptionSerde", "ResponseSerde",
    }  # fmt: skip


def test_a_topology_that_has_its_serdes_stays_as_it_is() -> None:
    builder = StreamsBuilder()
    builder.stream("in", READ).group_by_key().count(Materialized.as_("counts")).to_stream().to("out")
    topology = builder.build()
    assert with_default_serdes(topology, settings(**DEFAULTS)) == topology


def test_resolving_again_with_a_default_replaces_what_was_taken_for_bytes() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    as_bytes = with_default_serdes(builder.build(), settings())
    again = with_default_serdes(as_bytes, settings(**DEFAULTS))
    assert set(map(type, serdes_of(again))) == {StringSerde, JsonSerde}


def test_without_serdes_and_defaults_the_fingerprint_is_that_of_the_plain_topology() -> None:
    builder = StreamsBuilder()
    everything(builder)
    topology = builder.build()
    as_bytes = builder.build()
    assert topology.fingerprint == as_bytes.fingerprint
    plain = StreamsBuilder()
    plain.stream("in").group_by_key().reduce(lambda one, two: one + two, Materialized.as_("last")).to_stream().to("out")
    assert with_default_serdes(plain.build(), settings()).fingerprint == plain.build().fingerprint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("string", "json"),
        (TEXT, JSON),
        ("Serdes$StringSerde", f"{__name__}:JSON"),
        ("org.apache.kafka.common.serialization.Serdes$StringSerde", f"{__name__}:JsonSerde"),
    ],
)
def test_the_test_driver_takes_defaults_by_name_and_as_objects(key: Any, value: Any) -> None:
    builder = StreamsBuilder()
    counts = (
        builder.stream("in")
        .group_by(lambda _, value: value["city"])
        .aggregate(list, lambda _, value, all_: [*all_, value["n"]])
    )
    counts.to_stream().to("out")
    with TopologyTestDriver(builder.build(), {"default.key.serde": key, "default.value.serde": value}) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", {"city": "Rome", "n": 1})
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [("Rome", [1])]


def test_windowed_keys_are_written_around_the_default_serde() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(WINDOWS).count().to_stream().to("out")
    topology = builder.build()
    with TopologyTestDriver(topology, DEFAULTS) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", 1, 12)
        out = driver.create_output_topic("out", TimeWindowedSerde(TEXT, 10), LONG)
        assert out.read_key_values() == [(Windowed("k", 10, 20), 1)]
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", 1, 12)
        out = driver.create_output_topic("out", TimeWindowedSerde(TEXT, 10), LONG)
        assert out.read_key_values() == [(Windowed("k", 10, 20), 1)], "keys of bytes pass as they are"


def build(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values(lambda key, value: value).to("out")


def by_hand(_builder: StreamsBuilder) -> Topology:
    return Topology().add_source("source", "in").add_sink("sink", "out", "source")


async def build_later(builder: StreamsBuilder) -> None:
    build(builder)


@pytest.mark.parametrize("function", ["build", "by_hand"])
def test_what_is_launched_has_the_defaults_of_its_specification(function: str) -> None:
    topology = load_topology(f"{__name__}:{function}", settings(**DEFAULTS))
    assert set(map(type, serdes_of(topology))) == {StringSerde, JsonSerde}


def test_an_async_build_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"build_later is an async function"):
        load_topology(f"{__name__}:build_later", settings())


class AskingProcessor(Processor[Any, Any]):
    def process(self, record: Record[Any, Any], /) -> None:
        names = (type(self.context.key_serde).__name__, type(self.context.value_serde).__name__)
        self.context.forward(record.with_value(list(names)))


def test_a_processor_is_told_the_defaults() -> None:
    builder = StreamsBuilder()
    builder.stream("in").process(AskingProcessor).to("out")
    with TopologyTestDriver(builder.build(), DEFAULTS) as driver:
        driver.create_input_topic("in", TEXT, JSON).pipe_input("k", 1)
        assert driver.create_output_topic("out", TEXT, JSON).read_key_values() == [("k", ["StringSerde", "JsonSerde"])]


# ---- what has no serde


def table(builder: StreamsBuilder, topic: str = "table") -> KTable:
    return builder.table(topic, READ)


def stream(builder: StreamsBuilder) -> KStream:
    return builder.stream("in", READ)


UNTYPED: dict[str, tuple[Callable[[StreamsBuilder], Any], str, str]] = {
    "aggregate": (
        lambda builder: stream(builder).group_by_key().aggregate(int, add, Materialized.as_("sums"), named="sum"),
        r"Store sums of node sum has no value serde.*the initializer of node sum gives 0 \(int\)",
        "value_serde of Materialized",
    ),
    "aggregate of bytes": (
        lambda builder: builder.stream("in").group_by_key().aggregate(dict, add, Materialized.as_("sums")),
        r"Store sums of node KSTREAM-AGGREGATE-0000000001 has no value serde.*gives \{\} \(dict\)",
        "value_serde of Materialized",
    ),
    "reduce": (
        lambda builder: (
            stream(builder)
            .group_by_key(Grouped.with_(TEXT, None))
            .reduce(lambda one, two: two, Materialized.as_("last"))
        ),
        r"Store last of node KSTREAM-REDUCE-0000000001 has no value serde.*topic in is read with JsonSerde",
        "value_serde of Materialized or Grouped",
    ),
    "reduce of mapped values": (
        lambda builder: (
            stream(builder)
            .map_values(lambda key, value: value["n"], named="number")
            .group_by_key()
            .reduce(lambda one, two: one + two, Materialized.as_("sum"))
        ),
        r"Store sum of node .* has no value serde.*node number makes them",
        "value_serde of Materialized or Grouped",
    ),
    "count under a new key": (
        lambda builder: stream(builder).group_by(lambda key, value: value["city"]).count(Materialized.as_("counts")),
        r"Sink counts-repartition-sink to topic counts-repartition has no key serde",
        "key_serde of Grouped",
    ),
    "windowed aggregate": (
        lambda builder: (
            stream(builder).group_by_key().windowed_by(WINDOWS).aggregate(int, add, Materialized.as_("sums"))
        ),
        r"Store sums of node .* has no value serde",
        "value_serde of Materialized",
    ),
    "sliding reduce": (
        lambda builder: (
            stream(builder)
            .group_by_key(Grouped.with_(TEXT, None))
            .windowed_by(SlidingWindows.of_time_difference_with_no_grace(10))
            .reduce(lambda one, two: two, Materialized.as_("last"))
        ),
        r"Store last of node .* has no value serde",
        "value_serde of Materialized",
    ),
    "sessions": (
        lambda builder: (
            stream(builder)
            .group_by_key()
            .windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10))
            .aggregate(int, add, add, Materialized.as_("sums"))
        ),
        r"Store sums of node .* has no value serde",
        "value_serde of Materialized",
    ),
    "cogroup": (
        lambda builder: stream(builder).group_by_key().cogroup(add).aggregate(int, Materialized.as_("sums")),
        r"Store sums of node COGROUPKSTREAM-AGGREGATE-\d+ has no value serde",
        "value_serde of Materialized",
    ),
    "grouped table": (
        lambda builder: (
            table(builder)
            .group_by(lambda key, value: (value["city"], value["n"]), Grouped.with_(TEXT, LONG))
            .aggregate(int, add, add, Materialized.as_("sums"))
        ),
        r"Store sums of node KTABLE-AGGREGATE-\d+ has no value serde",
        "value_serde of Materialized",
    ),
    "grouped table's changes": (
        lambda builder: table(builder).group_by(lambda key, value: (value["city"], value["n"])).count(),
        r"Sink .* to topic KTABLE-AGGREGATE-STATE-STORE-\d+-repartition has no key serde",
        "key_serde of Grouped",
    ),
    "join of tables": (
        lambda builder: table(builder, "one").join(
            table(builder, "two"), lambda one, two: one, Materialized.as_("both")
        ),
        r"Store both of node KTABLE-MERGE-\d+ has no value serde",
        "value_serde of Materialized",
    ),
    "join by a foreign key": (
        lambda builder: (
            table(builder, "one")
            .join(table(builder, "two"), lambda one, two: one, foreign_key_extractor=lambda value: value["two"])
            .to_stream()
            .to("out")
        ),
        r"Sink KSTREAM-SINK-\d+ to topic out has no value serde",
        "value_serde of Produced",
    ),
    "foreign keys of a table that is read without a serde": (
        lambda builder: table(builder, "one").join(
            builder.table("two"), lambda one, two: one, foreign_key_extractor=lambda value: value["two"]
        ),
        r"has no key serde",
        "key_serde of the",
    ),
    "mapped table in a store": (
        lambda builder: table(builder).map_values(lambda key, value: value["n"], Materialized.as_("numbers")),
        r"Store numbers of node KTABLE-MAPVALUES-\d+ has no value serde",
        "value_serde of Materialized",
    ),
    "suppressed table": (
        lambda builder: (
            table(builder)
            .map_values(lambda key, value: value["n"])
            .suppress(Suppressed.until_time_limit(1, BufferConfig.unbounded()).with_name("held"))
        ),
        r"Store held-store of node held has no value serde",
        "value_serde of the suppressed table's",
    ),
    "to_table": (
        lambda builder: stream(builder).select_key(lambda key, value: value["city"]).to_table(Materialized.as_("rows")),
        r"Sink .*-repartition has no key serde",
        "key_serde of Materialized",
    ),
    "repartition": (
        lambda builder: (
            stream(builder).select_key(lambda key, value: value["city"]).repartition(Repartitioned.as_("moved"))
        ),
        r"Sink moved-repartition-sink to topic moved-repartition has no key serde",
        "key_serde of Repartitioned",
    ),
    "join of streams": (
        lambda builder: (
            stream(builder)
            .map_values(lambda key, value: value["n"])
            .join(builder.stream("other", READ), lambda one, two: one, NEAR, StreamJoined.as_("near"))
        ),
        r"Store near-this-join-store of node KSTREAM-WINDOWED-\d+ has no value serde",
        "value_serde of StreamJoined",
    ),
    "join with a table behind a new key": (
        lambda builder: (
            stream(builder)
            .select_key(lambda key, value: value["city"])
            .join(table(builder), lambda one, two: one, joined=Joined.as_("lookup"))
        ),
        r"Sink lookup-repartition-sink to topic lookup-repartition has no key serde",
        "key_serde of Joined",
    ),
    "merged streams": (
        lambda builder: stream(builder).merge(builder.stream("other", READ)).to("out"),
        r"Sink KSTREAM-SINK-\d+ to topic out has no key serde.*topic in is read with StringSerde",
        "key_serde of Produced",
    ),
    "sink": (
        lambda builder: stream(builder).map_values(lambda key, value: value["n"]).to("out", Produced.as_("written")),
        r"Sink written to topic out has no value serde",
        "value_serde of Produced",
    ),
    "sink of chosen topics": (
        lambda builder: (
            stream(builder)
            .map_values(lambda key, value: value["n"])
            .to(lambda key, value, context: key, Produced.as_("written"))
        ),
        r"Sink written to the topics it chooses has no value serde",
        "value_serde of Produced",
    ),
    "windowed keys with a plain serde's place": (
        lambda builder: (
            stream(builder)
            .group_by_key()
            .windowed_by(WINDOWS)
            .count()
            .to_stream()
            .merge(builder.stream("other").map_values(lambda key, value: 1))
            .to("out", Produced.with_(None, LONG))
        ),
        r"to topic out has no key serde.*makes windowed keys",
        "key_serde of Produced",
    ),
    "expression": (
        lambda builder: stream(builder).map_values(pc.field("n")).to("out", Produced.as_("written")),
        r"Sink written to topic out has no value serde.*node KSTREAM-MAPVALUES-0000000001 makes them",
        "value_serde of Produced",
    ),
    "processor": (
        lambda builder: stream(builder).process(AskingProcessor, named="asking").to("out"),
        r"has no key serde.*node asking makes them",
        "key_serde of Produced",
    ),
}


@pytest.mark.parametrize("case", UNTYPED)
def test_records_that_are_no_bytes_are_refused_where_no_serde_is_named(case: str) -> None:
    describe, message, remedy = UNTYPED[case]
    builder = StreamsBuilder()
    describe(builder)
    with pytest.raises(TopologyError, match=message) as raised:
        TopologyTestDriver(builder.build())
    assert remedy in raised.value.remedy
    assert "serde is not set" in raised.value.message


@pytest.mark.parametrize("case", UNTYPED)
def test_the_same_topologies_can_be_built_with_defaults(case: str) -> None:
    builder = StreamsBuilder()
    UNTYPED[case][0](builder)
    if case != "windowed keys with a plain serde's place":
        TopologyTestDriver(builder.build(), {"default.key.serde": "json", "default.value.serde": "json"}).close()


def as_bytes(_key: Any, value: Any) -> bytes:
    return json.dumps(value).encode()


WORKING: dict[str, Callable[[StreamsBuilder], Any]] = {
    "copy": lambda builder: builder.stream("in").filter(lambda key, value: True).to("out"),
    "mapped bytes": lambda builder: builder.stream("in").map_values(lambda key, value: value.upper()).to("out"),
    "new keys of bytes": lambda builder: builder.stream("in").group_by(lambda key, value: value).count(),
    "aggregate of bytes": lambda builder: builder.stream("in").group_by_key().aggregate(bytes, add),
    "reduce of bytes": lambda builder: builder.stream("in").group_by_key().reduce(lambda one, two: one + two),
    "table of bytes": lambda builder: builder.table("in").join(
        builder.table("two"), lambda one, two: one + two, Materialized.as_("s")
    ),
    "annotated to give bytes": lambda builder: stream(builder).map_values(as_bytes).to("out"),
    "serdes that read bytes": lambda builder: (
        builder.stream("in", Consumed.with_(BYTES, BYTES)).map_values(lambda key, value: value).to("out")
    ),
    "built-in aggregates": lambda builder: (
        stream(builder).group_by_key().aggregate(aggregators.sum_("n")).to_stream().to("out")
    ),
    "explicit bytes": lambda builder: (
        stream(builder).map_values(lambda key, value: b"x").to("out", Produced.with_(TEXT, BYTES))
    ),
    "a processor's store": lambda builder: (
        builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), None, None))
        .stream("in", READ)
        .foreach(lambda key, value: None)
    ),
}


@pytest.mark.parametrize("case", WORKING)
def test_what_works_with_bytes_goes_on_working_without_serdes(case: str) -> None:
    builder = StreamsBuilder()
    WORKING[case](builder)
    TopologyTestDriver(builder.build()).close()


@pytest.mark.parametrize(
    ("describe", "message"),
    [
        (
            lambda builder: builder.stream("in").map_values(lambda key, value: len(value)).to("out"),
            r"Sink KSTREAM-SINK-0000000002 to topic out has no value serde, and default.value.serde is not set, so",
        ),
        (
            lambda builder: (
                builder.stream("in").group_by_key().reduce(lambda one, two: len(two), Materialized.as_("s"))
            ),
            r"Store s of node KSTREAM-REDUCE-0000000001 has no value serde, and default.value.serde is not set",
        ),
    ],
)
def test_a_record_that_shows_it_is_answered_in_the_same_words(
    describe: Callable[[StreamsBuilder], Any], message: str
) -> None:
    builder = StreamsBuilder()
    describe(builder)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", BYTES, BYTES)
        records = [TestRecord(b"k", b"bytes"), TestRecord(b"k", b"bytes")]
        with pytest.raises((SerializationError, ProcessingError), match=message):
            topic.pipe_batch(records)


def test_an_initializer_that_fails_is_named() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(lambda: 1 // 0, add)
    with pytest.raises(
        TopologyError, match=r"The initializer .* of node KSTREAM-AGGREGATE-\d+ failed: ZeroDivisionError"
    ):
        TopologyTestDriver(builder.build())


def test_the_initializer_is_left_alone_where_the_store_has_a_serde() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(lambda: 1 // 0, add, Materialized.with_(BYTES, JSON))
    TopologyTestDriver(builder.build()).close()


def test_nothing_is_refused_before_the_configuration_is_known() -> None:
    builder = StreamsBuilder()
    UNTYPED["aggregate"][0](builder)
    assert builder.build().sub_topologies
    assert not isinstance(builder.build().sub_topologies[0].stores[0].value_serde, UnsetSerde)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jsn", r"There is no serde 'jsn'; the nearest known one is 'json'"),
        (StringSerde, r"default.key.serde is the class StringSerde, and a serde is expected \(pass an object of it"),
        (7, r"default.key.serde is 7 \(int\), and a serde is expected"),
    ],
)
def test_a_default_that_is_no_serde_is_refused_with_the_configuration(name: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        settings(**{"default.key.serde": name})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.module:serde", r"cannot be made: ModuleNotFoundError"),
        (f"{__name__}:nothing", r"cannot be made: AttributeError"),
        (f"{__name__}:dict", r"cannot be made|and a serde is expected"),
        (f"{__name__}:TimeWindowedSerde", r"cannot be made: TypeError"),
    ],
)
def test_a_default_that_cannot_be_imported_is_refused_when_the_topology_is_loaded(name: str, message: str) -> None:
    config = settings(**{"default.key.serde": name})
    with pytest.raises(ConfigurationError, match=message):
        load_topology(f"{__name__}:build", config)


@pytest.mark.parametrize(
    ("serde", "text"),
    [
        ("string", "string"),
        (TEXT, "string"),
        (OWN, "millrace.serdes.functions.FunctionSerde"),
        (SessionWindowedSerde(TEXT), "millrace.serdes.session_windowed.SessionWindowedSerde"),
    ],
)
def test_the_settings_name_the_default_serde(serde: Any, text: str) -> None:
    assert settings(**{"default.key.serde": serde}).to_mapping()["default.key.serde"] == text
