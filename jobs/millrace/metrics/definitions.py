"""Every metric of Millrace in one place; the exporters and docs/metrics.md are made from it.

Names: ``millrace_``, then Kafka Streams' group and metric name with underscores, then the unit. Counters end in
``_total``, gauges never do. Kafka Streams' averages and maxima over a window are histograms here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from millrace.metrics.histograms import END_TO_END_BUCKETS, LATENCY_BUCKETS, LATENESS_BUCKETS


class MetricKind(StrEnum):
    """The kind of a metric, as Prometheus treats it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class DropReason(StrEnum):
    """The reason why a record was dropped."""

    LATE = "late"
    NULL_KEY = "null_key"
    NULL_VALUE = "null_value"
    DESERIALIZATION = "deserialization"
    PROCESSING = "processing"
    PRODUCTION = "production"
    NEGATIVE_TIMESTAMP = "negative_timestamp"
    EXPIRED_WINDOW = "expired_window"
    STALE_RESPONSE = "stale_response"
    NO_PARTITION = "no_partition"


class SilentDrop(StrEnum):
    """The reason why a record was dropped where Kafka Streams counts nothing."""

    NULL_KEY = "null_key"
    """In front of a repartition topic, and of a table grouped by a key that is null."""
    BEFORE_WINDOW = "before_window"
    """Before the start of unlimited windows."""


class TransactionOutcome(StrEnum):
    """The end of a task's transaction. Fenced: a newer attempt at the task took its transactional id."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    FENCED = "fenced"


class Phase(StrEnum):
    """The parts of a task's batch."""

    READ = "read"
    PROCESS = "process"
    COMMIT = "commit"
    STORE = "store"


APPLICATION_STATES = (
    "CREATED",
    "REBALANCING",
    "RUNNING",
    "PENDING_SHUTDOWN",
    "NOT_RUNNING",
    "PENDING_ERROR",
    "ERROR",
)
"""Kafka Streams' states of a client, which are those of an application here."""


@dataclass(frozen=True)
class MetricDefinition:
    """A metric: its name, kind, labels and help.

    Args:
        name: as queried; a counter's includes ``_total``.
        kind: counter, gauge or histogram.
        labels: besides ``application_id``, which every series has.
        help: what is measured, and when it changes.
        unit: base unit, or what is counted.
        counterpart: group and name in Kafka Streams (or its consumer); empty where there is none.
        buckets: upper bounds of a histogram.
    """

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    unit: str
    counterpart: str = ""
    buckets: tuple[float, ...] = ()


_TASK = ("subtopology", "task")

