from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from millrace.driver.lifecycle import ApplicationState
from millrace.driver.status import ApplicationStatus, DriverIdentity
from millrace.dsl import Materialized, RecordContext, StreamsBuilder, TimeWindows
from millrace.install.spec import ApplicationSpec, TopicDeclaration, UpgradeMode
from millrace.launch.broker_checks import broker_checks
from millrace.launch.broker_view import BrokerView, TopicView
from millrace.launch.checks import Check
from millrace.topology.topology import FrozenTopology


def by_country(key: str, value: Any, context: RecordContext) -> str:
    return f"payments-{key}"


def topology() -> FrozenTopology:
    builder = StreamsBuilder()
    accounts = builder.table("accounts", materialized=Materialized.as_("accounts"))
    builder.stream("payments").join(accounts, lambda payment, account: payment).to("enriched")
    return builder.build()


def spec(**changes: Any) -> ApplicationSpec:
    return ApplicationSpec(
        name="app", module="apps.app:build", **{"config": {"bootstrap.servers": "localhost:1"}, **changes}
    )


def view(*topics: TopicView, **changes: Any) -> BrokerView:
    there = [topic("accounts"), topic("payments"), topic("enriched"), *topics]
    found = {each.name: each for each in there}
    return BrokerView(**{"brokers": 1, "topics": found, "names": frozenset(found), **changes})


def topic(name: str, partitions: int = 4, replicas: int = 1, min_insync_replicas: int = 1) -> TopicView:
    return TopicView(name=name, partitions=partitions, replicas=replicas, min_insync_replicas=min_insync_replicas)


def failed(checks: Any) -> dict[str, Check]:
    return {check.name: check for check in checks if not check.ok}


def test_a_cluster_that_fits_passes_every_check() -> None:
    assert failed(broker_checks(spec(), topology(), view())) == {}


def test_topics_that_collide_with_others_of_the_cluster_are_named_before_anything_is_created() -> None:
    """Case S19: the broker does not tell ``.`` and ``_`` apart in the names of topics."""
    names = frozenset({"accounts", "payments", "enriched", "app_accounts-changelog"})
    there = spec(topics=[{"name": "pay_ments"}, {"name": "pay.ments"}])
    problems = failed(broker_checks(there, topology(), view(names=names)))
    assert problems["topic names"].text == "pay_ments and pay.ments"
    there = spec(topics=[{"name": "app.accounts-changelog"}])
    problems = failed(broker_checks(there, topology(), view(names=names)))
    assert problems["topic names"].text == "app.accounts-changelog and app_accounts-changelog, which exists"


def test_internal_topics_that_would_damage_records_are_named() -> None:
    """Case E16: and those that would only refuse some are corrected at the start."""
    name = "app-accounts-changelog"

    def with_settings(**settings: str) -> BrokerView:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        return view(replace(topic(name), settings=named))

    problems = failed(broker_checks(spec(), topology(), with_settings(message_timestamp_type="LogAppendTime")))
    assert problems["internal topic settings"].text == (
        f"{name} has message.timestamp.type=LogAppendTime, so that records lose their event times"
    )
    low = with_settings(message_timestamp_after_max_ms="3600000", cleanup_policy="compact")
    (check,) = [each for each in broker_checks(spec(), topology(), low) if each.name == "internal topic settings"]
    assert (check.ok, check.text) == (True, f"{name}: message.timestamp.after.max.ms is raised at the start")


def test_a_compacted_dead_letter_topic_is_refused() -> None:
    config = {"bootstrap.servers": "localhost:1", "errors.dead.letter.queue.topic.name": "dlq"}
    compacted = view(replace(topic("dlq"), settings={"cleanup.policy": "compact"}))
    problems = failed(broker_checks(spec(config=config), topology(), compacted))
    assert problems["dead-letter topic"].text == "dlq has cleanup.policy=compact"
    assert failed(broker_checks(spec(config=config), topology(), view(topic("dlq")))) == {}


def test_missing_topics_are_named_and_declared_ones_count_as_there() -> None:
    there = {"accounts": topic("accounts")}
    problems = failed(broker_checks(spec(), topology(), view(topics=there)))
    assert problems["input topics"].text == "missing: payments"
    assert problems["output topics"].text == "missing: enriched"
    declared = [TopicDeclaration(name="payments", partitions=4), TopicDeclaration(name="enriched")]
    assert failed(broker_checks(spec(topics=declared), topology(), view(topics=there))) == {}


def test_the_topic_of_a_global_table_must_exist_with_any_number_of_partitions() -> None:
    builder = StreamsBuilder()
    accounts = builder.global_table("accounts", materialized=Materialized.as_("accounts"))
    builder.stream("payments").join(accounts, lambda key, value: key, lambda payment, account: payment).to("enriched")
    enriching = builder.build()
    assert failed(broker_checks(spec(), enriching, view(topic("accounts", 7)))) == {}
    without = {name: topic(name) for name in ("payments", "enriched")}
    assert failed(broker_checks(spec(), enriching, view(topics=without)))["input topics"].text == "missing: accounts"


