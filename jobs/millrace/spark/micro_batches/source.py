"""The streaming frame of a sub-topology: Kafka records, with the user's frame functions in Spark's plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from millrace.config import StreamsConfig
from millrace.errors import TopologyError
from millrace.kafka.java_clients import java_consumer
from millrace.kafka.record_limits import NO_TIMESTAMP
from millrace.spark.micro_batches.own_source import TIMESTAMP_MS, read_by_workers
from millrace.topology.nodes import SourceNode
from millrace.topology.parts import SubTopology, full_topic_name
from millrace.topology.topic_partition import TopicPartition

NEEDED_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

_OPTIONS = {
    # Spark reads uncommitted records unless it is told not to.
    "kafka.isolation.level": "read_committed",
    "failOnDataLoss": "true",
    "includeHeaders": "true",
    # A record that arrives alone must not wait half a second for company.
    "kafka.fetch.max.wait.ms": "20",
    # Many at once cost less, but those that wait for their turn are copied by each garbage collection meanwhile.
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(10 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(50 * 1024 * 1024),
    # Of attempts as long as the next: three minutes in all, as by default.
    "fetchOffset.numRetries": "6",
}
_API_TIMEOUT_MS = 30_000
"""Where a leader dies, Java's admin client may wait for it so long although another one leads. The default is 60 s."""


def records_per_trigger(config: StreamsConfig, partitions: int) -> int:
    """Returns the most records of one batch: the setting, or a number by the partitions, up to a fixed limit."""
    if config.max_batch_records is not None:
        return config.max_batch_records
    return min(DEFAULT_RECORDS_PER_PARTITION * partitions, DEFAULT_RECORDS_LIMIT)


DEFAULT_RECORDS_PER_PARTITION = 250_000
DEFAULT_RECORDS_LIMIT = 2_000_000


def streaming_frame(
    spark: SparkSession,
    sub_topology: SubTopology,
    config: StreamsConfig,
    starts: Mapping[TopicPartition, int],
) -> DataFrame:
    """Returns the rows for the tasks.

    Their columns are ``partition``, ``offset``, ``timestamp`` (milliseconds), ``key``, ``value``, ``headers`` (a JSON
    list of ``key`` and base64 ``value``, or null), and, where there are several input topics, ``topic`` (the topic's
    index among them, sorted).

    Args:
        spark: the session.
        sub_topology: what the query runs.
        config: the application's configuration.
        starts: first offset of every input partition.

    Raises:
        TopologyError: a frame function removed a column that the task needs.
    """
    return _with_frame_functions(sub_topology, config, lambda names: _kafka(spark, names, config, starts))