PROCESS_TOTAL = MetricDefinition(
    "millrace_stream_task_process_total",
    MetricKind.COUNTER,
    _TASK,
    "Input records that the task processed, dropped ones included.",
    "records",
    "stream-task-metrics: process-total",
)
BATCHES_TOTAL = MetricDefinition(
    "millrace_stream_task_batches_total",
    MetricKind.COUNTER,
    _TASK,
    "Micro-batches that the task finished.",
    "batches",
)
RECORDS_PRODUCED_TOTAL = MetricDefinition(
    "millrace_stream_topic_records_produced_total",
    MetricKind.COUNTER,
    (*_TASK, "topic"),
    "Records written to a sink or repartition topic in transactions that were committed.",
    "records",
    "stream-topic-metrics: records-produced-total",
)
PROCESS_LATENCY = MetricDefinition(
    "millrace_stream_task_process_latency_seconds",
    MetricKind.HISTOGRAM,
    _TASK,
    "Time the operators took for the records of one commit.",
    "seconds",
    "stream-task-metrics: process-latency-avg, process-latency-max",
    LATENCY_BUCKETS,
)
COMMIT_LATENCY = MetricDefinition(
    "millrace_stream_task_commit_latency_seconds",
    MetricKind.HISTOGRAM,
    _TASK,
    "Time from the last output of a batch to the end of its transaction.",
    "seconds",
    "stream-thread-metrics: commit-latency-avg, commit-latency-max",
    LATENCY_BUCKETS,
)
PHASE_SECONDS_TOTAL = MetricDefinition(
    "millrace_stream_task_phase_seconds_total",
    MetricKind.COUNTER,
    (*_TASK, "phase"),
    "Time the task spent in a phase: read, process, commit, store.",
    "seconds",
    "stream-thread-metrics: poll-ratio, process-ratio, commit-ratio",
)
TRANSACTIONS_TOTAL = MetricDefinition(
    "millrace_stream_task_transactions_total",
    MetricKind.COUNTER,
    (*_TASK, "outcome"),
    "Transactions by their end: committed, aborted, fenced. One whose process died counts as committed where it was, "
    "else in the failed attempts alone.",
    "transactions",
    "stream-thread-metrics: commit-total",
)
DROPPED_RECORDS_TOTAL = MetricDefinition(
    "millrace_stream_task_dropped_records_total",
    MetricKind.COUNTER,
    (*_TASK, "reason"),
    "Records that went no further, by reason: late, null_key, null_value, deserialization, processing, production, "
    "negative_timestamp, expired_window, stale_response, no_partition.",
    "records",
    "stream-task-metrics: dropped-records-total",
)
SILENTLY_DROPPED_RECORDS_TOTAL = MetricDefinition(
    "millrace_stream_task_silently_dropped_records_total",
    MetricKind.COUNTER,
    (*_TASK, "reason"),
    "Records that went no further where Kafka Streams counts nothing, by reason: null_key (in front of a repartition "
    "topic, or of a grouped table), before_window (before the start of unlimited windows).",
    "records",
)
DEAD_LETTERS_TOTAL = MetricDefinition(
    "millrace_stream_task_dead_letters_total",
    MetricKind.COUNTER,
    _TASK,
    "Records written to the dead-letter topic.",
    "records",
)
RECORDS_LAG = MetricDefinition(
    "millrace_consumer_records_lag",
    MetricKind.GAUGE,
    ("subtopology", "topic", "partition"),
    "Records (and markers) between the committed offset and the last stable offset of an input partition: what may be "
    "read. Records of open transactions are not counted, see the next three. Absent while either offset is unknown.",
    "records",
    "consumer-fetch-manager-metrics: records-lag",
)
LAST_STABLE_OFFSET = MetricDefinition(
    "millrace_consumer_last_stable_offset",
    MetricKind.GAUGE,
    ("subtopology", "topic", "partition"),
    "Offset up to which an input partition may be read: that of the first record of the oldest open transaction, or "
    "the end of the log.",
    "offset",
)
HIGH_WATERMARK = MetricDefinition(
    "millrace_consumer_high_watermark",
    MetricKind.GAUGE,
    ("subtopology", "topic", "partition"),
    "End of the log of an input partition, records of open transactions included.",
    "offset",
)
READER_HELD_BACK = MetricDefinition(
    "millrace_consumer_held_back_seconds",
    MetricKind.GAUGE,
    ("subtopology", "topic", "partition"),
    "For how long the application has been at the last stable offset of an input partition while an open transaction "
    "of who writes it kept that from moving; 0 while nothing holds it back.",
    "seconds",
)
LAST_COMMIT = MetricDefinition(
    "millrace_stream_last_commit_timestamp_seconds",
    MetricKind.GAUGE,
    ("subtopology",),
    "When a commit of the sub-topology last moved an offset, since the epoch. Absent before the first one.",
    "seconds",
)
BROKER_LAST_ANSWER = MetricDefinition(
    "millrace_stream_broker_last_answer_timestamp_seconds",
    MetricKind.GAUGE,
    (),
    "When a broker last answered the driver, since the epoch. Absent before the first answer.",
    "seconds",
)
RESTORE_REMAINING = MetricDefinition(
    "millrace_stream_task_restore_remaining_records",
    MetricKind.GAUGE,
    _TASK,
    "Changelog records that are still to be restored before the task can process.",
    "records",
    "stream-task-metrics: restore-remaining-records-total",
)
RESTORE_TOTAL = MetricDefinition(
    "millrace_stream_task_restore_records_total",
    MetricKind.COUNTER,
    _TASK,
    "Changelog records restored.",
    "records",
    "stream-task-metrics: restore-total",
)
RESTORE_RATE = MetricDefinition(
    "millrace_stream_task_restore_records_per_second",
    MetricKind.GAUGE,
    _TASK,
    "Changelog records restored per second in the task's latest restore.",
    "records per second",
    "stream-task-metrics: restore-rate",
)
FAILED_ATTEMPTS_TOTAL = MetricDefinition(
    "millrace_stream_task_failed_attempts_total",
    MetricKind.COUNTER,
    _TASK,
    "Attempts at a batch of the task that failed (its worker died, its transaction was aborted, the broker was "
    "away) before one succeeded.",
    "attempts",
)
STATE_REBUILDS_TOTAL = MetricDefinition(
    "millrace_stream_task_state_rebuilds_total",
    MetricKind.COUNTER,
    _TASK,
    "Times the task emptied its stores, because their files were damaged or gone, and restored them.",
    "rebuilds",
)
STORE_ENTRIES = MetricDefinition(
    "millrace_stream_state_estimate_num_keys",
    MetricKind.GAUGE,
    (*_TASK, "store"),
    "Estimated number of entries of a store.",
    "entries",
    "stream-state-metrics: estimate-num-keys, num-keys",
)
STORE_BYTES = MetricDefinition(
    "millrace_stream_state_size_bytes",
    MetricKind.GAUGE,
    (*_TASK, "store"),
    "Size of a store on disk (of an in-memory store: in memory).",
    "bytes",
    "stream-state-metrics: total-sst-files-size",
)
STREAM_TIME = MetricDefinition(
    "millrace_stream_task_stream_time_timestamp_seconds",
    MetricKind.GAUGE,
    (*_TASK, "store"),
    "Stream time of the windowed operator with that store in the task: the highest timestamp of the records that "
    "reached it, since the epoch.",
    "seconds",
)
HELD_BACK = MetricDefinition(
    "millrace_stream_state_held_back_results",
    MetricKind.GAUGE,
    (*_TASK, "store"),
    "Results that wait in the store: in a suppression buffer, or in windows that send theirs when they close. They go "
    "when stream time passes, not when the clock does: an idle stream holds its last ones back.",
    "results",
    "stream-state-metrics: suppression-buffer-count-avg, suppression-buffer-count-max",
)
HELD_BACK_BYTES = MetricDefinition(
    "millrace_stream_state_held_back_bytes",
    MetricKind.GAUGE,
    (*_TASK, "store"),
    "Bytes of what waits in a suppression buffer, as Kafka Streams counts them for the limit of its size.",
    "bytes",
    "stream-state-metrics: suppression-buffer-size-avg, suppression-buffer-size-max",
)
HELD_BACK_SINCE = MetricDefinition(
    "millrace_stream_state_held_back_since_timestamp_seconds",
    MetricKind.GAUGE,
    (*_TASK, "store"),
    "Of the result that has waited longest the end of its window or, in a buffer with a time limit, the time of its "
    "key's first change, since the epoch. Absent while nothing waits.",
    "seconds",
)
RECORD_LATENESS = MetricDefinition(
    "millrace_stream_task_record_lateness_seconds",
    MetricKind.HISTOGRAM,
    _TASK,
    "Stream time (the record itself included) minus the record's timestamp; 0 for records in order, never negative.",
    "seconds",
    "stream-task-metrics: record-lateness-avg, record-lateness-max",
    LATENESS_BUCKETS,
)
RECORD_LATENESS_MAX = MetricDefinition(
    "millrace_stream_task_record_lateness_max_seconds",
    MetricKind.GAUGE,
    _TASK,
    "Greatest lateness (stream time minus timestamp) in the task's latest batch with records.",
    "seconds",
    "stream-task-metrics: record-lateness-max",
)
END_TO_END_LATENCY = MetricDefinition(
    "millrace_stream_task_record_e2e_latency_seconds",
    MetricKind.HISTOGRAM,
    _TASK,
    "Time from a record's timestamp to the commit of the transaction that has its results.",
    "seconds",
    "stream-processor-node-metrics: record-e2e-latency-avg, -min, -max",
    END_TO_END_BUCKETS,
)
BATCH_DURATION = MetricDefinition(
    "millrace_stream_query_batch_duration_seconds",
    MetricKind.HISTOGRAM,
    ("subtopology",),
    "Time of one micro-batch of a query as the driver sees it, all tasks and Spark's own part included; stream threads "
    "have none.",
    "seconds",
    "",
    LATENCY_BUCKETS,
)
QUERY_RESTARTS_TOTAL = MetricDefinition(
    "millrace_stream_query_restarts_total",
    MetricKind.COUNTER,
    ("subtopology",),
    "Times the driver started a query again after it died.",
    "restarts",
    "stream-metrics: failed-stream-threads",
)
APPLICATION_STATE = MetricDefinition(
    "millrace_stream_application_state",
    MetricKind.GAUGE,
    ("state",),
    "1 for the state that the application is in, 0 for the others.",
    "one of the states",
    "stream-metrics: state",
)
DRIVER_EPOCH = MetricDefinition(
    "millrace_stream_driver_epoch",
    MetricKind.GAUGE,
    (),
    "Epoch of the driver; a driver with a higher one has taken over.",
    "epoch",
)
PAUSED = MetricDefinition(
    "millrace_stream_paused",
    MetricKind.GAUGE,
    (),
    "1 while the application is paused, else 0.",
    "0 or 1",
)

