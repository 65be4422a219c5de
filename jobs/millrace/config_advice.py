"""Settings of Kafka Streams and its clients that have no meaning here, and what does their work.

``docs/from-kafka-streams.md`` shows :data:`INSTEAD` as a table; a test holds both to Kafka Streams' own list.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

MOST_EXECUTORS = "spark.dynamicAllocation.maxExecutors"
_DYNAMIC = "spark.dynamicAllocation.enabled"
_RATIO = "spark.dynamicAllocation.executorAllocationRatio"

_TASKS = "`launcher.parallelism` or the executors of the specification: Spark places the tasks"
_METRICS = "nothing: metrics are always on, at `/metrics` of the driver, for Prometheus"
_STANDBY = "`millrace standby` on each host that should have copies of the stores"
_CLEANUP = "nothing: `millrace reset` deletes the state of an application"
_CLIENT = "the same under `consumer.`, `producer.` or `admin.`, by librdkafka's name"

INSTEAD: dict[str, str] = {
    "allow.os.group.write.access": "the umask of the driver's user",
    "built.in.metrics.version": _METRICS,
    "client.id": "nothing: clients are named by the application and the task",
    "connections.max.idle.ms": _CLIENT,
    "default.client.supplier": "nothing: clients are librdkafka's, with `consumer.`, `producer.` and `admin.` settings",
    "default.dsl.store": "`Materialized.as_(StoreBackend.MEMORY)`, or a supplier of `Stores`, for each store",
    "default.interactive.query.isolation.level": "nothing: queries see what was committed",
    "dsl.store.format": "nothing: stores have the layout with timestamps",
    "dsl.store.suppliers.class": "`Materialized.as_(Stores....)` for each store",
    "enable.metrics.push": _METRICS,
    "enable.transactional.statestores": "nothing: a store is written after the commit, in one write",
    "group.protocol": "nothing: the group has offsets and no members",
    "log.summary.interval.ms": "nothing: `millrace status`, and the driver's log",
    "max.warmup.replicas": _STANDBY,
    "metadata.max.age.ms": _CLIENT,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "poll.ms": "`commit.interval.ms`",
    "probing.rebalance.interval.ms": _TASKS,
    "processing.exception.handler.global.enabled": "nothing: global stores ask `processing.exception.handler` as well",
    "processor.wrapper.class": "a function of your own around the suppliers that you pass to `process()`",
    "rack.aware.assignment.non_overlap_cost": _TASKS,
    "rack.aware.assignment.strategy": _TASKS,
    "rack.aware.assignment.tags": _TASKS,
    "rack.aware.assignment.traffic_cost": _TASKS,
    "receive.buffer.bytes": _CLIENT,
    "reconnect.backoff.max.ms": _CLIENT,
    "reconnect.backoff.ms": _CLIENT,
    "request.timeout.ms": _CLIENT,
    "retry.backoff.ms": _CLIENT,
    "rocksdb.config.setter": "`rocksdb.*`, or `Materialized.with_rocksdb_options` for one store",
    "send.buffer.bytes": _CLIENT,
    "state.cleanup.delay.ms": _CLEANUP,
    "state.cleanup.dir.max.age.ms": _CLEANUP,
    "statestore.uncommitted.max.bytes": "`max.batch.records`: a batch's writes are in memory until it commits",
    "task.assignor.class": _TASKS,
    "task.timeout.ms": "`query.restart.attempts` and `query.restart.backoff.ms`",
    "topology.description.push.enabled": "nothing: `millrace topology` and the driver's `/topology` show it",
    "upgrade.from": "nothing: `millrace take-over` takes over what an application of Kafka Streams left",
    "window.size.ms": "`TimeWindowedSerde(serde, window_size_ms)` in the code",
    "windowed.inner.class.serde": "`TimeWindowedSerde` or `SessionWindowedSerde` in the code",
}
"""For each setting of Kafka Streams 4.4 that is refused, what to use; words for a user, Markdown."""

PREFIXES_INSTEAD: dict[str, str] = {
    "main.consumer.": "`consumer.`: there is one kind of consumer settings",
    "restore.consumer.": "`consumer.`: there is one kind of consumer settings",
    "global.consumer.": "`consumer.`: there is one kind of consumer settings",
    "client.tag.": _STANDBY,
}
"""The same for whole groups of settings."""

OLD_NAMES: dict[str, str] = {
    "default.deserialization.exception.handler": "deserialization.exception.handler",
    "default.production.exception.handler": "production.exception.handler",
    "cache.max.bytes.buffering": "statestore.cache.max.bytes",
}
"""Names that Kafka Streams had before; both are taken."""

OTHER_NAMES: dict[str, str] = {**OLD_NAMES, "consumer.max.poll.records": "max.poll.records"}
"""The same, and names with the prefix of a client whose setting is ours."""

_FORMER: dict[str, str] = {
    "statestore.cache.enabled": "`statestore.cache.max.bytes`: 0 is what false was, and unset what true was",
}
"""Settings that Millrace had before, and what does their work."""

_OF_CONSUMERS = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "enable.auto.commit",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.remote.assignor",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "value.deserializer",
    }
)
_OF_PRODUCERS = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "retries",
        "transactional.id",
        "value.serializer",
    }
)
_BY_ITSELF: dict[str, str] = {
    "group.id": "`application.id`, which is the group as well",
    "transactional.id": "nothing: each task has one, made of `application.id`",
    "enable.auto.commit": "nothing: offsets are committed with the results",
    "auto.commit.interval.ms": "`commit.interval.ms`",
    "isolation.level": "nothing: input is read committed",
    "key.deserializer": "`default.key.serde`, or the serdes of `Consumed`",
    "value.deserializer": "`default.value.serde`, or the serdes of `Consumed`",
    "key.serializer": "`default.key.serde`, or the serdes of `Produced`",
    "value.serializer": "`default.value.serde`, or the serdes of `Produced`",
    "partitioner.class": "`Produced.with_stream_partitioner`",
}
"""Settings of clients that are decided here."""


def name_problem(settings: Mapping[str, object]) -> str:
    """Returns which setting is given under two names that contradict each other; nothing where there is none.

    Args:
        settings: by their names; of numbers their digits count, since a prefix makes texts of them.
    """
    for other, name in OTHER_NAMES.items():
        if other in settings and name in settings and str(settings[other]) != str(settings[name]):
            relation = "the old name of" if other in OLD_NAMES else "the same setting as"
            return f"{other!r} is {relation} {name!r}, and both are set, to different values"
    return ""


def advice(key: str, known: Collection[str]) -> str:
    """Returns the answer to an unknown setting.

    Args:
        key: the setting.
        known: the settings that there are.
    """
    if key in _FORMER:
        return f"{key!r} is a setting no longer; use {_FORMER[key]}"
    instead = INSTEAD.get(key) or _BY_ITSELF.get(key)
    for prefix, each in PREFIXES_INSTEAD.items():
        if key.startswith(prefix):
            instead = each
    for settings, prefix in ((_OF_CONSUMERS, "consumer."), (_OF_PRODUCERS, "producer.")):
        if instead is None and key in settings:
            instead = f"`{prefix}{key}`, where librdkafka has it"
    if instead is not None:
        use = instead.replace("nothing:", "it needs none:") if instead.startswith("nothing") else f"use {instead}"
        return f"{key!r} is a setting of Kafka Streams without a meaning here; {use}"
    nearest = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.0)
    return f"unknown setting {key!r}; the nearest known one is {nearest[0]!r}"


def allocates_dynamically(settings: Mapping[str, str]) -> bool:
    """Returns whether Spark asks for executors and releases them by the load.

    Args:
        settings: those of Spark, with their prefix.
    """
    return settings.get(_DYNAMIC, "false").lower() == "true"


def allocation_problem(settings: Mapping[str, str], threads: int | None) -> str:
    """Returns why stream threads would never get their slots with dynamic allocation; nothing where they would.

    A stream thread is a Spark task without an end. Spark asks for executors while tasks wait for a slot, so it must be
    known how many threads there are to be; an executor with a thread is not idle, and stays.

    Args:
        settings: those of Spark, with their prefix.
        threads: ``num.stream.threads``.
    """
    if not allocates_dynamically(settings):
        return ""
    if threads is None and not settings.get(MOST_EXECUTORS, "").isdigit():
        return (
            f"{_DYNAMIC} is true and nothing limits it: stream threads would take an executor for each task, and keep "
            f"it; set num.stream.threads, or {MOST_EXECUTORS}"
        )
    if settings.get(_RATIO, "1") not in ("1", "1.0"):
        return (
            f"with {_RATIO} of {settings[_RATIO]} Spark asks for fewer slots than there are stream threads; remove it, "
            "and set num.stream.threads to the slots that the application should have"
        )
    return ""
