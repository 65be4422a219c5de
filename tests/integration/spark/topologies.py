"""Small topologies of the tests beside it. Topics are named by the test that runs them."""

from __future__ import annotations

import pyarrow as pa

from millrace.dsl import Consumed, Materialized, Produced, StreamsBuilder
from millrace.serdes import LongSerde, StringSerde
from tests.application import topic

TEXT = Consumed.with_(StringSerde(), StringSerde())
COUNTS = Produced.with_(StringSerde(), LongSerde())


def count(builder: StreamsBuilder) -> None:
    """Counts records by key; every update goes out."""
    counts = (
        builder.stream(topic("in"), TEXT)
        .group_by_key()
        .count(materialized=Materialized.as_("counts").with_caching_disabled())
    )
    counts.to_stream().to(topic("out"), COUNTS)