STREAM_THREADS = MetricDefinition(
    "millrace_stream_threads",
    MetricKind.GAUGE,
    (),
    "Stream threads that are connected to the driver. Absent where the application runs in micro-batches.",
    "threads",
    "stream-metrics: alive-stream-threads",
)
STREAM_THREADS_WANTED = MetricDefinition(
    "millrace_stream_threads_wanted",
    MetricKind.GAUGE,
    (),
    "Stream threads that there are to be: more than run where Spark has fewer slots than `num.stream.threads`, or a "
    "worker cannot reach the driver.",
    "threads",
)
STREAM_THREAD_TASKS = MetricDefinition(
    "millrace_stream_thread_tasks",
    MetricKind.GAUGE,
    ("thread",),
    "Tasks that the stream thread has, those that it is to hand over included.",
    "tasks",
    "stream-thread-metrics: task-created-total, task-closed-total",
)
STREAM_THREAD_STANDBYS = MetricDefinition(
    "millrace_stream_thread_standby_tasks",
    MetricKind.GAUGE,
    ("thread",),
    "Tasks of which the stream thread keeps a standby copy (`num.standby.replicas`).",
    "tasks",
)
STREAM_THREAD_STANDBY_LAG = MetricDefinition(
    "millrace_stream_thread_standby_lag_records",
    MetricKind.GAUGE,
    ("thread",),
    "Changelog offsets that the stream thread's standby copies do not have yet. Absent before the broker was asked.",
    "records",
)
STREAM_THREAD_SECONDS_TOTAL = MetricDefinition(
    "millrace_stream_thread_seconds_total",
    MetricKind.COUNTER,
    ("thread", "activity"),
    "Time that the stream thread has spent in poll, process, commit (while nothing else could be done) and idle since "
    "it began; it begins again with each epoch.",
    "seconds",
    "stream-thread-metrics: poll-ratio, process-ratio, commit-ratio",
)
STREAM_THREAD_COMMITS_TOTAL = MetricDefinition(
    "millrace_stream_thread_commits_total",
    MetricKind.COUNTER,
    ("thread",),
    "Commits of tasks by the stream thread since it began.",
    "commits",
    "stream-thread-metrics: commit-rate, commit-total",
)
STREAM_THREAD_COMMIT_SECONDS_TOTAL = MetricDefinition(
    "millrace_stream_thread_commit_latency_seconds_total",
    MetricKind.COUNTER,
    ("thread",),
    "Time from the begin to the end of these commits, added up.",
    "seconds",
    "stream-thread-metrics: commit-latency-avg",
)
STANDBY_LAG = MetricDefinition(
    "millrace_standby_lag_records",
    MetricKind.GAUGE,
    ("task",),
    "Changelog offsets that the copy of the task does not have yet. Absent before the broker was asked.",
    "records",
)
STANDBY_BEHIND = MetricDefinition(
    "millrace_standby_behind_seconds",
    MetricKind.GAUGE,
    ("task",),
    "Time since the copy last had everything that was committed. Absent where it never had.",
    "seconds",
)
STANDBY_RECORDS = MetricDefinition(
    "millrace_standby_records",
    MetricKind.GAUGE,
    ("task",),
    "Changelog records applied to the copy since it was opened.",
    "records",
    "stream-task-metrics: update-total",
)

