"""The plan of an application under a load, against its topology and against what a run of it writes."""

from __future__ import annotations

import random
import re
from datetime import timedelta
from typing import Any

import orjson
import pytest

from millrace.dsl import (
    BufferConfig,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Processor,
    Produced,
    Record,
    StoreBackend,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    Suppressed,
    TableJoined,
    TimeWindows,
    Topology,
)
from millrace.dsl.loading import load_topology
from millrace.errors import ConfigurationError, TopologyError
from millrace.insight.plan import Plan, plan
from millrace.insight.plan_stores import plan_stores
from millrace.insight.plan_traffic import ExpectedLoad, Traffic
from millrace.install.spec import ApplicationSpec
from millrace.serdes import LongSerde, StringSerde
from millrace.testing import TestRecord, TopologyTestDriver

TEXT = StringSerde()
LONG = LongSerde()
DAY_MS = 86_400_000


def build(builder: StreamsBuilder) -> None:
    """Counts by another key, per minute and over all, and joins with a table."""
    clicks = builder.stream("clicks", Consumed.with_(TEXT, LONG))
    users = builder.table("users", Consumed.with_(TEXT, LONG), Materialized.as_("users"))
    clicks.join(users, lambda click, user: click + user).to("joined", Produced.with_(TEXT, LONG))
    grouped = clicks.group_by(
        lambda key, value: f"g{value}", Grouped(name="by-value", key_serde=TEXT, value_serde=LONG)
    )
    grouped.count(Materialized.as_("counts"))
    windows = TimeWindows.of_size_and_grace(60_000, 30_000).advance_by(20_000)
    grouped.windowed_by(windows).count(Materialized.as_("per-minute").with_caching_disabled())
    grouped.count(Materialized(name="scratch", store_type=StoreBackend.MEMORY).with_logging_disabled())


def build_stateless(builder: StreamsBuilder) -> None:
    """Copies."""
    builder.stream("clicks").to("copies")


def build_join(builder: StreamsBuilder) -> None:
    """A join with a table."""
    users = builder.table("users", Consumed.with_(TEXT, LONG), Materialized.as_("users"))
    builder.stream("clicks", Consumed.with_(TEXT, LONG)).join(users, lambda click, user: click).to(
        "joined", Produced.with_(TEXT, LONG)
    )


def build_foreign_key_join(builder: StreamsBuilder) -> None:
    """Clicks, as a table, joined with the users that they name."""
    clicks = builder.table("clicks", Consumed.with_(TEXT, TEXT), Materialized.as_("clicks"))
    users = builder.table("users", Consumed.with_(TEXT, TEXT), Materialized.as_("users"))
    options = TableJoined.as_("fk")
    joined = clicks.join(users, lambda click, user: click, foreign_key_extractor=str, table_joined=options)
    joined.to_stream().to("joined", Produced.with_(TEXT, LONG))


def build_global(builder: StreamsBuilder) -> None:
    """A join with a global table."""
    users = builder.global_table("people", Consumed.with_(TEXT, LONG), Materialized.as_("users"))
    clicks = builder.stream("clicks", Consumed.with_(TEXT, LONG))
    clicks.left_join(users, lambda key, value: key, lambda click, user: click).to("joined", Produced.with_(TEXT, LONG))


def build_suppressed(builder: StreamsBuilder) -> None:
    """Counts of users, at most one a second."""
    limited = Suppressed.until_time_limit(1_000, BufferConfig.max_records(100)).with_name("held")
    clicks = builder.stream("clicks", Consumed.with_(TEXT, LONG)).group_by_key()
    clicks.count(Materialized.as_("counts")).suppress(limited).to_stream().to("counted")


