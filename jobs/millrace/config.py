"""The configuration model: one place for every setting, named as in Kafka Streams where it has the setting.

A key is written with dots (``commit.interval.ms``); its attribute is the same with underscores. Keys that begin with
``consumer.``, ``producer.``, ``admin.``, ``topic.`` or ``spark.`` are passed on to that client, topic or session; those
that begin with ``security.``, ``sasl.``, ``ssl.`` or ``https.`` to every client of the broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from millrace.config_advice import OTHER_NAMES, advice, allocation_problem, name_problem
from millrace.errors import ConfigurationError
from millrace.handlers import check_handler_name
from millrace.metrics import DropReason, SilentDrop
from millrace.serdes import NAMED_SERDES
from millrace.serdes.checks import check_serde
from millrace.serdes.configured import check_serde_name

CLIENT_PREFIXES = ("consumer.", "producer.", "admin.")
LOGIN_PREFIXES = ("security.", "sasl.", "ssl.", "https.")
"""Settings that say how a client logs in to the broker, as librdkafka calls them."""

PASSED_ON_PREFIXES = (*CLIENT_PREFIXES, "topic.", "spark.", *LOGIN_PREFIXES)

DROPPED_BY_OPERATORS: tuple[DropReason | SilentDrop, ...] = (
    *(
        reason
        for reason in DropReason
        if reason
        not in (DropReason.DESERIALIZATION, DropReason.PROCESSING, DropReason.PRODUCTION, DropReason.STALE_RESPONSE)
    ),
    SilentDrop.BEFORE_WINDOW,
)
"""Why operators drop records of the user by their definition, without an error."""

_SECRET = re.compile(r"(?i)(password|secret|token|jaas[._]config|user[._]info|key[._]pem|(secret|access)[._]?key)$")

OPTIMIZATIONS = {
    "reuse.ktable.source.topics": "reuse-source-topic",
    "merge.repartition.topics": "merge-repartition-topics",
    "single.store.self.join": "single-store-self-join",
}
"""Kafka Streams' names of rewrites, and ours."""


class ProcessingGuarantee(StrEnum):
    """The guarantee of what a crash may do to the output."""

    EXACTLY_ONCE_V2 = "exactly_once_v2"
    AT_LEAST_ONCE = "at_least_once"


class ProcessingEngine(StrEnum):
    """The engine that executes a topology on Spark."""

    MICRO_BATCHES = "micro-batches"
    STREAM_THREADS = "stream-threads"


class Compression(StrEnum):
    """The compression of the blocks of a store's files."""

    NONE = "none"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    LZ4HC = "lz4hc"
    ZSTD = "zstd"
    ZLIB = "zlib"
    BZ2 = "bz2"


_EXTRACTOR = re.compile(
    r"(org\.apache\.kafka\.streams\.processor\.)?(FailOnInvalidTimestamp|LogAndSkipOnInvalidTimestamp|"
    r"UsePartitionTimeOnInvalidTimestamp|WallclockTimestampExtractor)|[\w.]+:\w+"
)


COMMIT_INTERVAL_MS = 100
"""``commit.interval.ms`` where it is not set."""

COMMIT_INTERVAL_AT_LEAST_ONCE_MS = 30_000
"""The same of stream threads under at least once. A micro-batch could not begin before it where its input is full."""

_BATCHES_ARE_BOUNDED = "a micro-batch is bounded by `max.batch.records`"

WITHOUT_THREADS = {
    "buffered.records.per.partition": _BATCHES_ARE_BOUNDED,
    "input.buffer.max.bytes": _BATCHES_ARE_BOUNDED,
    "statestore.cache.max.bytes": f"{_BATCHES_ARE_BOUNDED}, and merges all of its updates, or none with 0",
    "max.task.idle.ms": "micro-batches do not idle",
    "num.standby.replicas": "with micro-batches, `millrace standby` keeps copies of the stores",
}
"""What there is instead of a setting where no stream threads execute the application."""


def _in_a_list(error: ConfigurationError) -> str:
    """An error's text as one of several, with its remedy."""
    return error.message.removesuffix(".") + (f" ({error.remedy})" if error.remedy else "")


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


