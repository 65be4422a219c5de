"""Every metric that no process serves: ``millrace export-metrics`` works them out and hands them to Prometheus.

All are gauges: an export replaces the one before. Every series has the label ``application_id`` besides its own.
"""

from __future__ import annotations

from enum import StrEnum

from millrace.metrics.definitions import MetricDefinition, MetricKind


class ExportPart(StrEnum):
    """The parts of an export. One that fails leaves the others alone, and its own series away."""

    SUPERVISION = "supervision"
    OPERATIONS = "operations"
    DRILLS = "drills"
    SAVEPOINTS = "savepoints"
    STATE = "state"
    STANDBY = "standby"
    CHANGELOGS = "changelogs"
    TRANSACTIONS = "transactions"
    LAG = "lag"
    RECOVERY = "recovery"
    EOS = "eos"


class OperationResult(StrEnum):
    """The result of an operation in the journals."""

    COMPLETED = "completed"
    ABANDONED = "abandoned"
    FAILED = "failed"
    UNFINISHED = "unfinished"


class DrillResult(StrEnum):
    """The result of a recovery drill."""

    PASSED = "passed"
    FAILED = "failed"


class TransactionState(StrEnum):
    """The state of a transactional id on the broker."""

    OPEN = "open"
    ENDING = "ending"
    COMMITTED = "committed"
    ABORTED = "aborted"
    EMPTY = "empty"


class RestoreFrom(StrEnum):
    """The start of a restoration."""

    CHANGELOG = "changelog"
    STANDBY = "standby"


def _gauge(name: str, labels: tuple[str, ...], help_text: str, unit: str) -> MetricDefinition:
    return MetricDefinition(name, MetricKind.GAUGE, labels, help_text, unit)


