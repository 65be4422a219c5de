"""What a wrong setting is told, and which settings of Kafka Streams there are."""

from __future__ import annotations

import re
from typing import Any

import pytest

from millrace.config import PASSED_ON_PREFIXES, ProcessingEngine, StreamsConfig
from millrace.config_advice import INSTEAD, OLD_NAMES, PREFIXES_INSTEAD
from millrace.errors import ConfigurationError
from millrace.handlers import Handler
from tests.unit.apps.places import REPOSITORY

OF_KAFKA_STREAMS = frozenset(
    """
    acceptable.recovery.lag allow.os.group.write.access application.id application.server bootstrap.servers
    buffered.records.per.partition built.in.metrics.version cache.max.bytes.buffering client.id commit.interval.ms
    connections.max.idle.ms default.client.supplier default.deserialization.exception.handler default.dsl.store
    default.interactive.query.isolation.level default.key.serde default.production.exception.handler
    default.timestamp.extractor default.value.serde deserialization.exception.handler dsl.store.format
    dsl.store.suppliers.class enable.metrics.push enable.transactional.statestores
    ensure.explicit.internal.resource.naming errors.dead.letter.queue.topic.name group.protocol
    log.summary.interval.ms max.task.idle.ms max.warmup.replicas metadata.max.age.ms metric.reporters
    metrics.num.samples metrics.recording.level metrics.sample.window.ms num.standby.replicas num.stream.threads poll.ms
    probing.rebalance.interval.ms processing.exception.handler processing.exception.handler.global.enabled
    processing.guarantee processor.wrapper.class production.exception.handler rack.aware.assignment.non_overlap_cost
    rack.aware.assignment.strategy rack.aware.assignment.tags rack.aware.assignment.traffic_cost receive.buffer.bytes
    reconnect.backoff.max.ms reconnect.backoff.ms repartition.purge.interval.ms replication.factor request.timeout.ms
    retry.backoff.ms rocksdb.config.setter security.protocol send.buffer.bytes state.cleanup.delay.ms
    state.cleanup.dir.max.age.ms state.dir statestore.cache.max.bytes statestore.uncommitted.max.bytes
    task.assignor.class task.timeout.ms topology.description.push.enabled topology.optimization upgrade.from
    window.size.ms windowed.inner.class.serde windowstore.changelog.additional.retention.ms
    """.split()  # noqa: SIM905 - as the constants of org.apache.kafka.streams.StreamsConfig 4.4.0 are listed
)
PREFIXES_OF_KAFKA_STREAMS = (
    "topic.", "consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer.", "admin.",
    "client.tag.",
)  # fmt: skip
KNOWN = {str(field.alias) for name, field in StreamsConfig.model_fields.items() if name != "passed_on"}
NEEDED = {"application.id": "app", "bootstrap.servers": "none:0"}


def refused(**settings: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        StreamsConfig.from_mapping({**NEEDED, **settings})
    return raised.value.message


def test_every_setting_of_kafka_streams_is_known_or_says_what_does_its_work() -> None:
    passed_on = {key for key in OF_KAFKA_STREAMS if key.startswith(PASSED_ON_PREFIXES)}
    assert OF_KAFKA_STREAMS - KNOWN - passed_on == INSTEAD.keys() | OLD_NAMES.keys()
    assert not INSTEAD.keys() & KNOWN
    assert set(OLD_NAMES.values()) <= KNOWN


def test_every_prefix_of_kafka_streams_is_passed_on_or_says_what_does_its_work() -> None:
    assert {*PREFIXES_OF_KAFKA_STREAMS} - {*PASSED_ON_PREFIXES} == PREFIXES_INSTEAD.keys()


def test_the_page_for_kafka_streams_users_has_a_row_for_each() -> None:
    page = (REPOSITORY / "docs" / "from-kafka-streams.md").read_text()
    section = page.partition("## Settings that do not apply here")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE))
    assert rows == {**INSTEAD, **{f"{prefix}*": text for prefix, text in PREFIXES_INSTEAD.items()}}


@pytest.mark.parametrize("key", sorted(INSTEAD))
def test_a_setting_without_a_meaning_here_says_what_to_use(key: str) -> None:
    message = refused(**{key: "1"})
    assert f"{key!r} is a setting of Kafka Streams without a meaning here; " in message
    assert INSTEAD[key].removeprefix("nothing: ") in message
    assert "nearest" not in message


