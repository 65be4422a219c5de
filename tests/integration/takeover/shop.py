"""Key-value, windowed and session aggregation, a table, its join with a stream, and a repartition topic.

``java/ShopStreams.java`` has the same topology.
"""

from __future__ import annotations

from millrace.dsl import (
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
)
from millrace.serdes import LongSerde, SessionWindowedSerde, StringSerde, TimeWindowedSerde
from tests.application import topic

TEXT, LONG = StringSerde(), LongSerde()
OUTPUTS = ("sums", "windows", "sessions", "joined", "remainders")


def _stored(name: str) -> Materialized:
    return Materialized.as_(name).with_key_serde(TEXT).with_value_serde(LONG).with_caching_disabled()


def build(builder: StreamsBuilder) -> None:
    """The topology over the test's own topics."""
    payments = builder.stream(topic("payments"), Consumed.with_(TEXT, LONG))
    users = builder.table(topic("users"), Consumed.with_(TEXT, TEXT), Materialized.as_("users").with_caching_disabled())
    grouped = payments.group_by_key(Grouped.with_(TEXT, LONG))
    grouped.reduce(lambda total, amount: total + amount, _stored("sums")).to_stream().to(
        topic("sums"), Produced.with_(TEXT, LONG)
    )
    grouped.windowed_by(TimeWindows.of_size_and_grace(10_000, 5_000)).count(_stored("windows")).to_stream().to(
        topic("windows"), Produced.with_(TimeWindowedSerde(TEXT, 10_000), LONG)
    )
    grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(4_000, 6_000)).count(
        _stored("sessions")
    ).to_stream().to(topic("sessions"), Produced.with_(SessionWindowedSerde(TEXT), LONG))
    payments.left_join(
        users, lambda amount, user: f"{'null' if user is None else user}:{amount}", joined=Joined.with_(TEXT, LONG)
    ).to(topic("joined"), Produced.with_(TEXT, TEXT))
    payments.group_by(
        lambda key, amount: f"r{amount % 3}", Grouped.as_("by-remainder").with_key_serde(TEXT).with_value_serde(LONG)
    ).count(_stored("remainders")).to_stream().to(topic("remainders"), Produced.with_(TEXT, LONG))
