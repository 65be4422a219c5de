"""What the real application of the DAG tests runs: sums by key, which cannot read every record."""

from __future__ import annotations

from millrace.dsl import Consumed, Grouped, KStream, Materialized, Produced, StreamsBuilder
from millrace.serdes import LongSerde, StringSerde

ORDERS, TOTALS, DEAD_LETTERS = "orders", "order-totals", "order-letters"
PARCELS, PARCEL_TOTALS = "parcels", "parcel-totals"


def totals(builder: StreamsBuilder) -> None:
    """The number of orders by customer; an order is eight bytes."""
    _count(builder, ORDERS, TOTALS)


def totals_of_nothing(builder: StreamsBuilder) -> None:
    """The same over a topic that nobody makes."""
    _count(builder, "orders-that-nobody-makes", TOTALS)


def parcels(builder: StreamsBuilder) -> None:
    """The number of parcels by customer."""
    _count(builder, PARCELS, PARCEL_TOTALS)


def parcels_counted_double(builder: StreamsBuilder) -> None:
    """A new version, which counts wrongly."""
    parcel = Consumed.with_(StringSerde(), LongSerde())
    twice = builder.stream(PARCELS, parcel).flat_map_values(lambda _, number: [number, number])
    _count_stream(twice, PARCEL_TOTALS)


def _count(builder: StreamsBuilder, topic: str, output: str) -> None:
    _count_stream(builder.stream(topic, Consumed.with_(StringSerde(), LongSerde())), output)


def _count_stream(stream: KStream, output: str) -> None:
    grouped = stream.group_by_key(Grouped.with_(StringSerde(), LongSerde()))
    counted = grouped.count(Materialized.as_("totals"))
    counted.to_stream().to(output, Produced.with_(StringSerde(), LongSerde()))
