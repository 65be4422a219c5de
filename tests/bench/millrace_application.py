"""The benchmark's topology on Millrace. Its topics come from the environment: a spec passes no arguments."""

from __future__ import annotations

import os

import pyarrow.compute as pc

from millrace.dsl import Consumed, Produced, StreamsBuilder
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.topology import TimeWindows
from tests.bench.workloads import GRACE_MS, INPUT_VARIABLE, OUTPUT_VARIABLE, WINDOW_MS


def build(builder: StreamsBuilder) -> None:
    """Count payments per user and minute."""
    payments = builder.stream(os.environ[INPUT_VARIABLE], Consumed.with_(StringSerde(), JsonSerde()))
    (
        payments.filter(pc.field("amount") > 0)
        .group_by_key()
        .windowed_by(TimeWindows.of_size_and_grace(WINDOW_MS, GRACE_MS))
        .count()
        .to_stream()
        .to(os.environ[OUTPUT_VARIABLE], Produced.with_(value_serde=LongSerde()))
    )