METRICS: tuple[MetricDefinition, ...] = (
    PROCESS_TOTAL,
    BATCHES_TOTAL,
    RECORDS_PRODUCED_TOTAL,
    PROCESS_LATENCY,
    COMMIT_LATENCY,
    END_TO_END_LATENCY,
    PHASE_SECONDS_TOTAL,
    TRANSACTIONS_TOTAL,
    DROPPED_RECORDS_TOTAL,
    SILENTLY_DROPPED_RECORDS_TOTAL,
    DEAD_LETTERS_TOTAL,
    RECORDS_LAG,
    LAST_STABLE_OFFSET,
    HIGH_WATERMARK,
    READER_HELD_BACK,
    LAST_COMMIT,
    BROKER_LAST_ANSWER,
    STREAM_TIME,
    HELD_BACK,
    HELD_BACK_BYTES,
    HELD_BACK_SINCE,
    RECORD_LATENESS,
    RECORD_LATENESS_MAX,
    STORE_ENTRIES,
    STORE_BYTES,
    RESTORE_REMAINING,
    RESTORE_TOTAL,
    RESTORE_RATE,
    STATE_REBUILDS_TOTAL,
    FAILED_ATTEMPTS_TOTAL,
    BATCH_DURATION,
    QUERY_RESTARTS_TOTAL,
    APPLICATION_STATE,
    DRIVER_EPOCH,
    PAUSED,
    STREAM_THREADS,
    STREAM_THREADS_WANTED,
    STREAM_THREAD_TASKS,
    STREAM_THREAD_STANDBYS,
    STREAM_THREAD_STANDBY_LAG,
    STREAM_THREAD_SECONDS_TOTAL,
    STREAM_THREAD_COMMITS_TOTAL,
    STREAM_THREAD_COMMIT_SECONDS_TOTAL,
)
"""Those of the driver, in the order of the exposition and of the reference page."""

STANDBY_METRICS: tuple[MetricDefinition, ...] = (STANDBY_LAG, STANDBY_BEHIND, STANDBY_RECORDS)
"""Those of a standby, in the same order."""