def own_frame(
    spark: SparkSession,
    sub_topology: SubTopology,
    config: StreamsConfig,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> DataFrame:
    """Returns the rows of :func:`streaming_frame` for a part of the input, without Spark's source.

    Any timestamp is allowed.

    A frame function sees a null ``timestamp`` where Spark's type cannot hold it; where the function also leaves the
    columns out that it does not know, the record has an invalid timestamp for the extractor: -1.

    Args:
        spark: the session.
        sub_topology: what the query runs.
        config: the application's configuration.
        starts: first offset of every input partition.
        ends: first offset that is not wanted.
    """
    return _with_frame_functions(
        sub_topology, config, lambda names: read_by_workers(spark, config, names, starts, ends)
    )


def _with_frame_functions(
    sub_topology: SubTopology, config: StreamsConfig, read: Callable[[list[str]], DataFrame]
) -> DataFrame:
    topics = sub_topology.input_topics(config.application_id)
    plain = [source for source in sub_topology.sources if not source.frame_functions]
    framed = [source for source in sub_topology.sources if source.frame_functions]
    frames = []
    if plain:
        names = sorted(name for source in plain for name in _names(source, config))
        frames.append(read(names))
    for source in framed:
        frame = read(sorted(_names(source, config)))
        for function in source.frame_functions:
            frame = function(frame)
        missing = [column for column in NEEDED_COLUMNS if column not in frame.columns]
        if missing:
            raise TopologyError(
                f"A frame function of source {source.name} removed the columns {missing}.",
                remedy="keep topic, partition, offset, timestamp, key, value and headers; add or change others",
            )
        frames.append(frame)
    numbered = [_for_tasks(frame, topics) for frame in frames]
    return reduce(DataFrame.unionByName, numbered)


def _names(source: SourceNode, config: StreamsConfig) -> list[str]:
    return [full_topic_name(topic, config.application_id, internal=source.internal) for topic in source.topics]


def bounded_frame(
    spark: SparkSession,
    sub_topology: SubTopology,
    config: StreamsConfig,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> DataFrame:
    """Returns the columns of :func:`streaming_frame` for a part of the input, as a batch without frame functions."""
    topics = sub_topology.input_topics(config.application_id)
    options = {
        **source_options(topics, config),
        "startingOffsets": _offsets_json(topics, starts),
        "endingOffsets": _offsets_json(topics, ends),
    }
    return _for_tasks(spark.read.format("kafka").options(**options).load(), topics)


def _kafka(
    spark: SparkSession, topics: list[str], config: StreamsConfig, starts: Mapping[TopicPartition, int]
) -> DataFrame:
    partitions = sum(topic in topics for topic, _ in starts)
    options = {
        **source_options(topics, config),
        "startingOffsets": _offsets_json(topics, starts),
        "maxOffsetsPerTrigger": str(records_per_trigger(config, partitions)),
    }
    return spark.readStream.format("kafka").options(**options).load()


def source_options(topics: Sequence[str], config: StreamsConfig) -> dict[str, str]:
    """Returns the options of Spark's Kafka source; settings that begin with ``consumer.`` override ours."""
    settings = java_consumer(config.client_settings("consumer."))
    # It may not be shorter than that of one request.
    own = {} if "request.timeout.ms" in settings else {"kafka.default.api.timeout.ms": str(_API_TIMEOUT_MS)}
    if config.max_poll_records is not None:
        own["kafka.max.poll.records"] = str(config.max_poll_records)
    return {
        **_OPTIONS,
        **own,
        **{f"kafka.{key}": value for key, value in settings.items()},
        "kafka.bootstrap.servers": config.bootstrap_servers,
        "subscribe": ",".join(topics),
        # A consumer group of its own: the application's group has no members, only offsets.
        "kafka.group.id": f"{config.application_id}-spark",
    }


def _offsets_json(topics: Sequence[str], offsets: Mapping[TopicPartition, int]) -> str:
    own: dict[str, dict[str, int]] = {topic: {} for topic in topics}
    for (topic, partition), offset in offsets.items():
        if topic in own:
            own[topic][str(partition)] = offset
    return orjson.dumps(own).decode()


def _for_tasks(frame: DataFrame, topics: tuple[str, ...]) -> DataFrame:
    columns = [
        F.col("partition"),
        F.col("offset"),
        _milliseconds(frame).alias("timestamp"),
        F.col("key"),
        F.col("value"),
        _headers_as_json().alias("headers"),
    ]
    if len(topics) > 1:
        columns.append(_index_of_topic(topics).alias("topic"))
    return frame.select(*columns)


def _milliseconds(frame: DataFrame) -> Column:
    if TIMESTAMP_MS in frame.columns:
        return F.col(TIMESTAMP_MS)
    return F.coalesce(F.unix_millis(F.col("timestamp")), F.lit(NO_TIMESTAMP).cast("bigint"))


def _headers_as_json() -> Column:
    """Returns the headers as JSON text, null without headers; a header's null value is a missing field.

    As text, since Spark's Arrow writer takes time that grows with the square of the rows for a nested column that is
    mostly null.
    """
    return F.when(
        F.col("headers").isNotNull(),
        F.to_json(
            F.transform(
                F.col("headers"),
                lambda header: F.struct(header["key"].alias("key"), F.base64(header["value"]).alias("value")),
            )
        ),
    )


def _index_of_topic(topics: tuple[str, ...]) -> Column:
    index = F.when(F.col("topic") == topics[0], 0)
    for number, topic in enumerate(topics[1:], start=1):
        index = index.when(F.col("topic") == topic, number)
    return index
