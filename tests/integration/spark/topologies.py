"""Small topologies of the tests beside it. Topics are named by the test that runs them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from apps import fraud_detection
from millrace.dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Repartitioned,
    SessionWindows,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    Topology,
)
from millrace.dsl import aggregators as agg
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde
from tests.application import topic
from tests.sqlite_store import SqliteStore

TEXT = Consumed.with_(StringSerde(), StringSerde())
NUMBERS = Consumed.with_(StringSerde(), LongSerde())
TEN_SECONDS = TimeWindows.of_size_with_no_grace(timedelta(seconds=10))
FIVE_MINUTES = TimeWindows.of_size_and_grace(timedelta(minutes=5), timedelta(minutes=1))
EVENT = JsonSerde(pa.schema({"group": pa.string(), "at": pa.int64()}))
COUNTS = Produced.with_(StringSerde(), LongSerde())


def fraud(builder: StreamsBuilder) -> None:
    """Fraud detection over the test's own topics."""
    fraud_detection.PAYMENTS, fraud_detection.ALERTS = topic("payments"), topic("fraud-alerts")
    fraud_detection.build(builder)


def copying(builder: StreamsBuilder) -> None:
    """Copies a topic."""
    builder.stream(topic("in"), TEXT).to(topic("out"))


def parsing(builder: StreamsBuilder) -> None:
    """Copies a topic of JSON objects."""
    builder.stream(topic("in"), Consumed.with_(StringSerde(), EVENT)).to(topic("out"))


def stateless(builder: StreamsBuilder) -> None:
    """Streams without state: copied, parsed, filtered and mapped, keyed again, looked up by Spark, and multiplied."""
    for name in ("transactions", "compacted"):
        builder.stream(topic(name), TEXT).to(topic(f"{name}-out"))
    builder.stream(topic("json"), Consumed.with_(StringSerde(), EVENT)).to(topic("json-out"))
    headed = builder.stream(topic("headed"), TEXT)
    headed.filter(lambda key, value: value != "dropped").map_values(lambda key, value: value.upper()).to(
        topic("mapped-out"), Produced.with_(StringSerde(), StringSerde())
    )
    headed.select_key(lambda key, value: f"new-{key}").repartition(
        Repartitioned.as_("rekeyed").with_key_serde(StringSerde())
    ).to(topic("rekeyed-out"))
    builder.stream(topic("framed"), TEXT).transform_frame(_with_country).to(topic("framed-out"))
    matched = builder.stream(re.compile(re.escape(topic("matched-")) + "[a-z]+"), TEXT)
    matched.map_values(lambda value: value * 2).to(
        topic("everywhere"),
        Produced.with_(StringSerde(), StringSerde()).with_stream_partitioner(lambda *given: set(range(given[-1]))),
    )


def _with_country(frame: DataFrame) -> DataFrame:
    countries = frame.sparkSession.createDataFrame([("de", "Germany"), ("pt", "Portugal")], ["code", "country"])
    joined = frame.withColumn("code", F.lower(F.col("value").cast("string"))).join(F.broadcast(countries), "code")
    return joined.withColumn("value", F.col("country").cast("binary")).drop("code", "country")


def stateful(builder: StreamsBuilder) -> None:
    """Sums and windowed counts by key, and a windowed count behind a repartition topic."""
    numbers = builder.stream(topic("numbers"), NUMBERS).group_by_key()
    numbers.reduce(lambda total, value: total + value, materialized=Materialized.as_("sums")).to_stream().to(
        topic("sums"), COUNTS
    )
    numbers.windowed_by(TimeWindows.of_size_with_no_grace(timedelta(milliseconds=5))).count(
        materialized=Materialized.as_("tiny-windows")
    ).to_stream().to(topic("tiny-windows"), Produced.with_(TimeWindowedSerde(StringSerde(), 5), LongSerde()))
    numbers.windowed_by(FIVE_MINUTES).count(materialized=Materialized.as_("five-minutes"))
    rekeyed(builder)


def summing(builder: StreamsBuilder) -> None:
    """Sums numbers by key."""
    builder.stream(topic("numbers"), NUMBERS).group_by_key().aggregate(
        agg.sum_(), materialized=Materialized.as_("sums").with_value_serde(LongSerde())
    )


def queried(builder: StreamsBuilder) -> None:
    """A store of each kind over one topic: sums, windowed counts, sessions, versions; and one that is in memory."""
    numbers = builder.stream(topic("numbers"), NUMBERS)
    grouped = numbers.group_by_key()
    grouped.reduce(lambda total, value: total + value, materialized=Materialized.as_("sums"))
    grouped.windowed_by(TEN_SECONDS).count(materialized=Materialized.as_("windows"))
    gap = timedelta(seconds=1)
    grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(gap)).count(Materialized.as_("sessions"))
    grouped.count(Materialized.as_(Stores.in_memory_key_value_store("in-memory")))
    versions = Materialized.as_(Stores.persistent_versioned_key_value_store("prices", 600_000))
    builder.table(topic("prices"), NUMBERS, versions)


