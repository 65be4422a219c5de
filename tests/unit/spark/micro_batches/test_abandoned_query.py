"""What a query of a driver that was replaced does: nothing. No Spark is needed to see that none is asked."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.config import StreamsConfig
from millrace.dsl import Consumed, Grouped, Produced, StreamsBuilder
from millrace.errors import DriverFencedError, TransactionAbortedError
from millrace.serdes import LongSerde, StringSerde
from millrace.spark.micro_batches.query import SparkQuery
from millrace.spark.micro_batches.worker import TaskResult
from millrace.spark.plan import QueryPlan
from millrace.spark.query_hooks import QueryHooks

FENCE = DriverFencedError("Driver 1 of app was fenced by a newer driver: driver 2.")
TOPIC_PARTITION = ("app-by-value-repartition", 0)


def counting(hooks: QueryHooks) -> SparkQuery:
    """The query behind a repartition topic, of whose records five are committed."""
    builder = StreamsBuilder()
    strings = (StringSerde(), StringSerde())
    grouped = Grouped.as_("by-value").with_key_serde(StringSerde()).with_value_serde(StringSerde())
    counts = builder.stream("in", Consumed.with_(*strings)).group_by(lambda _, value: value, grouped).count()
    counts.to_stream().to("out", Produced.with_(StringSerde(), LongSerde()))
    part = builder.build().sub_topologies[1]
    config = StreamsConfig.from_mapping({"application.id": "app", "bootstrap.servers": "localhost:1"})
    plan = QueryPlan(sub_topology=part, config=config, run_id=1, input_partitions={TOPIC_PARTITION[0]: 1}, topic_ids={})
    query = SparkQuery(no_session(), plan, hooks)
    query._committed = {TOPIC_PARTITION: 5}
    query._ends = {TOPIC_PARTITION: 5}
    return query


def no_session() -> Any:
    """Whoever asks it for anything fails the test."""
    return object()


def test_an_abandoned_query_starts_launches_and_purges_nothing() -> None:
    asked: list[str] = []
    query = counting(QueryHooks(before_batch=lambda: asked.append("batch"), before_purge=lambda: asked.append("purge")))
    query.abandon(FENCE)
    for work in (
        query.start,
        query._purge,
        lambda: query._launch(no_session(), no_session()),
        lambda: query._run_without_rows(range(1)),
    ):
        with pytest.raises(DriverFencedError, match="driver 2"):
            work()
    query.tick()
    query._on_batch(no_session(), 1)
    assert asked == []


def test_an_abandoned_query_is_not_waited_for() -> None:
    """A batch that hangs has the lock."""
    query = counting(QueryHooks())
    with query.lock:
        query.abandon(FENCE)
    query.stop(0.1)


def test_a_job_that_is_cancelled_for_a_fence_fails_with_the_fence() -> None:
    query = counting(QueryHooks())

    class Cancelled:
        def mapInArrow(self, *_: object) -> Cancelled:  # noqa: N802 - as Spark calls it
            return self

        def collect(self) -> list[object]:
            query.abandon(FENCE)
            raise RuntimeError("Job 7 cancelled")

    with pytest.raises(DriverFencedError, match="driver 2"):
        query._launch(Cancelled(), no_session())  # type: ignore[arg-type]


def test_what_is_not_confirmed_to_be_the_newest_driver_purges_nothing() -> None:
    """The broker at the address would be asked for minutes; records stay for the next time."""

    def unknown() -> None:
        raise TransactionAbortedError("The status was not written.")

    query = counting(QueryHooks(before_purge=unknown))
    query._purge()
    assert query._repartition_purge.purged == {}


def test_a_fence_that_a_task_has_found_is_told_at_once() -> None:
    told: list[DriverFencedError] = []
    query = counting(QueryHooks(on_fenced=told.append))
    with pytest.raises(DriverFencedError):
        query._take([TaskResult("1_0", "host/1", error=FENCE)])
    assert told == [FENCE]