@pytest.mark.parametrize("key", sorted(set(re.findall(r"`((?:[a-z0-9_]+\.)+[a-z0-9_]+)`", " ".join(INSTEAD.values())))))
def test_a_setting_that_the_advice_names_exists(key: str) -> None:
    assert key in KNOWN or key in {"launcher.parallelism"}


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("main.consumer.max.poll.records", "use `consumer.`"),
        ("restore.consumer.fetch.max.bytes", "use `consumer.`"),
        ("client.tag.zone", "millrace standby"),
        ("max.partition.fetch.bytes", "use `consumer.max.partition.fetch.bytes`"),
        ("fetch.min.bytes", "use `consumer.fetch.min.bytes`"),
        ("linger.ms", "use `producer.linger.ms`"),
        ("acks", "use `producer.acks`"),
        ("group.id", "use `application.id`"),
        ("key.deserializer", "use `default.key.serde`"),
        ("value.serializer", "use `default.value.serde`"),
        ("isolation.level", "it needs none: input is read committed"),
    ],
)
def test_settings_of_clients_say_where_they_go(key: str, advice: str) -> None:
    assert advice in refused(**{key: "1"})


def test_a_misspelt_setting_is_answered_with_the_nearest_one() -> None:
    assert "unknown setting 'comit.interval.ms'; the nearest known one is 'commit.interval.ms'" in refused(
        **{"comit.interval.ms": 1}
    )


@pytest.mark.parametrize("old", OLD_NAMES)
def test_an_old_name_is_taken_unless_the_new_one_says_otherwise(old: str) -> None:
    new = OLD_NAMES[old]
    value, other = (7, 8) if new == "statestore.cache.max.bytes" else ("continue", "fail")
    assert StreamsConfig.from_mapping({**NEEDED, old: value}).to_mapping()[new] == value
    assert StreamsConfig.from_mapping({**NEEDED, old: value, new: value})
    assert f"{old!r} is the old name of {new!r}, and both are set" in refused(**{old: value, new: other})


def test_records_of_a_poll_are_limited_with_and_without_the_prefix_and_the_client_library_hears_nothing_of_it() -> None:
    plain, prefixed = "max.poll.records", "consumer.max.poll.records"
    for settings in ({plain: 7}, {prefixed: 7}, {plain: 7, prefixed: "7"}):
        config = StreamsConfig.from_mapping({**NEEDED, **settings, "consumer.fetch.min.bytes": 1})
        assert config.max_poll_records == 7
        assert config.client_settings("consumer.") == {"fetch.min.bytes": "1"}
        assert StreamsConfig.from_mapping(config.to_mapping()) == config
    assert "'consumer.max.poll.records' is the same setting as 'max.poll.records', and both are set" in refused(
        **{plain: 7, prefixed: 8}
    )
    assert "greater than or equal to 1" in refused(**{prefixed: 0})


@pytest.mark.parametrize(
    ("settings", "threads", "batches"),
    [
        ({}, 100, 100),
        ({"processing.guarantee": "at_least_once"}, 30_000, 100),
        ({"processing.guarantee": "at_least_once", "commit.interval.ms": 0}, 0, 0),
        ({"commit.interval.ms": 45_000}, 45_000, 45_000),
    ],
)
def test_the_time_between_two_commits_depends_on_the_guarantee_as_in_kafka_streams(
    settings: dict[str, Any], threads: int, batches: int
) -> None:
    config = StreamsConfig.from_mapping({**NEEDED, **settings})
    # What is not set stays so on its way to a worker: which engine it is decides.
    for each in (config, StreamsConfig.from_mapping(config.to_mapping())):
        assert each.commit_interval_ms_of(ProcessingEngine.STREAM_THREADS) == threads
        assert each.commit_interval_ms_of(ProcessingEngine.MICRO_BATCHES) == batches


def test_a_cache_of_no_size_merges_no_updates() -> None:
    sizes = {size: {"statestore.cache.max.bytes": size} for size in (0, "0", 1, 10_485_760)}
    merging = {size: StreamsConfig.from_mapping({**NEEDED, **each}).merges_updates for size, each in sizes.items()}
    assert merging == {0: False, "0": False, 1: True, 10_485_760: True}
    assert StreamsConfig.from_mapping(NEEDED).merges_updates
    assert "greater than or equal to 0" in refused(**{"statestore.cache.max.bytes": -1})


def test_the_former_setting_of_the_cache_says_what_does_its_work() -> None:
    message = refused(**{"statestore.cache.enabled": False})
    assert "'statestore.cache.enabled' is a setting no longer; use `statestore.cache.max.bytes`: 0 is what" in message


