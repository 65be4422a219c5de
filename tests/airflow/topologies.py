"""What the real application of the DAG tests runs: sums by key, which cannot read every record."""

from __future__ import annotations

from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder
from millrace.serdes import LongSerde, StringSerde

ORDERS, TOTALS, LETTERS = "orders", "order-totals", "order-letters"


def totals(builder: StreamsBuilder) -> None:
    """The number of orders by customer; an order is eight bytes."""
    _count(builder, ORDERS)


def totals_of_nothing(builder: StreamsBuilder) -> None:
    """The same over a topic that nobody makes."""
    _count(builder, "orders-that-nobody-makes")


def _count(builder: StreamsBuilder, topic: str) -> None:
    stream = builder.stream(topic, Consumed.with_(StringSerde(), LongSerde()))
    counted = stream.group_by_key().count(Materialized.as_("totals"))
    counted.to_stream().to(TOTALS, Produced.with_(StringSerde(), LongSerde()))
