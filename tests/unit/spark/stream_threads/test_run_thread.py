"""What Spark ships to a stream thread."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Materialized, StreamsBuilder, TimeWindows
from millrace.serdes import StringSerde
from millrace.spark.plan import QueryPlan
from millrace.spark.stream_threads.run_thread import MOST_RECORDS, RunThread, task_settings
from millrace.spark.stream_threads.task_input import TASK_IDLE_DISABLED
from millrace.spark.stream_threads.thread_limits import POLL_RECORDS, ThreadLimits


def test_no_log_that_shows_it_has_the_token() -> None:
    made = RunThread(application="app", run="7", address="driver:1", token="a-secret", epoch=1, plans={})
    assert "driver:1" in repr(made)
    assert "a-secret" not in repr(made)
    assert "a-secret" not in str([made])


def config(**settings: Any) -> StreamsConfig:
    return StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "none:0", **settings})


def plan(caching: bool | None = None, **settings: Any) -> QueryPlan:
    """Of a count, or of a topology without a store, over 4 partitions."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(StringSerde(), StringSerde()))
    if caching is None:
        stream.to("out")
    else:
        kept = Materialized.as_("counts")
        windows = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        stream.group_by_key().windowed_by(windows).count(
            materialized=kept.with_caching_enabled() if caching else kept.with_caching_disabled()
        )
    return QueryPlan(
        sub_topology=builder.build().sub_topologies[0],
        config=config(**settings),
        run_id=1,
        input_partitions={"in": 4},
        topic_ids={"in": "x"},
    )


def test_a_task_has_the_defaults_where_nothing_is_set() -> None:
    found = task_settings(plan())
    assert (found.commit_interval_s, found.most_records, found.idle_s) == (0.1, MOST_RECORDS, 0.0)
    assert found.most_buffered is None
    assert not found.merges


def test_a_task_has_what_is_set() -> None:
    settings: dict[str, Any] = {
        "processing.guarantee": "at_least_once",
        "max.batch.records": 1_000,
        "max.task.idle.ms": -1,
        "buffered.records.per.partition": 70,
    }
    found = task_settings(plan(**settings))
    assert (found.commit_interval_s, found.most_records, found.idle_s) == (30.0, 250, TASK_IDLE_DISABLED)
    assert found.most_buffered == 70


@pytest.mark.parametrize("caching", [True, False])
def test_a_task_takes_a_share_of_the_cache_where_a_store_of_it_is_cached(*, caching: bool) -> None:
    assert task_settings(plan(caching)).merges is caching


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({}, ThreadLimits(poll_records=POLL_RECORDS)),
        ({"buffered.records.per.partition": 70}, ThreadLimits(poll_records=70)),
        ({"buffered.records.per.partition": 10 * POLL_RECORDS}, ThreadLimits(poll_records=POLL_RECORDS)),
        ({"buffered.records.per.partition": 70, "max.poll.records": 90}, ThreadLimits(poll_records=90)),
        ({"consumer.max.poll.records": 10 * POLL_RECORDS}, ThreadLimits(poll_records=10 * POLL_RECORDS)),
        ({"input.buffer.max.bytes": 5}, ThreadLimits(buffered_bytes=5)),
        ({"cache.max.bytes.buffering": 6}, ThreadLimits(cache_bytes=6)),
        ({"statestore.cache.max.bytes": 0}, ThreadLimits(cache_bytes=None)),
    ],
)
def test_a_thread_may_hold_what_is_set(settings: dict[str, Any], limits: ThreadLimits) -> None:
    assert ThreadLimits.from_config(config(**settings)) == limits
