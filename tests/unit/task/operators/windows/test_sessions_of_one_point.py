"""Sessions that are one point in time and get another record there: what is made of them forgets what was before."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.dsl import Consumed, Grouped, Materialized, Produced, SessionWindows, StreamsBuilder
from millrace.dsl.ktable import KTable
from millrace.serdes import JsonSerde, LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver

TEXT, NUMBER, JSON = StringSerde(), LongSerde(), JsonSerde()


def counted(builder: StreamsBuilder, *, cached: bool) -> KTable:
    stored = Materialized.as_("counts").with_key_serde(TEXT).with_value_serde(NUMBER)
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    return grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 5)).count(
        stored if cached else stored.with_caching_disabled()
    )


def run(builder: StreamsBuilder, *, cached: bool) -> dict[Any, Any]:
    """The last value of each key of ``out`` after two records at one time, one by one."""
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": None if cached else 0}) as driver:
        records = driver.create_input_topic("in", TEXT, TEXT)
        for _ in range(2):
            records.pipe_batch([TestRecord("a", "v", 40)])
        return driver.create_output_topic("out", TEXT, JSON).read_key_values_to_map()


@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
def test_a_table_that_groups_sessions_counts_each_record_once(cached: bool) -> None:
    builder = StreamsBuilder()
    by_all = counted(builder, cached=cached).group_by(lambda key, count: ("all", count), Grouped.with_(TEXT, JSON))
    total = by_all.aggregate(
        lambda: 0,
        lambda key, count, total: total + count,
        lambda key, count, total: total - count,
        Materialized.with_(TEXT, JSON),
    )
    total.to_stream().to("out", Produced.with_(TEXT, JSON))
    assert run(builder, cached=cached) == {"all": 2}


@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
def test_a_filter_of_sessions_takes_back_what_does_not_match_any_more(cached: bool) -> None:
    builder = StreamsBuilder()
    single = counted(builder, cached=cached).filter(lambda key, count: count == 1)
    single.to_stream().map(lambda key, count: (key.key, count)).to("out", Produced.with_(TEXT, JSON))
    assert run(builder, cached=cached) == {"a": None}
