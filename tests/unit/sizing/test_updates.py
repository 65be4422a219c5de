"""Updates of a batch, against those that a cached store sends on."""

from __future__ import annotations

import random

import pytest

from millrace.dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from millrace.errors import ConfigurationError
from millrace.serdes import LongSerde, StringSerde
from millrace.sizing import distinct_keys
from millrace.testing import TestRecord, TopologyTestDriver

TEXT = StringSerde()
LONG = LongSerde()


@pytest.mark.parametrize(("records", "keys"), [(1_000, 100), (1_000, 1_000), (500, 20_000)])
def test_a_cached_store_sends_on_one_update_for_each_expected_key(records: int, keys: int) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, LONG)).group_by_key(Grouped.with_(TEXT, LONG))
    counts = grouped.count(Materialized.as_("counts").with_key_serde(TEXT))
    counts.to_stream().to("out", Produced.with_(TEXT, LONG))
    draw = random.Random(7)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", TEXT, LONG)
        topic.pipe_batch([TestRecord(f"k{draw.randrange(keys)}", 1, 0) for _ in range(records)])
        updates = len(driver.create_output_topic("out", TEXT, LONG).read_records())
        logged = len(driver.changelogs["topology-test-driver-counts-changelog"])
    assert updates == logged == pytest.approx(distinct_keys(records, keys), rel=0.05)


def test_the_ends_are_exact() -> None:
    assert distinct_keys(0, 10) == 0
    assert distinct_keys(1, 10**12) == pytest.approx(1)
    assert distinct_keys(5, 1) == 1
    assert distinct_keys(10**9, 10) == pytest.approx(10)


@pytest.mark.parametrize(("records", "keys"), [(-1, 10), (1, 0), (1, -5), (float("nan"), 1)])
def test_senseless_loads_are_refused(records: float, keys: float) -> None:
    with pytest.raises(ConfigurationError, match="Remedy: give a"):
        distinct_keys(records, keys)
