"""The applications that are killed: whatever is lost, doubled or out of order shows in their output."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from millrace.dsl import Consumed, Grouped, KStream, Materialized, Produced, StreamsBuilder, TimeWindows
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde
from tests.application import topic
from tests.chaos.model import BUCKETS, MODULUS, MULTIPLIER, WINDOW_MS

_DAY_MS = 86_400_000
_EVENT = pa.schema({"n": pa.int64(), "repeat": pa.int64()})


def build(builder: StreamsBuilder, *, outputs: str = "") -> None:
    """``copy`` of the input; ``running`` counts by key, every one of them; ``folds`` of the order by key and window;
    ``buckets``: running counts behind a repartition topic. ``outputs`` stands before the names of the output topics."""
    events = _events(builder)
    events.map_values(_inflate).to(topic(f"{outputs}copy"), Produced.with_(StringSerde(), StringSerde()))
    grouped = events.group_by_key()
    running = Materialized.as_("running").with_value_serde(LongSerde()).with_caching_disabled()
    grouped.count(running).to_stream().to(topic(f"{outputs}running"), Produced.with_(StringSerde(), LongSerde()))
    folds = Materialized.as_("folds").with_value_serde(LongSerde()).with_retention(_DAY_MS)
    (
        grouped.windowed_by(TimeWindows.of_size_with_no_grace(WINDOW_MS))
        .aggregate(_nothing, _fold, folds)
        .to_stream()
        .to(topic(f"{outputs}folds"), Produced.with_(TimeWindowedSerde(StringSerde(), WINDOW_MS), LongSerde()))
    )
    buckets = Materialized.as_("buckets").with_value_serde(LongSerde()).with_caching_disabled()
    (
        events.group_by(
            _bucket, Grouped.as_("by-bucket").with_key_serde(StringSerde()).with_value_serde(JsonSerde(_EVENT))
        )
        .count(buckets)
        .to_stream()
        .to(topic(f"{outputs}buckets"), Produced.with_(StringSerde(), LongSerde()))
    )


def build_clone(builder: StreamsBuilder) -> None:
    """The same with output topics of its own: ``clone-copy`` and so on."""
    build(builder, outputs="clone-")


def build_behind_another(builder: StreamsBuilder) -> None:
    """The same behind an unrelated sub-topology, so that every task of it has the next higher number."""
    builder.stream(topic("aside"), Consumed.with_(StringSerde(), StringSerde())).to(
        topic("aside-copy"), Produced.with_(StringSerde(), StringSerde())
    )
    build(builder)


def _events(builder: StreamsBuilder) -> KStream:
    return builder.stream(topic("in"), Consumed.with_(StringSerde(), JsonSerde(_EVENT)))


def _inflate(_: str, value: dict[str, Any]) -> str:
    return str(value["n"]) * (value["repeat"] or 1)


def _bucket(_: str, value: dict[str, Any]) -> str:
    return f"bucket-{value['n'] % BUCKETS}"


def _nothing() -> int:
    return 0


def _fold(_: str, value: dict[str, Any], so_far: int) -> int:
    return int((so_far * MULTIPLIER + value["n"]) % MODULUS)


def build_sequences(builder: StreamsBuilder) -> None:
    """``sequences-copy`` of ``sequences``, each record as it came, and a count of each key."""
    texts = (StringSerde(), StringSerde())
    sequences = builder.stream(topic("sequences"), Consumed.with_(*texts))
    sequences.to(topic("sequences-copy"), Produced.with_(*texts))
    counted = Materialized.as_("counted").with_value_serde(LongSerde()).with_caching_disabled()
    counts = sequences.group_by_key().count(counted).to_stream()
    counts.to(topic("sequences-counts"), Produced.with_(StringSerde(), LongSerde()))