EXPORT_TIMESTAMP = _gauge(
    "millrace_export_timestamp_seconds",
    (),
    "When the application was exported last, since the epoch. Its age is the age of all other exported series.",
    "seconds",
)
VERDICT = _gauge(
    "millrace_application_verdict",
    ("verdict", "reason"),
    "1 for how the application was at the last export, and why, in the words of `millrace status --json`.",
    "one of the verdicts",
)
EXPORT_DURATION = _gauge(
    "millrace_export_duration_seconds", ("part",), "Time that a part of the export took.", "seconds"
)
EXPORT_PART_OK = _gauge(
    "millrace_export_part_ok",
    ("part",),
    "1 if a part of the export could be had, 0 if not: then its series are absent.",
    "0 or 1",
)
WANTED = _gauge(
    "millrace_application_wanted",
    (),
    "1 if the last operation asked for the application to run and its specification does not suspend it, else 0.",
    "0 or 1",
)
HEALTHY = _gauge(
    "millrace_application_healthy",
    (),
    "1 if the application runs and makes progress as its specification wants, else 0.",
    "0 or 1",
)
RESTARTS = _gauge(
    "millrace_application_restarts",
    (),
    "Restarts of the driver in a row since it last ran long enough without one.",
    "restarts",
)
LAUNCHED = _gauge(
    "millrace_application_launched_timestamp_seconds",
    (),
    "When the driver was launched last, since the epoch. Absent if it never was.",
    "seconds",
)
SUPERVISED = _gauge(
    "millrace_supervision_last_look_timestamp_seconds",
    (),
    "When a supervisor (a supervising task or a reconcile) looked at the application last, since the epoch. The "
    "export's own probe does not count. Absent if none ever did.",
    "seconds",
)
OPERATIONS = _gauge(
    "millrace_operations",
    ("operation", "result"),
    "Operations in the application's journals by kind and result: completed, abandoned, failed (at a step, and "
    "neither resumed nor abandoned), unfinished (runs, or was killed).",
    "operations",
)
OPERATION_LAST = _gauge(
    "millrace_operation_last_timestamp_seconds",
    ("operation", "result"),
    "When an operation of that kind and result ended last, since the epoch; of one that has not ended, when it began.",
    "seconds",
)
OPERATION_DURATION = _gauge(
    "millrace_operation_last_duration_seconds",
    ("operation",),
    "Time from begin to end of the latest completed operation of that kind, waits for a resume included.",
    "seconds",
)
DRILLS = _gauge(
    "millrace_recovery_drills",
    ("kind", "result"),
    "Recovery drills by what was killed and whether the application recovered: passed, failed.",
    "drills",
)
DRILL_LAST = _gauge(
    "millrace_recovery_drill_last_timestamp_seconds",
    ("kind", "result"),
    "When the latest drill of that kind and result finished, since the epoch.",
    "seconds",
)
DRILL_DURATION = _gauge(
    "millrace_recovery_drill_duration_seconds",
    ("kind",),
    "Recovery time that the latest drill of that kind measured, if it passed.",
    "seconds",
)
SAVEPOINTS = _gauge(
    "millrace_savepoints",
    ("state",),
    "Savepoints in the repository by state: in_progress, completed, failed.",
    "savepoints",
)
SAVEPOINT_LAST = _gauge(
    "millrace_savepoint_last_timestamp_seconds",
    (),
    "The moment of the newest complete savepoint, since the epoch. Absent without one.",
    "seconds",
)
SAVEPOINT_SIZE = _gauge(
    "millrace_savepoint_last_size_bytes",
    (),
    "Size of the newest complete savepoint, files that it shares with others included.",
    "bytes",
)
SAVEPOINT_INTERVAL = _gauge(
    "millrace_savepoint_interval_seconds",
    (),
    "Longest time between two savepoints that the specification wants (`savepoints.interval_s`). Absent where it says "
    "nothing.",
    "seconds",
)
DISK_FREE = _gauge(
    "millrace_state_filesystem_free_bytes",
    (),
    "Space left for the application on the file system of its state directory, on the exporting host.",
    "bytes",
)
DISK_SIZE = _gauge(
    "millrace_state_filesystem_size_bytes",
    (),
    "Size of the file system of the state directory, on the exporting host.",
    "bytes",
)
STANDBY_UP = _gauge(
    "millrace_recovery_standby_up",
    (),
    "1 while the standby of the exporting host runs, 0 when it has ended. Absent if there never was one.",
    "0 or 1",
)
STANDBY_LAG = _gauge(
    "millrace_recovery_standby_lag_records",
    ("subtopology", "task"),
    "Changelog offsets that the standby's copy of a task lacks, as the standby of the exporting host says.",
    "records",
)
STANDBY_ACCEPTABLE_LAG = _gauge(
    "millrace_recovery_standby_acceptable_lag_records",
    (),
    "Lag up to which a copy counts as caught up (`acceptable.recovery.lag`).",
    "records",
)
CHANGELOG_SIZE = _gauge(
    "millrace_changelog_size_bytes",
    ("topic",),
    "Size of a changelog on the broker, all partitions of one replica.",
    "bytes",
)
CHANGELOG_DIRTY = _gauge(
    "millrace_changelog_dirty_ratio",
    ("topic",),
    "Share of the newest records of a compacted changelog that a later record of the same key replaces, in its largest "
    "partition. The true share is at least this.",
    "share",
)
CHANGELOG_THRESHOLD = _gauge(
    "millrace_changelog_dirty_threshold",
    ("topic",),
    "Dirty share from which the broker cleans the changelog (`min.cleanable.dirty.ratio`).",
    "share",
)
BROKER_TRANSACTIONS = _gauge(
    "millrace_broker_transactions",
    ("state",),
    "The application's transactional ids by what the broker knows of their latest transaction: open, ending, "
    "committed, aborted, empty.",
    "transactional ids",
)
OLDEST_TRANSACTION = _gauge(
    "millrace_broker_transaction_oldest_open_seconds",
    (),
    "Age of the oldest open transaction of the application, as the broker reports it; 0 while none is open for "
    "longer than ten seconds.",
    "seconds",
)
TRANSACTION_TIMEOUT = _gauge(
    "millrace_broker_transaction_timeout_seconds",
    (),
    "Age at which the broker aborts a transaction of the application by itself (`transaction.timeout.ms` of its "
    "producers).",
    "seconds",
)
GROUP_LAG = _gauge(
    "millrace_consumer_group_lag_records",
    ("topic", "partition"),
    "Records between the group's committed offset and the last stable offset, so without those of open transactions. "
    "Where it is small, markers of transactions and aborted records are not counted: an application that has read all "
    "has lag 0. Absent without a committed offset.",
    "records",
)
RESTORE_ESTIMATE = _gauge(
    "millrace_recovery_estimated_seconds",
    ("restore_from",),
    "Estimated time to restore all stores on the exporting host: from changelog alone, or from the standby's copies.",
    "seconds",
)
RESTORE_ESTIMATE_RECORDS = _gauge(
    "millrace_recovery_estimated_records",
    ("restore_from",),
    "Changelog records that such a restoration would apply.",
    "records",
)
RECOVERY_OBJECTIVE = _gauge(
    "millrace_recovery_objective_seconds",
    (),
    "Longest recovery that the specification accepts (`health.recovery_objective_s`). Absent where it says nothing.",
    "seconds",
)
EOS_OVERHEAD = _gauge(
    "millrace_eos_overhead_ratio",
    ("subtopology",),
    "Share of the tasks' time since the driver started that went into ending transactions: seconds of phase commit "
    "divided by those of all phases.",
    "share",
)

EXPORTED_METRICS: tuple[MetricDefinition, ...] = (
    EXPORT_TIMESTAMP,
    EXPORT_DURATION,
    EXPORT_PART_OK,
    WANTED,
    HEALTHY,
    VERDICT,
    RESTARTS,
    LAUNCHED,
    SUPERVISED,
    OPERATIONS,
    OPERATION_LAST,
    OPERATION_DURATION,
    DRILLS,
    DRILL_LAST,
    DRILL_DURATION,
    SAVEPOINTS,
    SAVEPOINT_LAST,
    SAVEPOINT_SIZE,
    SAVEPOINT_INTERVAL,
    DISK_FREE,
    DISK_SIZE,
    STANDBY_UP,
    STANDBY_LAG,
    STANDBY_ACCEPTABLE_LAG,
    CHANGELOG_SIZE,
    CHANGELOG_DIRTY,
    CHANGELOG_THRESHOLD,
    BROKER_TRANSACTIONS,
    OLDEST_TRANSACTION,
    TRANSACTION_TIMEOUT,
    GROUP_LAG,
    RESTORE_ESTIMATE,
    RESTORE_ESTIMATE_RECORDS,
    RECOVERY_OBJECTIVE,
    EOS_OVERHEAD,
)
"""All of them, in the order of the export and of the reference page."""