def rekeyed(builder: StreamsBuilder) -> None:
    """Counts events by their group in windows of ten seconds, at the time that they name."""
    events = builder.stream(topic("events"), Consumed.with_(StringSerde(), EVENT).with_timestamp_extractor(_event_time))
    events.group_by(
        lambda key, value: value["group"], Grouped.as_("by-group").with_key_serde(StringSerde()).with_value_serde(EVENT)
    ).windowed_by(TEN_SECONDS).count(materialized=Materialized.as_("groups")).to_stream().to(
        topic("groups"), Produced.with_(TimeWindowedSerde(StringSerde(), 10_000), LongSerde())
    )


def _event_time(key: Any, value: dict[str, Any], timestamp: int, partition_time: int) -> int:
    return timestamp if value["at"] is None else value["at"]


def join(builder: StreamsBuilder) -> None:
    """Joins a stream with a table, both of two partitions, as of each record's time."""
    table = builder.table(topic("table"), TEXT, Materialized.as_("prices"))
    stream = builder.stream(topic("stream"), TEXT)
    stream.left_join(table, lambda value, price: f"{value}:{price}").to(
        topic("joined"), Produced.with_(StringSerde(), StringSerde())
    )


def versioned_join(builder: StreamsBuilder) -> None:
    """Joins a stream with a versioned table, after a minute of grace."""
    prices = Materialized.as_(Stores.persistent_versioned_key_value_store("prices", 600_000))
    table = builder.table(topic("table"), TEXT, prices)
    stream = builder.stream(topic("stream"), TEXT)
    joined = Joined.as_("with-price").with_grace_period(60_000)
    stream.left_join(table, lambda value, price: f"{value}:{price}", joined=joined).to(
        topic("joined"), Produced.with_(StringSerde(), StringSerde())
    )


def enriching(builder: StreamsBuilder) -> None:
    """Joins orders with the products that they name, a global table of another number of partitions."""
    products = builder.global_table(topic("products"), NUMBERS, Materialized.as_("products"))
    orders = builder.stream(topic("orders"), TEXT)
    orders.left_join(products, lambda key, value: value, lambda value, price: f"{value}:{price}").to(
        topic("enriched"), Produced.with_(StringSerde(), StringSerde())
    )


def final_results(builder: StreamsBuilder) -> None:
    """Counts by key in windows of 10 ms, each sent once: by suppression, and on window close."""
    windowed = builder.stream(topic("in"), TEXT).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    written = Produced.with_(TimeWindowedSerde(StringSerde(), 10), LongSerde())
    final = Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("final")
    windowed.count(Materialized.as_("counts")).suppress(final).to_stream().to(topic("suppressed"), written)
    closing = windowed.emit_strategy(EmitStrategy.on_window_close())
    closing.count(Materialized.as_("closing")).to_stream().to(topic("on-close"), written)


def collecting(builder: StreamsBuilder) -> None:
    """Collects all values of a key in a list."""
    builder.stream(topic("in"), TEXT).group_by_key().aggregate(
        list,
        lambda key, value, collected: [*collected, value],
        materialized=Materialized.as_("lists").with_value_serde(JsonSerde()).with_caching_disabled(),
    ).to_stream().map_values(lambda key, value: len(value)).to(topic("out"), COUNTS)


def latest(builder: StreamsBuilder) -> None:
    """Keeps the last value of each key."""
    builder.stream(topic("in"), TEXT).group_by_key().aggregate(
        agg.last(), materialized=Materialized.as_("values").with_value_serde(StringSerde())
    ).to_stream().to(topic("out"), Produced.with_(StringSerde(), StringSerde()))


def dead_lettering(builder: StreamsBuilder) -> None:
    """Copies to a topic of small records, counts by window, and counts in a store of its own."""
    stream = builder.stream(topic("in"), TEXT)
    stream.to(topic("small"), Produced.with_(StringSerde(), StringSerde()))
    stream.group_by_key().windowed_by(TEN_SECONDS).count(Materialized.as_("by-window"))
    own = Materialized.as_(Stores.custom_key_value_store("own", SqliteStore)).with_caching_disabled()
    stream.group_by_key().count(own).to_stream().to(topic("out"), COUNTS)


