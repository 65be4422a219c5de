"""Metrics: what tasks report, how the driver adds it up, and how Prometheus reads it."""

from __future__ import annotations

from millrace.metrics.definitions import (
    APPLICATION_STATES,
    METRICS,
    STANDBY_METRICS,
    DropReason,
    MetricDefinition,
    MetricKind,
    Phase,
    SilentDrop,
    TransactionOutcome,
)
from millrace.metrics.exported import EXPORTED_METRICS
from millrace.metrics.histograms import (
    END_TO_END_BUCKETS,
    LATENCY_BUCKETS,
    LATENESS_BUCKETS,
    BucketCounts,
    no_observations,
    observe,
    record_lateness_ms,
)
from millrace.metrics.registry import ApplicationMetrics, StreamThreadTotals, records_lag
from millrace.metrics.statistics import TaskStatistics

__all__ = [
    "APPLICATION_STATES",
    "END_TO_END_BUCKETS",
    "EXPORTED_METRICS",
    "LATENCY_BUCKETS",
    "LATENESS_BUCKETS",
    "METRICS",
    "STANDBY_METRICS",
    "ApplicationMetrics",
    "BucketCounts",
    "DropReason",
    "MetricDefinition",
    "MetricKind",
    "Phase",
    "SilentDrop",
    "StreamThreadTotals",
    "TaskStatistics",
    "TransactionOutcome",
    "no_observations",
    "observe",
    "record_lateness_ms",
    "records_lag",
]
