from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from millrace.metrics import (
    EXPORTED_METRICS,
    METRICS,
    STANDBY_METRICS,
    ApplicationMetrics,
    MetricDefinition,
    MetricKind,
    TaskStatistics,
)

by_name = pytest.mark.parametrize(
    "metric", METRICS + STANDBY_METRICS + EXPORTED_METRICS, ids=lambda metric: metric.name
)


@by_name
def test_counters_end_in_total_and_nothing_else_does(metric: MetricDefinition) -> None:
    """Case M04."""
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)


@by_name
def test_names_follow_prometheus_conventions(metric: MetricDefinition) -> None:
    assert re.fullmatch(r"millrace_[a-z0-9]+(_[a-z0-9]+)*", metric.name)
    assert not re.search(r"_(count|sum|bucket|created|info)$", metric.name)
    assert not re.search(r"_(counter|gauge|histogram|ms|milliseconds|minutes|kb|mb|kilobytes)(_|$)", metric.name)
    base = metric.name.removesuffix("_total")
    for unit in ("seconds", "bytes"):
        if metric.unit == unit:
            assert base.endswith(f"_{unit}")
    assert metric.help.endswith(".")
    assert metric.unit


@by_name
def test_labels_are_distinct_and_none_is_one_that_prometheus_or_the_exporter_sets(metric: MetricDefinition) -> None:
    assert len(set(metric.labels)) == len(metric.labels)
    assert not {"le", "quantile", "application_id", "job", "instance"} & set(metric.labels)
    assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)


@by_name
def test_only_histograms_have_buckets(metric: MetricDefinition) -> None:
    assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)


def test_names_are_distinct() -> None:
    names = [metric.name for metric in METRICS + STANDBY_METRICS + EXPORTED_METRICS]
    assert len(set(names)) == len(names)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_to_say() -> None:
    metrics = ApplicationMetrics("fraud")
    metrics.record(TaskStatistics(task_id="0_0", batch_id=0, run_id="r", host="h", pid=1))
    metrics.set_application(state="RUNNING", driver_epoch=1, paused=False)
    metrics.observe_batch(0, 0.1)
    metrics.set_lag(0, {("in", 0): 1})
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics.exposition(), capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