def build_grace(builder: StreamsBuilder) -> None:
    """A join that waits ten seconds for a table with a minute of history."""
    versions = Materialized.as_(Stores.persistent_versioned_key_value_store("users", 60_000))
    users = builder.table("users", Consumed.with_(TEXT, LONG), versions)
    clicks = builder.stream("clicks", Consumed.with_(TEXT, LONG))
    joined = Joined.as_("with-user").with_grace_period(10_000)
    clicks.join(users, lambda click, user: click, joined=joined).to("joined", Produced.with_(TEXT, LONG))


def spec(*, function: str = "build", **changes: Any) -> ApplicationSpec:
    return ApplicationSpec.model_validate({
        "name": "shop",
        "module": f"tests.unit.insight.test_plan:{function}",
        "config": {"bootstrap.servers": "localhost:1", **changes.pop("config", {})},
        "topics": [{"name": "clicks", "partitions": 4}, {"name": "users", "partitions": 4}],
        **changes,
    })  # fmt: skip


def load(**changes: Any) -> ExpectedLoad:
    return ExpectedLoad(**{"records_per_second": 2_000, "record_bytes": 50, "keys": 10_000, **changes})


def planned(**changes: Any) -> Plan:
    return plan(spec(**changes), load())


class Deduplicating(Processor[str, int]):
    """Keeps nothing but a store's name."""

    @staticmethod
    def stores() -> list[StoreBuilder]:
        """Window starts of what was seen."""
        supplier = Stores.persistent_window_store("seen", timedelta(hours=1), timedelta(minutes=1))
        return [Stores.window_store_builder(supplier, TEXT, LONG)]

    def process(self, record: Record[str, int], /) -> None:
        self.context.forward(record)


def build_processors(_: StreamsBuilder) -> Topology:
    """Two processors with one store, put together by hand."""
    topology = Topology().add_source("clicks", "clicks").add_source("users", "users")
    for name in ("clicks", "users"):
        topology.add_processor(f"{name}-once", Deduplicating, name)
    return topology


def test_the_store_of_processors_is_planned_for_all_of_them() -> None:
    made = plan(spec(function="build_processors"), load(records_per_second=100, keys=50))
    (store,) = made.stores
    assert (store.name, store.kind, store.updates_per_second) == ("seen", "window", 100)
    assert [topic.name for topic in made.topics] == ["shop-seen-changelog"]


def test_the_topics_are_those_that_the_application_creates() -> None:
    topics = {topic.name: topic for topic in planned().topics}
    assert {name: (topic.partitions, topic.cleanup_policy) for name, topic in topics.items()} == {
        "shop-by-value-repartition": (4, "delete"),
        "shop-users-changelog": (4, "compact"),
        "shop-counts-changelog": (4, "compact"),
        "shop-per-minute-changelog": (4, "compact,delete"),
    }
    assert topics["shop-by-value-repartition"].retention_ms is None
    assert topics["shop-per-minute-changelog"].retention_ms == 90_000 + DAY_MS
    assert all(topic.size.largest_bytes >= topic.size.live_bytes > 0 for topic in topics.values())


def build_matching(builder: StreamsBuilder) -> None:
    read = Consumed.with_(TEXT, LONG)
    builder.stream(re.compile("click.*"), read).group_by_key().count(Materialized.as_("counts"))


def test_a_pattern_stands_for_the_topics_that_are_declared_or_given() -> None:
    made = planned(function="build_matching", topics=[{"name": "clicks", "partitions": 3}])
    assert made.tasks == {0: 3}
    assert plan(spec(function="build_matching"), load(), partitions={"clicks-eu": 6}).tasks == {0: 6}
    with pytest.raises(TopologyError, match=r"'click\.\*' of source .* matches no topic"):
        planned(function="build_matching", topics=[])


def test_a_buffer_logs_both_values_of_a_key_once_per_commit() -> None:
    made = planned(function="build_suppressed")
    counts, held = (next(store for store in made.stores if store.name == name) for name in ("counts", "held-store"))
    assert (held.kind, held.changelog, held.creates_changelog) == ("buffer", "shop-held-store-changelog", True)
    assert held.updates_per_second == counts.updates_per_second
    assert held.changelog_bytes_per_second > 2 * counts.changelog_bytes_per_second
    topics = {topic.name: topic.cleanup_policy for topic in made.topics}
    assert topics["shop-held-store-changelog"] == "compact"