class StreamsConfig(BaseModel):
    """Settings of one application. Build it with :meth:`from_mapping`, which takes dotted keys.

    Source: ``org.apache.kafka.streams.StreamsConfig``; settings that Kafka Streams does not have say so.
    """

    OPTIMIZE: ClassVar[str] = "all"
    NO_OPTIMIZATION: ClassVar[str] = "none"
    REUSE_KTABLE_SOURCE_TOPICS: ClassVar[str] = "reuse.ktable.source.topics"
    MERGE_REPARTITION_TOPICS: ClassVar[str] = "merge.repartition.topics"
    SINGLE_STORE_SELF_JOIN: ClassVar[str] = "single.store.self.join"
    EXACTLY_ONCE_V2: ClassVar[str] = "exactly_once_v2"
    AT_LEAST_ONCE: ClassVar[str] = "at_least_once"

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=_dotted, populate_by_name=True)

    application_id: str = Field(
        pattern=r"^[A-Za-z0-9._-]{1,200}$",
        description="Name of the application: consumer group, prefix of internal topics and of transactional ids.",
    )
    bootstrap_servers: str = Field(min_length=1, description="Comma-separated host:port list of Kafka brokers.")
    processing_guarantee: ProcessingGuarantee = Field(
        ProcessingGuarantee.EXACTLY_ONCE_V2, description="exactly_once_v2 or at_least_once."
    )
    processing_engine: ProcessingEngine = Field(
        ProcessingEngine.STREAM_THREADS,
        description="What executes the topology: `stream-threads` are long Spark tasks that read by themselves, and "
        "each task of the topology commits by `commit.interval.ms`; with `micro-batches`, Spark reads the input and "
        "everything commits once a micro-batch, as it has to where there are frame functions. Not in Kafka Streams.",
    )
    num_stream_threads: int | None = Field(
        None,
        ge=1,
        description="Stream threads of the application, over all executors: each takes a slot of Spark. Unset takes "
        "all slots, but no more than there are tasks. In Kafka Streams of each instance, and 1 by default.",
    )
    num_standby_replicas: int = Field(
        0,
        ge=0,
        description="Standby copies of each task's stores that stream threads on other hosts keep, so that a task that "
        "moves there replays only a tail; fewer where there are fewer hosts. Other values than 0 need "
        "`processing.engine: stream-threads`; with micro-batches, `millrace standby` keeps copies.",
    )
    coordinator_port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="Port of the driver at which stream threads connect to its coordinator, at the address of "
        "`spark.driver.host`; 0 takes a free one. Not in Kafka Streams, whose coordinator is the broker.",
    )
    max_task_idle_ms: int = Field(
        0,
        ge=-1,
        description="How long a task with several inputs waits for producers of one of which nothing is there, so that "
        "records are merged by their timestamps (KIP-695): 0 waits for what the broker has only, -1 for nothing at "
        "all. Micro-batches do not idle.",
    )
    rocksdb_memory_bytes: int = Field(
        134_217_728,
        ge=1_048_576,
        description="Memory of RocksDB in one worker process, over all its stores: blocks, indexes, filters and write "
        "buffers share one cache of this size. Not a setting in Kafka Streams (code of a RocksDBConfigSetter there).",
    )
    rocksdb_write_buffers_bytes: int = Field(
        67_108_864,
        ge=1_048_576,
        description="The part of it that write buffers may take before they are flushed. Not in Kafka Streams, like "
        "all of `rocksdb.*`.",
    )
    rocksdb_max_open_files: int = Field(256, ge=16, description="Files that the database of one task keeps open.")
    rocksdb_block_bytes: int = Field(
        4_096,
        ge=1_024,
        description="Size of a block before compression. This and the following are the defaults of "
        "stores; `Materialized.with_rocksdb_options` sets them for one.",
    )
    rocksdb_write_buffer_bytes: int = Field(
        16_777_216, ge=65_536, description="How much is written to a store before a file is made of it."
    )
    rocksdb_max_write_buffers: int = Field(
        3, ge=2, description="Write buffers of a store, those that are being written to files included."
    )
    rocksdb_bloom_filter_bits_per_key: int = Field(
        10, ge=0, description="Size of the Bloom filters that spare lookups of absent keys; 0 makes none."
    )
    rocksdb_compression: Compression = Field(Compression.LZ4, description="How blocks are compressed.")
    rocksdb_level0_file_num_compaction_trigger: int = Field(
        4, ge=1, description="Files in level 0 at which they are merged downwards."
    )
    rocksdb_level0_slowdown_writes_trigger: int = Field(
        20, ge=1, description="Files in level 0 at which writes are slowed down."
    )
    rocksdb_level0_stop_writes_trigger: int = Field(
        36, ge=1, description="Files in level 0 at which writes wait for the compaction."
    )
    state_dir: str = Field(
        "/tmp/millrace-state", description="Directory of the local stores; one sub-directory per application."
    )
    replication_factor: int = Field(
        -1, description="Replication factor of internal topics; -1 takes the broker's default."
    )
    auto_offset_reset: str = Field(
        "earliest",
        pattern="^(earliest|latest)$",
        description="Where a new application starts in its input topics: earliest or latest. Never used when offsets "
        "are lost.",
    )
    commit_interval_ms: int | None = Field(
        None,
        ge=0,
        description="Time between two commits of a task, or between the starts of two micro-batches, milliseconds; 0: "
        "as soon as the last one has ended. A task of a stream thread commits earlier where its input is full (see the "
        "settings of buffers). Unset, 100 under exactly once and 30,000 under at least once, as in Kafka Streams; 100 "
        "in micro-batches under either. Output is sent with the commit, also under at least once, so set it there to "
        "how old a result may be.",
    )
    max_batch_records: int | None = Field(
        None,
        ge=1,
        description="Most records of one commit of a task, or of one micro-batch over all partitions; unset adapts it. "
        "Not in Kafka Streams.",
    )
    max_poll_records: int | None = Field(
        None,
        ge=1,
        description="Most records of one poll, over all partitions of a stream thread, or of one of Spark's consumers. "
        "Unset, 200,000, but not more than `buffered.records.per.partition`; 5,000 for Spark's consumers. Also as "
        "`consumer.max.poll.records`. 1,000 in Kafka Streams.",
    )
    buffered_records_per_partition: int | None = Field(
        None,
        ge=1,
        description="Records that a task of a stream thread buffers of one input partition before it reads no further "
        "there, and commits without waiting for `commit.interval.ms`; the last poll may bring more. Unset, two batches "
        "and what `input.buffer.max.bytes` allows. 1,000 in Kafka Streams.",
    )
    input_buffer_max_bytes: int | None = Field(
        None,
        ge=1,
        description="Keys and values of input that a stream thread buffers: each of its partitions has an equal share, "
        "is read no further once that is used up, and has the task commit once half of it is; the last poll may bring "
        "more. Unset, 512 MiB, but 4 MiB a partition in any case. As in KIP-770, whose threads are in one process "
        "together; here each is a process.",
    )
    statestore_cache_max_bytes: int | None = Field(
        None,
        ge=0,
        description="Updates of cached stores that a stream thread merges for its next commits, bytes of keys and "
        "values: each of its tasks that has such stores takes an equal share, and commits where its input would exceed "
        "it, as far as the last commits show ([what is guaranteed](from-kafka-streams.md#settings-of-buffers-and-"
        "caches)). 0 merges nothing: every update goes downstream. Unset, a commit merges whatever it takes. 10 MiB in "
        "Kafka Streams, over the threads of a process. Also under its old name `cache.max.bytes.buffering`.",
    )
    outer_join_emit_interval_ms: int = Field(
        0,
        ge=0,
        description="Least wall clock time between two looks for records of left and outer stream-stream joins whose "
        "window has closed without a partner, milliseconds; 0 looks at every record, so that results depend on event "
        "time only. Kafka Streams looks once in 1,000 ms (0 in its test driver), which is not a public setting there.",
    )
    foreign_key_join_settles: bool = Field(
        True,
        description="Whether an inner foreign-key join deletes the old result of a row, or subscribes the row again, "
        "where the end of that result is known only after the row has changed. Kafka Streams does not, and keeps the "
        "old result; nor does the test driver unless asked.",
    )
    deserialization_exception_handler: str = Field(
        "fail",
        description="What follows a record that cannot be read: `continue`, `fail`, or package.module:name of a "
        "handler (see `millrace.handlers`). Also under its old name `default.deserialization.exception.handler`.",
    )
    processing_exception_handler: str = Field(
        "fail",
        description="What follows a record for which user code raised: `continue`, `fail`, or package.module:name.",
    )
    production_exception_handler: str = Field(
        "fail",
        description="What follows a record that cannot be serialized for its topic, or that the topic or the broker "
        "does not take (size, timestamp, no key for a compacted topic, no such topic, no permission): `continue`, "
        "`fail`, or package.module:name.",
    )
    default_key_serde: Any = Field(
        None,
        description="Serde of the keys of topics and stores that name none: `bytes`, `string`, `short`, `integer`, "
        "`long`, `float`, `double`, `uuid`, `json`; a class of Kafka's `Serdes`; package.module:name of your own; or, "
        "in Python, a serde. Unset, bytes are taken as they are, and a topology whose keys are no bytes is refused.",
    )
    default_value_serde: Any = Field(None, description="The same for values.")
    default_timestamp_extractor: str = Field(
        "FailOnInvalidTimestamp",
        description="Event time of records whose source names no extractor: FailOnInvalidTimestamp, "
        "LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp, WallclockTimestampExtractor, or "
        "package.module:name of your own.",
    )
    errors_dead_letter_queue_topic_name: str | None = Field(
        None,
        description="Topic that gets the records that could not be read, processed or written (KIP-1034), and those "
        "with a negative timestamp; unset drops them.",
    )
    output_topic_prefix: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{0,200}$",
        description="Put in front of the name of every topic that the application writes to and that is not its own; "
        "the dead-letter topic's is left as it is. For canaries. Not in Kafka Streams.",
    )
    errors_dead_letter_queue_dropped_records: str | None = Field(
        None,
        description="Which of the records that operators drop go to the dead-letter topic as well, once each, with the "
        "reason in the header `__millrace.dropped.reason`: `all`, or reasons with commas between: "
        + ", ".join(f"`{reason}`" for reason in DROPPED_BY_OPERATORS)
        + ". Not in Kafka Streams.",
    )
    topology_optimization: str = Field(
        "none",
        description="none, all, or a comma-separated list of reuse.ktable.source.topics, merge.repartition.topics and "
        "single.store.self.join. They change internal topics: settle it before the first start.",
    )
    ensure_explicit_internal_resource_naming: bool = Field(
        False, description="Refuse topologies with generated names of stores or internal topics (KIP-1111)."
    )
    windowstore_changelog_additional_retention_ms: int = Field(
        86_400_000, ge=0, description="Added to the retention of windowed changelog topics, milliseconds."
    )
    transaction_timeout_ms: int = Field(
        60_000, ge=1_000, description="How long the broker lets a transaction stay open, milliseconds."
    )
    repartition_purge_interval_ms: int = Field(
        30_000, ge=0, description="Least time between two deletions of processed records from repartition topics."
    )
    restore_threads: int = Field(
        2,
        ge=1,
        description="Stores, of one task or of several, that are restored at the same time on a host. Not in Kafka "
        "Streams.",
    )
    acceptable_recovery_lag: int = Field(
        10_000,
        ge=0,
        description="Changelog records that a standby's copy of a task may lack to count as caught up.",
    )
    default_api_timeout_ms: int = Field(
        60_000,
        ge=0,
        description="How long each step of a start repeats its requests while no broker answers (overloaded, or being "
        "started) before the application fails, milliseconds; the status says what it waits for. Kafka's clients name "
        "it so.",
    )
    heartbeat_interval_ms: int = Field(
        3_000, ge=100, description="Longest time between two heartbeats in the status topic. Not in Kafka Streams."
    )
    query_restart_backoff_ms: int = Field(
        1_000, ge=0, description="First wait before a failed query starts again; doubles. Not in Kafka Streams."
    )
    query_restart_attempts: int = Field(
        5,
        ge=0,
        description="Restarts of a failed query without progress before the driver gives up. Not in Kafka Streams.",
    )
    application_server: str = Field(
        "127.0.0.1:0", description="host:port of the control plane; port 0 takes a free one."
    )
    control_token_file: str | None = Field(
        None, description="File with the bearer token that changing control requests need. Not in Kafka Streams."
    )
    master: str = Field("local[2,4]", description="Spark master URL. Not in Kafka Streams.")
    passed_on: dict[str, str] = Field(
        default_factory=dict,
        alias="passed_on",
        repr=False,  # it may have secrets
        description="Settings of other components: those that begin with one of PASSED_ON_PREFIXES.",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_keys(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if problem := name_problem(values):
            raise ValueError(problem)
        values = {OTHER_NAMES.get(key, key): value for key, value in values.items()}
        known = {_dotted(name) for name in cls.model_fields if name != "passed_on"}
        attributes = set(cls.model_fields)
        for key in values:
            if key not in known and key not in attributes:
                raise ValueError(advice(str(key), known))
        return values

    @field_validator(
        "deserialization_exception_handler",
        "processing_exception_handler",
        "production_exception_handler",
        mode="before",
    )
    @classmethod
    def _handlers_are_known(cls, name: Any) -> Any:
        try:
            check_handler_name(name)
        except ConfigurationError as error:
            raise ValueError(_in_a_list(error)) from error
        return name

    @field_validator("default_timestamp_extractor", mode="before")
    @classmethod
    def _extractor_is_known(cls, name: Any) -> Any:
        if not isinstance(name, str) or not _EXTRACTOR.fullmatch(name):
            raise ValueError(
                f"{name!r} is no timestamp extractor; name FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, "
                "UsePartitionTimeOnInvalidTimestamp, WallclockTimestampExtractor, or package.module:name of your own, "
                "by a text; in code, pass one to Consumed.with_timestamp_extractor"
            )
        return name

    @field_validator("default_key_serde", "default_value_serde")
    @classmethod
    def _serdes_are_known(cls, serde: Any, info: ValidationInfo) -> Any:
        try:
            if isinstance(serde, str):
                check_serde_name(serde)
            elif serde is not None:
                check_serde(serde, what=_dotted(info.field_name or "default.serde"))
        except ConfigurationError as error:
            raise ValueError(_in_a_list(error)) from error
        return serde

    @field_serializer("default_key_serde", "default_value_serde", when_used="json-unless-none")
    def _name_of_serde(self, serde: Any) -> str:
        """The name of a serde; an object that no name stands for is called by its class."""
        if isinstance(serde, str):
            return serde
        named = [name for name, each in NAMED_SERDES.items() if type(each) is type(serde) and each == serde]
        return named[0] if named else f"{type(serde).__module__}.{type(serde).__qualname__}"

    @model_validator(mode="after")
    def _no_reserved_name(self) -> StreamsConfig:
        # Neither a directory nor a topic may be called so.
        if self.application_id in (".", ".."):
            raise ValueError(f"application.id cannot be {self.application_id!r}")
        return self

    @property
    def for_stream_threads(self) -> dict[str, int]:
        """The settings that only stream threads can keep to, with what they are set to."""
        values = {
            "max.task.idle.ms": self.max_task_idle_ms,
            "num.standby.replicas": self.num_standby_replicas,
            "buffered.records.per.partition": self.buffered_records_per_partition,
            "input.buffer.max.bytes": self.input_buffer_max_bytes,
            "statestore.cache.max.bytes": self.statestore_cache_max_bytes,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def merges_updates(self) -> bool:
        """Whether the updates of a key of a cached store are merged within one commit."""
        return self.statestore_cache_max_bytes != 0

    def commit_interval_ms_of(self, engine: ProcessingEngine) -> int:
        """Returns the time between two commits, milliseconds: ``commit.interval.ms`` or its default.

        Args:
            engine: what executes the application, which may be another than the one it is configured for.
        """
        if self.commit_interval_ms is not None:
            return self.commit_interval_ms
        at_least_once = self.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE
        if at_least_once and engine is ProcessingEngine.STREAM_THREADS:
            return COMMIT_INTERVAL_AT_LEAST_ONCE_MS
        return COMMIT_INTERVAL_MS

    @model_validator(mode="after")
    def _of_stream_threads_only(self) -> StreamsConfig:
        if self.processing_engine is ProcessingEngine.STREAM_THREADS:
            return self
        for name, value in self.for_stream_threads.items():
            raise ValueError(f"{name} of {value} needs processing.engine: stream-threads; {WITHOUT_THREADS[name]}")
        return self

    @model_validator(mode="after")
    def _ports_differ(self) -> StreamsConfig:
        if self.coordinator_port and self.application_server.rpartition(":")[2] == str(self.coordinator_port):
            raise ValueError(f"application.server and coordinator.port are both port {self.coordinator_port}")
        return self

    @model_validator(mode="after")
    def _stream_threads_get_their_slots(self) -> StreamsConfig:
        if self.processing_engine is not ProcessingEngine.STREAM_THREADS or self.master.startswith("local"):
            return self
        if problem := allocation_problem(self.spark_settings, self.num_stream_threads):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _known_drop_reasons(self) -> StreamsConfig:
        key = "errors.dead.letter.queue.dropped.records"
        unknown = set(_listed(self.errors_dead_letter_queue_dropped_records)) - {*DROPPED_BY_OPERATORS}
        if unknown - {"all"}:
            raise ValueError(f"{key} knows all, {', '.join(DROPPED_BY_OPERATORS)}; not {', '.join(sorted(unknown))}")
        if self.errors_dead_letter_queue_dropped_records and self.errors_dead_letter_queue_topic_name is None:
            raise ValueError(f"{key} needs errors.dead.letter.queue.topic.name")
        return self

    @model_validator(mode="after")
    def _ascending_triggers(self) -> StreamsConfig:
        triggers = (
            self.rocksdb_level0_file_num_compaction_trigger,
            self.rocksdb_level0_slowdown_writes_trigger,
            self.rocksdb_level0_stop_writes_trigger,
        )
        if list(triggers) != sorted(triggers):
            raise ValueError(f"the triggers rocksdb.level0.* must ascend: compaction, slowdown, stop; not {triggers}")
        if self.rocksdb_write_buffers_bytes > self.rocksdb_memory_bytes:
            raise ValueError("rocksdb.write.buffers.bytes is a part of rocksdb.memory.bytes and cannot exceed it")
        return self

    @model_validator(mode="after")
    def _optimizations_are_known(self) -> StreamsConfig:
        if unknown := set(_listed(self.topology_optimization)) - {"none", "all", *OPTIMIZATIONS}:
            raise ValueError(
                f"topology.optimization knows none, all, {', '.join(OPTIMIZATIONS)}; not {', '.join(sorted(unknown))}"
            )
        if len(_listed(self.topology_optimization)) > 1 and {"none", "all"} & {*_listed(self.topology_optimization)}:
            raise ValueError("topology.optimization takes none and all by themselves only")
        return self

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Names of the rewrites of :mod:`millrace.rewrites` that are on, in the order in which they are applied."""
        names = _listed(self.topology_optimization)
        return tuple(rewrite for name, rewrite in OPTIMIZATIONS.items() if name in names or "all" in names)

    @property
    def dead_lettered_drops(self) -> frozenset[DropReason | SilentDrop]:
        """The reasons for which records that an operator drops become dead-letter records."""
        if self.errors_dead_letter_queue_topic_name is None:
            return frozenset()
        names = _listed(self.errors_dead_letter_queue_dropped_records)
        asked = (reason for reason in DROPPED_BY_OPERATORS if "all" in names or reason in names)
        return frozenset({*asked, DropReason.NEGATIVE_TIMESTAMP})

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> StreamsConfig:
        """Returns the checked configuration of dotted keys.

        Args:
            settings: dotted keys and their values, for example those of ``config/apps/<name>.yaml``.

        Raises:
            ConfigurationError: a key is unknown (the nearest known one is named), a value is out of its range, or a
                needed key is missing.
        """
        own = {
            key: value
            for key, value in settings.items()
            if key in OTHER_NAMES or not key.startswith(PASSED_ON_PREFIXES)
        }
        passed_on = {key: str(value) for key, value in settings.items() if key not in own}
        try:
            return cls(**own, passed_on=passed_on)
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(str(part) for part in problem['loc']) or 'settings'}: {cls._said(problem)}"
                for problem in error.errors()
            )
            raise ConfigurationError(
                f"The configuration is not valid: {problems}.",
                remedy="correct the setting; docs/configuration.md lists all of them",
            ) from error

    @classmethod
    def _said(cls, problem: ErrorDetails) -> str:
        """What is wrong with a setting, without the pattern that its text should have."""
        if problem["type"] != "string_pattern_mismatch":
            return problem["msg"].removeprefix("Value error, ")
        described = {field.alias: field.description for field in cls.model_fields.values()}
        return f"{problem['input']!r} does not suit: {(described.get(str(problem['loc'][0])) or '').removesuffix('.')}"

    def to_mapping(self) -> dict[str, Any]:
        """Returns the inverse of :meth:`from_mapping`: dotted keys with JSON-compatible values, unset ones left out."""
        values = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        passed_on = values.pop("passed_on")
        return {**values, **passed_on}

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings of Spark, with their prefix."""
        return {key: value for key, value in self.passed_on.items() if key.startswith("spark.")}

    def client_settings(self, prefix: str) -> dict[str, str]:
        """Returns the settings passed on to one component, without their prefix: ``client_settings("producer.")``.

        A client gets those of the login as well; where it has one of its own, that wins.
        """
        own = {key.removeprefix(prefix): value for key, value in self.passed_on.items() if key.startswith(prefix)}
        return {**login_settings(self.passed_on), **own} if prefix in CLIENT_PREFIXES else own


def is_secret(name: str) -> bool:
    """Returns whether a setting or variable of this name holds a secret, as ``sasl.password`` does."""
    return _SECRET.search(name) is not None


def login_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns those among settings of a client that say how it logs in to the broker."""
    return {key: value for key, value in settings.items() if key.startswith(LOGIN_PREFIXES)}