class Punctuating(Processor[str, int]):
    """Sums values by key; every 100 ms of stream time it says how many keys there are, every 200 ms that it lives."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        """The sums, and what was counted."""
        return [
            Stores.key_value_store_builder(Stores.persistent_key_value_store(name), StringSerde(), LongSerde())
            for name in ("sums", "counted")
        ]

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(100, PunctuationType.STREAM_TIME, self.tell_keys)
        context.schedule(200, PunctuationType.WALL_CLOCK_TIME, self.tell_life)

    def process(self, record: Record[str, int], /) -> None:
        sums = self.context.get_state_store("sums")
        total = (sums.get(record.key) or 0) + record.value
        sums.put(record.key, total)
        self.context.forward(record.with_value(total), "sums")

    def tell_keys(self, now: int) -> None:
        keys = sum(1 for _ in self.context.get_state_store("sums").all())
        self.context.forward(Record(f"keys at {now}", keys, now), "stream-time")

    def tell_life(self, now: int) -> None:
        counted = self.context.get_state_store("counted")
        lives = (counted.get("lives") or 0) + 1
        counted.put("lives", lives)
        self.context.forward(Record("lives", lives, now), "wall-clock")


def punctuating(_: StreamsBuilder) -> Topology:
    """A processor with two stores and two punctuations, put together by hand."""
    topology = Topology()
    topology.add_source("numbers", topic("in"), key_serde=StringSerde(), value_serde=LongSerde())
    topology.add_processor("punctuating", Punctuating, "numbers")
    for name in ("sums", "stream-time", "wall-clock"):
        topology.add_sink(name, topic(name), "punctuating", key_serde=StringSerde(), value_serde=LongSerde())
    return topology


def generated_names(builder: StreamsBuilder) -> None:
    """Counts behind a map; nothing has a name."""
    _counted(builder, filtered=False)


def generated_names_moved(builder: StreamsBuilder) -> None:
    """As :func:`generated_names`, with a filter before it, which moves every generated name."""
    _counted(builder, filtered=True)


def _counted(builder: StreamsBuilder, *, filtered: bool) -> None:
    stream = builder.stream(topic("unnamed"), TEXT)
    if filtered:
        stream = stream.filter(lambda key, value: True)
    stream.map(lambda key, value: (key, value)).group_by_key(
        Grouped.with_(StringSerde(), StringSerde())
    ).count().to_stream().to(topic("unnamed-out"), COUNTS)


def explicit_names(builder: StreamsBuilder) -> None:
    """Counts behind a map, under names."""
    _named(builder)


def explicit_names_filtered(builder: StreamsBuilder) -> None:
    """As :func:`explicit_names`, with a filter before it."""
    _named(builder, filtered=True)


def framed_counts(builder: StreamsBuilder) -> None:
    """As :func:`explicit_names`, behind a frame function, so that it runs in micro-batches."""
    _named(builder, framed=True)


def _named(builder: StreamsBuilder, *, filtered: bool = False, framed: bool = False) -> None:
    stream = builder.stream(topic("named"), TEXT)
    if framed:
        stream = stream.transform_frame(lambda frame: frame.filter("key is not null"))
    if filtered:
        stream = stream.filter(lambda key, value: True)
    stream.map(lambda key, value: (key, value)).group_by_key(
        Grouped.as_("named").with_key_serde(StringSerde()).with_value_serde(StringSerde())
    ).count(materialized=Materialized.as_("named-counts")).to_stream().to(topic("named-out"), COUNTS)


def windowed_in_place_of_plain(builder: StreamsBuilder) -> None:
    """A windowed count under the name of the store of :func:`explicit_names`."""
    builder.stream(topic("named"), TEXT).map(lambda key, value: (key, value)).group_by_key(
        Grouped.as_("named").with_key_serde(StringSerde()).with_value_serde(StringSerde())
    ).windowed_by(TEN_SECONDS).count(materialized=Materialized.as_("named-counts")).to_stream().to(
        topic("named-out"), Produced.with_(TimeWindowedSerde(StringSerde(), 10_000), LongSerde())
    )


def number_of(_topic: str, key: str | None, _value: Any, partitions: int) -> int:
    """A partitioner that is not Kafka's own: by the number in the key."""
    return 0 if key is None else int(key[1:]) % partitions


def _customer_of(order: dict[str, Any]) -> str | None:
    customer: str | None = order["fk"]
    return customer


def _customer_of_order(_key: str, order: dict[str, Any]) -> str | None:
    return _customer_of(order)


def foreign_keys(builder: StreamsBuilder) -> None:
    """Joins orders with the customers that they name, inner and left, whose topics have other partitions."""
    text = StringSerde()
    orders = builder.table(topic("orders"), Consumed.with_(text, JsonSerde()), Materialized.as_("orders"))
    customers = builder.table(topic("customers"), TEXT, Materialized.as_("customers"))
    strings = Materialized.with_(text, text)
    inner = orders.join(
        customers,
        lambda order, customer: f"{order['v']}:{customer}",
        strings,
        foreign_key_extractor=_customer_of,
        table_joined=TableJoined.as_("inner").with_other_partitioner(number_of),
    )
    left = orders.left_join(
        customers,
        lambda order, customer: f"{order['v']}:{customer}",
        strings,
        foreign_key_extractor=_customer_of_order,
        table_joined=TableJoined.as_("left").with_partitioner(number_of).with_other_partitioner(number_of),
    )
    for table, name in ((inner, "inner"), (left, "left")):
        table.to_stream().to(topic(name), Produced.with_(text, text).with_stream_partitioner(number_of))