def test_a_run_writes_the_topics_and_about_as_many_updates_as_planned() -> None:
    """The load of five commit intervals, each of them one batch, on one task."""
    one: dict[str, Any] = {"topics": [{"name": "clicks", "partitions": 1}, {"name": "users", "partitions": 1}]}
    made = plan(spec(**one), load(records_per_second=2_000, keys=300))
    draw = random.Random(3)
    batches = 5
    per_batch = round(1_000 * made.commit_interval_s)
    with TopologyTestDriver(load_topology("tests.unit.insight.test_plan:build"), {"application.id": "shop"}) as driver:
        clicks = driver.create_input_topic("clicks", TEXT, LONG)
        users = driver.create_input_topic("users", TEXT, LONG)
        for _ in range(batches):
            users.pipe_batch([TestRecord(f"k{draw.randrange(300)}", 1, 100_000) for _ in range(per_batch)])
            clicks.pipe_batch([TestRecord("k", draw.randrange(300), 100_000) for _ in range(per_batch)])
        written = {topic: len(records) for topic, records in driver.changelogs.items()}
        internal = driver.produced_topic_names() - {"joined"}
    assert internal == {topic.name for topic in made.topics}
    seconds = batches * made.commit_interval_s
    for store in made.stores:
        if store.changelog is not None:
            assert store.updates_per_second * seconds == pytest.approx(written[store.changelog], rel=0.05), store.name


def test_history_and_records_that_wait_are_planned_by_their_times() -> None:
    stores = {store.name: store for store in plan(spec(function="build_grace"), load(records_per_second=500)).stores}
    versions, buffer = stores["users"], stores["with-user-Buffer"]
    assert versions.size.entries == 10_000 + versions.updates_per_second * 60
    assert buffer.size.entries == buffer.updates_per_second / 2 * 10
    assert versions.changelog_size is not None
    assert versions.changelog_size.live_bytes > versions.updates_per_second * 86_400 * 50


def test_a_store_without_changelog_is_on_no_topic_and_in_no_recovery() -> None:
    stores = {store.name: store for store in planned().stores}
    assert set(stores) == {"users", "counts", "per-minute", "scratch"}
    assert (stores["scratch"].changelog, stores["scratch"].changelog_size) == (None, None)
    made = planned()
    assert made.store_disk_bytes == sum(s.size.disk_bytes for s in made.stores if s.name != "scratch")


def test_a_window_store_has_an_entry_for_each_live_window() -> None:
    stores = {store.name: store for store in planned().stores}
    # Retention of 90 s and a segment of 60 s hold 8 windows that begin every 20 s; each record is in three.
    assert stores["per-minute"].size.entries == 80_000
    assert stores["per-minute"].updates_per_second == 3 * 1_000
    assert stores["counts"].updates_per_second < 1_000


def test_without_caching_every_update_goes_to_the_changelog() -> None:
    made = planned(config={"statestore.cache.max.bytes": 0})
    assert {store.name: store.updates_per_second for store in made.stores}["counts"] == pytest.approx(1_000)


def test_at_least_once_has_no_transactions() -> None:
    assert planned(config={"processing.guarantee": "at_least_once"}).eos is None


def test_a_longer_commit_interval_means_fewer_transactions() -> None:
    often, seldom = planned().eos, planned(config={"commit.interval.ms": 4_000}).eos
    always = planned(config={"commit.interval.ms": 0}).eos
    batches = planned(config={"processing.engine": "micro-batches"}).eos
    assert often is not None
    assert seldom is not None
    assert always is not None
    assert batches is not None
    assert often.transactions_per_second == pytest.approx(8 / 0.1)
    assert always.transactions_per_second == pytest.approx(8 / 0.02)
    assert batches.transactions_per_second == pytest.approx(8 / 0.4)
    assert seldom.transactions_per_second == pytest.approx(8 / 4)