HANDLERS = ("deserialization.exception.handler", "processing.exception.handler", "production.exception.handler")


@pytest.mark.parametrize("key", HANDLERS)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("LogAndContinue", r"There is no exception handler 'LogAndContinue' \(write continue, or name `continue`"),
        ("log_and_fail", r"There is no exception handler 'log_and_fail' \(write fail, or name"),
        ("com.example.MyHandler", r"There is no exception handler 'com.example.MyHandler' \(name `continue`, `fail`"),
        (Handler, r"named by a text, since each worker makes its own, and this is the class Handler"),
        (print, r"named by a text, since each worker makes its own, and this is <built-in function print>"),
        (None, r"and this is None"),
    ],
)
def test_a_handler_that_is_none_is_answered_with_its_setting_and_the_one_meant(
    key: str, value: Any, message: str
) -> None:
    text = refused(**{key: value})
    assert re.search(rf"{re.escape(key)}: .*{message}", text), text


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "default.timestamp.extractor",
            "Wallclock",
            r"'Wallclock' is no timestamp extractor; name FailOnInvalidTimest",
        ),
        ("default.timestamp.extractor", len, r"is no timestamp extractor"),
        ("auto.offset.reset", "none", r"auto.offset.reset: 'none' does not suit: .*earliest or latest"),
        ("processing.guarantee", "exactly_once", r"processing.guarantee: Input should be 'exactly_once_v2' or"),
        ("topology.optimization", "most", r"topology.optimization knows none, all, .*; not most"),
        ("application.id", "my app", r"application.id: 'my app' does not suit: Name of the application"),
    ],
)
def test_a_value_that_does_not_suit_is_answered_without_a_pattern(key: str, value: Any, message: str) -> None:
    text = refused(**{key: value})
    assert re.search(message, text), text
    assert "pattern" not in text


def test_a_task_idles_on_stream_threads_only() -> None:
    idling = {"max.task.idle.ms": "-1"}
    assert "needs processing.engine: stream-threads" in refused(**idling, **{"processing.engine": "micro-batches"})
    assert StreamsConfig.from_mapping({**NEEDED, **idling}).max_task_idle_ms == -1


def test_standby_copies_are_kept_by_stream_threads_only() -> None:
    settings = {"num.standby.replicas": "1"}
    assert "`millrace standby` keeps copies" in refused(**settings, **{"processing.engine": "micro-batches"})
    assert StreamsConfig.from_mapping({**NEEDED, **settings}).num_standby_replicas == 1


@pytest.mark.parametrize(
    "key", ["buffered.records.per.partition", "input.buffer.max.bytes", "statestore.cache.max.bytes"]
)
def test_buffers_are_bounded_by_stream_threads_only(key: str) -> None:
    batches = {"processing.engine": "micro-batches"}
    assert f"{key} of 5 needs processing.engine: stream-threads; a micro-batch is bounded by" in refused(
        **{key: 5}, **batches
    )
    assert StreamsConfig.from_mapping({**NEEDED, key: 5}).to_mapping()[key] == 5


def test_micro_batches_merge_no_updates_either_where_the_cache_has_no_size() -> None:
    settings = {"statestore.cache.max.bytes": 0, "processing.engine": "micro-batches"}
    assert not StreamsConfig.from_mapping({**NEEDED, **settings}).merges_updates


DYNAMIC = {
    "processing.engine": "stream-threads",
    "master": "spark://host:7077",
    "spark.dynamicAllocation.enabled": "true",
}


def test_dynamic_allocation_must_know_how_many_stream_threads_there_are_to_be() -> None:
    assert "set num.stream.threads, or spark.dynamicAllocation.maxExecutors" in refused(**DYNAMIC)
    for limit in ({"num.stream.threads": 4}, {"spark.dynamicAllocation.maxExecutors": "4"}):
        StreamsConfig.from_mapping({**NEEDED, **DYNAMIC, **limit})
    # Spark allocates nothing with a local master, and micro-batches end.
    StreamsConfig.from_mapping({**NEEDED, **DYNAMIC, "master": "local[2]"})
    StreamsConfig.from_mapping({**NEEDED, **DYNAMIC, "processing.engine": "micro-batches"})


def test_dynamic_allocation_must_ask_for_a_slot_for_each_stream_thread() -> None:
    ratio = {"num.stream.threads": 4, "spark.dynamicAllocation.executorAllocationRatio": "0.5"}
    assert "asks for fewer slots than there are stream threads" in refused(**DYNAMIC, **ratio)