def test_joined_topics_need_the_same_number_of_partitions() -> None:
    problems = failed(broker_checks(spec(), topology(), view(topic("payments", 3))))
    assert problems["co-partitioning"].text == "accounts has 4 partitions, payments has 3 partitions"


def test_a_changelog_with_another_number_of_partitions_is_refused() -> None:
    problems = failed(broker_checks(spec(), topology(), view(topic("app-accounts-changelog", 2))))
    assert "app-accounts-changelog has 2 partitions and needs 4" in problems["internal topics"].text


def test_more_in_sync_replicas_than_replicas_are_refused() -> None:
    problems = failed(broker_checks(spec(), topology(), view(topic("enriched", min_insync_replicas=2))))
    assert "enriched has 1 replicas and min.insync.replicas=2" in problems["replication"].text


def test_a_replication_factor_above_the_number_of_brokers_is_refused() -> None:
    config = {"bootstrap.servers": "localhost:1", "replication.factor": 3}
    problems = failed(broker_checks(spec(config=config), topology(), view()))
    assert "replication.factor is 3 and there are 1 brokers" in problems["replication"].text


def test_a_transaction_timeout_above_the_brokers_is_refused() -> None:
    limits = view(settings={"transaction.max.timeout.ms": "30000"})
    assert "transaction timeout" in failed(broker_checks(spec(), topology(), limits))
    once = {"bootstrap.servers": "localhost:1", "processing.guarantee": "at_least_once"}
    assert failed(broker_checks(spec(config=once), topology(), limits)) == {}


def test_a_topology_that_would_lose_a_store_is_refused_with_the_store_and_its_topic() -> None:
    there = view(topic("app-totals-changelog"))
    problems = failed(broker_checks(spec(), topology(), there))
    assert "store totals and its changelog app-totals-changelog" in problems["state"].text
    assert failed(broker_checks(spec(upgrade_mode=UpgradeMode.STATELESS), topology(), there)) == {}


def running(old: FrozenTopology) -> ApplicationStatus:
    return ApplicationStatus.model_validate(
        {
            "application_id": "app",
            "state": ApplicationState.RUNNING,
            "driver": DriverIdentity.of_this_process(),
            "driver_epoch": 1,
            "topology_fingerprint": old.fingerprint,
            "topology_summary": old.summary(),
        }
    )


def counting(store: str, *, windowed: bool) -> FrozenTopology:
    builder = StreamsBuilder()
    grouped = builder.stream("payments").group_by_key()
    if windowed:
        windows = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
        grouped.windowed_by(windows).count(materialized=Materialized.as_(store))
    else:
        grouped.count(materialized=Materialized.as_(store))
    return builder.build()


def test_a_running_store_that_would_be_read_as_something_else_is_refused_also_when_stateless() -> None:
    there = view(statuses={"app": running(counting("totals", windowed=False))})
    for mode in (UpgradeMode.LAST_STATE, UpgradeMode.STATELESS):
        problems = failed(broker_checks(spec(upgrade_mode=mode), counting("totals", windowed=True), there))
        assert "store totals would be read as something else" in problems["running topology"].text


def test_a_renamed_store_of_the_running_topology_is_refused() -> None:
    there = view(statuses={"app": running(counting("totals", windowed=False))})
    problems = failed(broker_checks(spec(), counting("sums", windowed=False), there))
    assert "totals-changelog would not be used any more" in problems["state"].text


def test_a_live_member_of_the_group_is_refused() -> None:
    problems = failed(broker_checks(spec(), topology(), view(group_members="console-consumer on /10.0.0.7")))
    assert "console-consumer on /10.0.0.7" in problems["group members"].text


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_every_check_is_made_although_an_early_one_fails(guarantee: str) -> None:
    config = {"bootstrap.servers": "localhost:1", "processing.guarantee": guarantee, "replication.factor": 3}
    there = view(topics={}, group_members="somebody")
    assert set(failed(broker_checks(spec(config=config), topology(), there))) == {
        "input topics",
        "output topics",
        "replication",
        "group members",
    }


def test_topics_that_records_choose_are_told_of_and_cannot_be_checked() -> None:
    builder = StreamsBuilder()
    builder.stream("payments").to(by_country)
    (check,) = [each for each in broker_checks(spec(), builder.build(), view()) if each.name == "chosen topics"]
    assert check.ok
    assert "not known before records come" in check.text
    assert "KSTREAM-SINK-0000000001: topic by by_country" in check.text
