"""The benchmark's topology on Millrace. Its topics come from the environment: a spec passes no arguments."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.compute as pc

from millrace.dsl import Consumed, Produced, Repartitioned, StreamsBuilder, TimeWindows
from millrace.serdes import JsonSerde, LongSerde, StringSerde, TimeWindowedSerde
from tests.bench.workloads import GRACE_MS, INPUT_VARIABLE, OUTPUT_VARIABLE, REPARTITION_VARIABLE, WINDOW_MS

PAYMENT = pa.schema(
    {
        "user": pa.string(),
        "amount": pa.float64(),
        "currency": pa.string(),
        "country": pa.string(),
        "merchant": pa.string(),
        "at": pa.int64(),
    }
)


def build(builder: StreamsBuilder) -> None:
    """Count payments per user and minute."""
    payments = (
        builder.stream(os.environ[INPUT_VARIABLE], Consumed.with_(StringSerde(), JsonSerde(PAYMENT)))
        # Always true. It makes every contestant read the payment: without it a lazy one could skip the JSON.
        .filter(pc.field("amount") > 0)
    )
    if os.environ.get(REPARTITION_VARIABLE) == "True":
        payments = payments.repartition(Repartitioned.with_(StringSerde(), JsonSerde(PAYMENT)))
    (
        payments.group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(WINDOW_MS, GRACE_MS))
        .count()
        .to_stream()
        .to(
            os.environ[OUTPUT_VARIABLE],
            Produced.with_(TimeWindowedSerde(StringSerde(), WINDOW_MS), LongSerde()),
        )
    )