def test_a_standby_shortens_the_recovery() -> None:
    made = planned()
    assert made.recovery_with_standby.restore_bytes < made.recovery.restore_bytes / 100
    assert made.recovery_with_standby.total_s < made.recovery.total_s


def test_an_application_without_stores_has_nothing_to_restore() -> None:
    made = plan(spec(function="build_stateless"), load())
    assert (made.topics, made.stores, made.recovery.restore_bytes) == ((), (), 0)
    assert made.tasks == {0: 4}


def test_an_input_topic_that_serves_as_changelog_is_restored_from_but_not_created() -> None:
    builder = StreamsBuilder()
    build_join(builder)
    topology = builder.build(rewrites=["reuse-source-topic"])
    traffic = Traffic(topology, load(), {"clicks": 4, "users": 4})
    [store], topics = plan_stores(topology, spec().streams_config(), traffic, tasks={0: 4}, commit_interval_s=0.4)
    assert (store.changelog, store.creates_changelog, topics) == ("users", False, ())
    assert store.changelog_size is not None
    assert store.changelog_size.live_bytes > 0


def test_a_global_store_is_a_copy_in_each_worker_and_its_topic_may_have_any_partitions() -> None:
    made = plan(spec(function="build_global", launcher={"kind": "local", "parallelism": 3}), load())
    assert made.tasks == {1: 4}
    assert made.topics == ()
    (store,) = made.stores
    assert (store.name, store.kind, store.sub_topology, store.copies) == ("users", "global key-value", 0, 3)
    assert (store.changelog, store.creates_changelog, store.updates_per_second) == ("people", False, 1_000)
    assert made.store_disk_bytes == 3 * store.size.disk_bytes
    alone = plan(spec(function="build_global", launcher={"kind": "local", "parallelism": 1}), load())
    assert made.recovery.restore_bytes == 3 * alone.recovery.restore_bytes > 0


def test_unknown_partitions_are_refused_until_they_are_given() -> None:
    with pytest.raises(ConfigurationError, match="not known: clicks, users") as caught:
        plan(spec(topics=[]), load())
    assert "--partitions clicks=N" in caught.value.remedy
    made = plan(spec(topics=[]), load(), partitions={"clicks": 2, "users": 2})
    assert sum(made.tasks.values()) == 4
    with pytest.raises(ConfigurationError, match="neither reads nor writes click"):
        plan(spec(), load(), partitions={"click": 2})


@pytest.mark.parametrize("name", ["records_per_second", "record_bytes", "keys"])
def test_a_load_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be above 0"):
        load(**{name: 0})


def test_the_plan_is_json() -> None:
    document = orjson.loads(orjson.dumps(planned().document()))
    assert document["application"] == "shop"
    assert document["tasks"] == {"0": 4, "1": 4}
    assert document["recovery"]["total_s"] > document["recovery_with_standby"]["total_s"]


def test_a_foreign_key_join_has_its_topics_and_subscriptions_of_two_keys() -> None:
    topics = [{"name": "clicks", "partitions": 4}, {"name": "users", "partitions": 2}]
    made = plan(spec(function="build_foreign_key_join", topics=topics), load(key_bytes=10))
    assert {topic.name: topic.partitions for topic in made.topics} == {
        "shop-fk-subscription-registration-topic": 2,
        "shop-fk-subscription-response-topic": 4,
        "shop-fk-subscription-store-changelog": 2,
        "shop-clicks-changelog": 4,
        "shop-users-changelog": 2,
    }
    stores = {store.name: store for store in made.stores}
    subscription = 2 * 10 + 4 + 22 + 10
    row = 10 + 50
    difference = stores["fk-subscription-store"].size.live_bytes - stores["users"].size.live_bytes
    assert difference == 10_000 * (subscription - row)
